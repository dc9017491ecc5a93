"""Helpers for the side of a check that runs in the ranks. Imports torch; the notebook never imports this."""

from __future__ import annotations

import json
import math
from typing import Any

import torch
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
