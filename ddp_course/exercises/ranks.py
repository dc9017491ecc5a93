"""Helpers for the side of a check that runs in the ranks. Imports torch; the notebook never imports this."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch._C import _distributed_c10d as c10d


def mark() -> int:
    """A point in what this rank sends, for `collectives(since=…)`."""
    return max((int(entry["record_id"]) + 1 for entry in _recorded()), default=0)


def collectives(since: int = 0) -> list[list[Any]]:
    """What this rank has sent since a mark, from PyTorch's flight recorder: [name, numbers of elements, dtype] each.

    The recorder sits below `torch.distributed`: renamed, wrapped and DDP's own calls are all in it.
    """
    entries = [entry for entry in _recorded() if int(entry["record_id"]) >= since]
    return [
        [
            entry["profiling_name"].split(":")[-1].split(" ")[0],
            [math.prod(size) for size in entry["input_sizes"]],
            entry["input_dtypes"][0] if entry["input_dtypes"] else "",
        ]
        for entry in sorted(entries, key=lambda entry: int(entry["record_id"]))
    ]


def _recorded() -> list[dict[str, Any]]:
    trace = c10d._dump_fr_trace_json(True, False)  # type: ignore[attr-defined]
    return list(json.loads(trace).get("entries", []))


def randn(seed: int, *shape: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    """The same normal numbers for the same seed on every rank, and other ones for every other seed."""
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).to(dtype)


def plain(value: Any) -> Any:
    """A learner's result as JSON: tensors become lists; anything that JSON has no form for becomes its text."""
    if isinstance(value, torch.Tensor):
        return value.detach().cpu().tolist()
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return plain(value.tolist()) if hasattr(value, "tolist") else f"a {type(value).__name__}"


def seeded(seed: int, make: Callable[[], nn.Module]) -> nn.Module:
    """`make()` in float64, with the same weights for the same seed, and the random state left alone."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return make().double()


def values(model: nn.Module) -> dict[str, Any]:
    """Every parameter and buffer of a model as lists, by name; tied ones once."""
    named = [*model.named_parameters(), *model.named_buffers()]
    return {name: plain(tensor) for name, tensor in named}


def values_per_rank(models: Sequence[nn.Module]) -> dict[str, Any]:
    """The same of one model a rank, in the form that `compare` takes."""
    each = [values(model) for model in models]
    return {name: {"per rank": [one[name] for one in each]} for name in each[0]}


Batch = tuple[torch.Tensor, ...]


def simulate(
    models: list[nn.Module],
    steps: list[list[Batch | None]],
    combine: str = "mean",
    optimizer: Callable[[nn.Module], torch.optim.Optimizer] | None = None,
    apart: str | None = None,
) -> list[nn.Module]:
    """Train one model a rank in this process: the oracle. `steps[step][rank]` is its batch, None for none.

    `combine`: what each rank steps with: the mean of the gradients, their sum, or its own; its own also for
    the parameters whose name starts with `apart`. Returns the models.
    """
    make = optimizer or sgd
    optimizers = [make(model) for model in models]
    for batches in steps:
        for model, batch in zip(models, batches, strict=True):
            model.zero_grad()
            if batch is not None:
                mse(model, batch).backward()
        for named in zip(*[model.named_parameters() for model in models], strict=True):
            is_apart = apart is not None and named[0][0].startswith(apart)
            _combine([parameter for _, parameter in named], "own" if is_apart else combine)
        for its in optimizers:
            its.step()
    return models


def _combine(parameters: list[nn.Parameter], how: str) -> None:
    grads = [p.grad for p in parameters if p.grad is not None]
    if not grads or how == "own":
        return
    total = torch.stack(grads).sum(0) / (len(parameters) if how == "mean" else 1)
    for parameter in parameters:
        parameter.grad = total.clone()


def sgd(model: nn.Module) -> torch.optim.Optimizer:
    """SGD with momentum: unlike Adam it shows a gradient of the wrong size, unlike plain SGD a lost state."""
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def mse(model: nn.Module, batch: Batch) -> torch.Tensor:
    """The mean squared error of a batch (inputs…, targets)."""
    *inputs, targets = batch
    return nn.functional.mse_loss(model(*inputs), targets)


@contextmanager
def watching(module: Any, name: str) -> Iterator[list[dict[str, Any]]]:
    """The keyword arguments of every call of `module.name` meanwhile, positional ones as "0", "1" …"""
    original, calls = getattr(module, name), []

    def watched(*args: Any, **kwargs: Any) -> Any:
        calls.append({**{str(i): arg for i, arg in enumerate(args)}, **kwargs})
        return original(*args, **kwargs)

    setattr(module, name, watched)
    try:
        yield calls
    finally:
        setattr(module, name, original)
