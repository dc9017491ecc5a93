"""The model, the batch and the measure of lesson 1's pipelines. Four stages, float64, the same on every rank."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ddp_course.launcher.reporting import report

STAGES, WIDTH, SAMPLES = 4, 8, 16


def stage_of(rank: int) -> Any:
    """The layers of a stage; every call gives the same weights."""
    return _stages()[rank]


def batch() -> tuple[Any, Any]:
    """(inputs, targets), each (16, 8)."""
    import torch

    generator = torch.Generator().manual_seed(1)
    inputs, targets = torch.randn(2, SAMPLES, WIDTH, generator=generator, dtype=torch.float64)
    return inputs, targets


def apart(stage: Any, rank: int, outputs: Any = None) -> float:
    """Take a step of SGD with the gradients of a stage, and compare with one process: the largest difference.

    Compared are the gradients and the weights after the step, and `outputs` where the last stage gives them; the
    loss is the mean squared error of the batch.
    """
    import torch
    from torch import nn

    stages = _stages()
    whole = nn.Sequential(*stages)
    inputs, targets = batch()
    right = whole(inputs)
    nn.functional.mse_loss(right, targets).backward()
    for model in (whole, stage):
        torch.optim.SGD(model.parameters(), lr=0.1).step()
    pairs = [(right, outputs)] if outputs is not None else []
    for theirs, ours in zip(stages[rank].parameters(), stage.parameters(), strict=True):
        pairs += [(theirs, ours), (theirs.grad, ours.grad)]
    return max((a - b).abs().max().item() for a, b in pairs)


def _stages() -> list[Any]:
    import torch
    from torch import nn

    with torch.random.fork_rng():
        torch.manual_seed(0)
        return [nn.Sequential(nn.Linear(WIDTH, WIDTH, dtype=torch.float64), nn.Tanh()) for _ in range(STAGES)]


def in_a_slot(kind: str, m: int, micro: int, seconds: float, work: Callable[[], Any]) -> Any:
    """What `work` returns, after at least `seconds`: it stands for work on a GPU of this rank's own.

    Ranks that share cores would slow each other down; a rank that waits, as for a GPU, leaves the cores to others.
    Reports start and end, in seconds, of micro-batch `micro` of `m`, as "forward" or "backward".
    """
    start = time.time()
    result = work()
    time.sleep(max(0.0, start + seconds - time.time()))
    report(m=m, kind=kind, micro=micro, start=start, end=time.time())
    return result


def bubble(spans: Iterable[Mapping[str, Any]]) -> float:
    """The share of the time, from the first start to the last end, in which the ranks did not work: 0 to 1.

    `spans`: dicts with rank, start and end in seconds. The mean over the ranks.
    """
    rows = list(spans)
    begin, end = min(row["start"] for row in rows), max(row["end"] for row in rows)
    ranks = {row["rank"] for row in rows}
    busy = sum(row["end"] - row["start"] for row in rows)
    return float(1 - busy / (len(ranks) * (end - begin)))
