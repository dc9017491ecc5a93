"""PyTorch's flight recorder as this course keeps it: the last collectives of a rank, each with the learner's line.

Runs inside a rank, at its end or when the launcher asks; standard library only.
"""

from __future__ import annotations

import json
import os
import pickle
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from ddp_course.launcher import leftovers

_DEFAULT = "default"  # the group of all ranks
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_STDLIB = tuple(os.path.dirname(file) + os.sep for file in {os.__file__, os.path.realpath(os.__file__)})


@cache
def is_library(file: str) -> bool:
    """Whether a source file belongs to Python, to an installed package or to this one, not to the learner."""
    parts = file.split(os.sep)
    return (
        "site-packages" in parts
        or "dist-packages" in parts
        or file.startswith((_PACKAGE, "<frozen", "<string>", *_STDLIB))  # <string>: python -c, which starts a server
        or not file
    )


def collectives(at_end: bool = False) -> dict[str, Any] | None:
    """The last collectives (2,000 at most) and the members of each process group; None where torch is not in use.

    A call holds `group` and `id` (its process group), `seq` (1 for the group's first), `op`, `sizes`, `dtypes`,
    `out` (output sizes), `done`, `time_ns`, and the learner's `file` and `line` ('' and 0 where unknown).
    At the script's end also `remarks`: mistakes that raised nothing.
    """
    c10d = sys.modules.get("torch._C._distributed_c10d")
    if c10d is None:
        return None
    calls = []
    with _no_inductor():
        for name in ("_dump_fr_trace", "_dump_nccl_trace"):  # NCCL keeps a recorder of its own
            if dump := getattr(c10d, name, None):
                calls += pickle.loads(dump(True, True, False)).get("entries", [])
    remarks = leftovers.remarks() if at_end and calls else []
    return {"groups": _groups(), "calls": [_call(entry) for entry in calls], "remarks": remarks}


@contextmanager
def _no_inductor() -> Iterator[None]:
    """For each frame PyTorch asks torch._inductor whether it compiled that code, and imports it for that: a second
    of every rank's end. Where it is not imported it has compiled nothing, and this says so."""
    names = ("torch._inductor", "torch._inductor.codecache")
    if any(name in sys.modules for name in names):
        yield
        return
    package, codecache = map(ModuleType, names)
    vars(package)["codecache"] = codecache
    vars(codecache)["PyCodeCache"] = SimpleNamespace(stack_frames_for_code=lambda *_: None)
    sys.modules.update(zip(names, (package, codecache), strict=True))
    try:
        yield
    finally:
        for name in names:
            sys.modules.pop(name, None)


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


def write(path: Path, at_end: bool) -> None:
    """Write `collectives(at_end)` to `path` as JSON, all of it or nothing. Raises OSError where that fails."""
    content = collectives(at_end)
    if content is not None:
        partial = path.with_name(path.name + ".part")
        partial.write_text(json.dumps(content, separators=(",", ":")))
        os.replace(partial, path)
