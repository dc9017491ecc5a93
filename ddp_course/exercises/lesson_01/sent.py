"""What a rank sends, seen where every call of `torch.distributed` passes: the methods of its process group.

PyTorch's flight recorder does not list gloo's send and receive, and lists gloo's reduce-scatter as an all-reduce.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from torch.distributed import ProcessGroup

from ddp_course.exercises.ranks import watching

_METHODS = {
    "send": "send",
    "allreduce": "all_reduce",
    "broadcast": "broadcast",
    "reduce": "reduce",
    "gather": "gather",
    "scatter": "scatter",
    "allgather": "all_gather",
    "_allgather_base": "all_gather",
    "reduce_scatter": "reduce_scatter",
    "reduce_scatter_single": "reduce_scatter",
    "all_gather_single": "all_gather",
    "all_to_all_single": "all_to_all",
    "_reduce_scatter_base": "reduce_scatter",
    "alltoall": "all_to_all",
    "alltoall_base": "all_to_all",
}
_INPUT_IS_FIRST = ("send", "allreduce", "broadcast", "reduce")


@contextmanager
def sent() -> Iterator[list[dict[str, Any]]]:
    """What this rank sends meanwhile, listed when the block ends: a dict with name, elements, bytes and to."""
    calls: list[dict[str, Any]] = []
    with ExitStack() as stack:
        watched = {name: stack.enter_context(watching(ProcessGroup, name)) for name in _METHODS}
        yield calls
    for method, seen in watched.items():
        for call in seen:
            tensors = _tensors(call.get("1" if method in _INPUT_IS_FIRST else "2"))
            calls.append(
                {
                    "name": _METHODS[method],
                    "elements": sum(tensor.numel() for tensor in tensors),
                    "bytes": sum(tensor.numel() * tensor.element_size() for tensor in tensors),
                    "to": call.get("2") if method == "send" else None,
                }
            )


def _tensors(value: Any) -> list[Any]:
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in _tensors(item)]
    return [value] if hasattr(value, "numel") else []
