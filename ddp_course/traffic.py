"""A log of the collectives that a program asks for, with their bytes: real ones and those of a fake process group.

It sits above the backend. gloo carries out a reduce-scatter as an all-reduce, and the flight recorder, which sits
below, shows that; NCCL has one of its own.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

_NAMES = {
    "_allgather_base_": "all_gather",
    "allgather_": "all_gather",
    "_reduce_scatter_base_": "reduce_scatter",
    "reduce_scatter_": "reduce_scatter",
    "allreduce_": "all_reduce",
    "broadcast_": "broadcast",
}


class Collectives(TorchDispatchMode):
    """Logs the collectives inside a `with`: `log` holds (name, bytes) of each, in order.

    The bytes are those of the whole tensor: what comes out of an all-gather, and goes into the others. Collectives
    that C++ starts, such as DDP's own all-reduces, are not seen.
    """

    def __init__(self) -> None:
        super().__init__()
        self.log: list[tuple[str, int]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation, and log it where it is a collective."""
        name = func._schema.name.removeprefix("c10d::")
        if name in _NAMES:
            self.log.append((_NAMES[name], max(_nbytes(arg) for arg in args[:2])))
        return func(*args, **(kwargs or {}))


def sent(log: list[tuple[str, int]], ranks: int) -> float:
    """Bytes that each rank sends for these collectives around a ring: an all-reduce passes every byte twice."""
    return sum((2 if name == "all_reduce" else 1) * size * (ranks - 1) / ranks for name, size in log)


def _nbytes(arg: Any) -> int:
    if isinstance(arg, (list, tuple)):
        return sum(map(_nbytes, arg))
    return arg.nbytes if isinstance(arg, torch.Tensor) else 0
