"""Data parallelism by hand: the learner's own two functions, and the course's until those have passed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any


def start_alike(model: Any) -> None:
    """Give every rank the parameters of rank 0."""
    import torch.distributed as dist

    for parameter in model.parameters():
        dist.broadcast(parameter.data, src=0)


def step(model: Any, inputs: Any, targets: Any, reduction: str, lr: float) -> None:
    """One SGD step on `F.mse_loss` over the samples of all ranks; `reduction` is "mean" or "sum"."""
    import torch
    import torch.distributed as dist
    from torch.nn.functional import mse_loss

    parameters = list(model.parameters())
    grads = torch.autograd.grad(mse_loss(model(inputs), targets, reduction="sum"), parameters)
    count = torch.tensor(targets.numel(), dtype=torch.float64)
    dist.all_reduce(count)
    flat = torch.cat([grad.flatten() for grad in grads])
    dist.all_reduce(flat)
    scale = lr / count.item() if reduction == "mean" else lr
    for parameter, grad in zip(parameters, flat.split([p.numel() for p in parameters]), strict=True):
        parameter.data -= scale * grad.view_as(parameter)


def one_process_step() -> tuple[Callable[[Any], None], Callable[..., None]]:
    """`start_alike` and `step`: the learner's where their check has passed, else the course's."""
    theirs = mine("one_process_step")
    return (theirs["start_alike"], theirs["step"]) if theirs else (start_alike, step)


def mine(exercise: str) -> dict[str, Any]:
    """What the newest version of the learner's answer defines; empty where its check has not passed (yet)."""
    from ddp_course.exercises import bookkeeping

    versions = sorted(Path(".ddp_course", "answers", exercise).glob("[0-9]*.py"))
    if not versions or bookkeeping.read().get(exercise, {}).get("state") != "done":
        return {}
    found: dict[str, Any] = {"__name__": exercise}
    exec(compile(versions[-1].read_text(encoding="utf-8"), f"{exercise}.py", "exec", dont_inherit=True), found)
    return found
