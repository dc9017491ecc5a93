"""PyTorch's flight recorder as this course keeps it: the last collectives of a rank, each with the learner's line.

Runs inside a rank, at its end or when the launcher asks; standard library only.
"""

from __future__ import annotations

import json
import os
import pickle
import sys
from functools import cache
from pathlib import Path
from typing import Any

_DEFAULT = "default"  # the group of all ranks
_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_STDLIB = tuple(os.path.dirname(file) + os.sep for file in {os.__file__, os.path.realpath(os.__file__)})


@cache
def is_library(file: str) -> bool:
    """Whether a source file belongs to Python, to an installed package or to this one, not to the learner."""
    parts = file.split(os.sep)
    return (
        "site-packages" in parts
        or "dist-packages" in parts
        or file.startswith((_PACKAGE, "<frozen", *_STDLIB))
        or not file
    )


def collectives() -> dict[str, Any] | None:
    """The last collectives (2,000 at most) and the members of each process group; None where torch is not in use.

    A call holds `group` and `id` (its process group), `seq` (1 for the group's first), `op`, `sizes`, `dtypes`,
    `out` (output sizes), `done`, `time_ns`, and the learner's `file` and `line` ('' and 0 where unknown).
    """
    c10d = sys.modules.get("torch._C._distributed_c10d")
    if c10d is None:
        return None
    calls = []
    for name in ("_dump_fr_trace", "_dump_nccl_trace"):  # NCCL keeps a recorder of its own
        if dump := getattr(c10d, name, None):
            calls += pickle.loads(dump(True, True, False)).get("entries", [])
    return {"groups": _groups(), "calls": [_call(entry) for entry in calls]}


def _groups() -> dict[str, list[int]]:
    world = getattr(sys.modules.get("torch.distributed.distributed_c10d"), "_world", None)
    if world is None:
        return {}
    ranks = world.pg_group_ranks
    return {
        _DEFAULT if group is world.default_pg else name: sorted(ranks[group])
        for group, name in list(world.pg_names.items())
        if group in ranks
    }


def _call(entry: dict[str, Any]) -> dict[str, Any]:
    frame: dict[str, Any] = next((f for f in entry.get("frames", []) if not is_library(f["filename"])), {})
    name, description = entry["process_group"]
    return {
        "group": _DEFAULT if description == "default_pg" else name,
        "id": entry["pg_id"],
        "seq": entry["p2p_seq_id" if entry["is_p2p"] else "collective_seq_id"],
        "op": entry["profiling_name"].rpartition(":")[2],
        "p2p": entry["is_p2p"],
        "sizes": entry["input_sizes"],
        "dtypes": entry["input_dtypes"] or entry["output_dtypes"],
        "out": entry["output_sizes"],
        "done": bool(entry["retired"]) or entry["state"] == "completed",
        "time_ns": entry["time_created_ns"],
        "file": frame.get("filename", ""),
        "line": frame.get("line", 0),
    }


def write(path: Path) -> None:
    """Write `collectives()` to `path` as JSON, all of it or nothing. Raises OSError where that fails."""
    content = collectives()
    if content is not None:
        partial = path.with_name(path.name + ".part")
        partial.write_text(json.dumps(content, separators=(",", ":")))
        os.replace(partial, path)
