"""NCCL for reading: `explain(log)` says what each line of its log means, `topology()` how the GPUs are connected.

The meanings follow NVIDIA's documentation (docs.nvidia.com/deeplearning/nccl, "Logging" and "Environment
Variables") and Hu et al., "Demystifying NCCL", arXiv:2507.04786.
"""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import NamedTuple

from ddp_course.launcher import gpus

_PREFIX = re.compile(r"^(?:\[[^\]]*\] )?\S+:\d+:\d+ (?:\[\d+\] )?(?:\S+:\d+ )?NCCL (?:INFO|WARN) ")
_WIDTH = 100


_WOULD_BE = "With several GPUs you would see a table, GPU by GPU. What its entries mean, fastest first:"
_PATHS = {
    "NVLink": "GPU to GPU, past the CPU",
    "PCIe switch": "over PCIe, past the CPU",
    "PCIe host bridge": "over PCIe and one bridge of the CPU",
    "PCIe across the CPU's own links": "over several bridges of one CPU",
    "PCIe across sockets": "from one CPU to the other: slowest",
}


class Line(NamedTuple):
    """A kind of line in NCCL's log: how to know it, how it typically looks, and what it says."""

    pattern: str
    typical: str
    meaning: str


LINES = (
    Line(
        r"Bootstrap\b.*Using",
        "Bootstrap: Using eth0:10.0.0.1<0>",
        "the network interface on which the ranks first meet. The wrong one? NCCL_SOCKET_IFNAME chooses.",
    ),
    Line(r"NCCL version", "NCCL version 2.x+cuda…", "which NCCL; all ranks need the same."),
    Line(
        r"NET/IB : (Using|No device)",
        "NET/IB : Using [0]mlx5_0:1/IB",
        "the InfiniBand or RoCE adapters found. NCCL_IB_HCA chooses among them.",
    ),
    Line(
        r"(Using network|Assigned NET plugin)",
        "Using network IB",
        "what carries data between machines. `Socket` on a cluster that has InfiniBand is a mistake, and slow.",
    ),
    Line(
        r"Channel \d+/\d+ :( +\d+){2,}",
        "Channel 00/16 : 0 1 2 3 4 5 6 7",
        "the first of 16 channels, and the order of the ranks in its ring.",
    ),
    Line(
        r"Ring \d+ : ",
        "Ring 00 : 7 -> 0 -> 1",
        "this rank's neighbours: it receives from 7 and sends to 1.",
    ),
    Line(
        r"Trees \[0\]",
        "Trees [0] 1/-1/-1->0->-1",
        "child or children, this rank, parent; -1 is nobody. Rank 0 is the root of tree 0, and 1 is its child.",
    ),
    Line(
        r"via P2P",
        "Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM",
        "GPU to GPU directly, over NVLink or PCIe. Within a machine this is what you want to read.",
    ),
    Line(
        r"via SHM",
        "Channel 00/0 : 0[0] -> 1[1] via SHM/direct/direct",
        "through the host's memory, because the GPUs cannot reach each other. In a container, /dev/shm must be large.",
    ),
    Line(
        r"via NET/",
        "Channel 00/0 : 7[7] -> 8[0] [send] via NET/IB/0/GDRDMA",
        "to another machine. GDRDMA: the adapter reads the GPU's memory itself, without a detour over the host.",
    ),
    Line(
        r"NVLS (comm|multicast)|NVLS head",
        "NVLS multicast support is available",
        "the NVLink switch can add numbers on their way (NVLink SHARP).",
    ),
    Line(r"Connected all (rings|trees)", "Connected all rings", "every connection stands."),
    Line(
        r"\d+ coll channels",
        "16 coll channels, 16 collnet channels, 0 nvls channels, 32 p2p channels",
        "how many channels each kind of operation may use; each takes one block of GPU threads.",
    ),
    Line(
        r"Init COMPLETE",
        "comm … rank 0 nranks 8 cudaDev 0 busId … - Init COMPLETE",
        "the communicator is ready. A rank whose line is missing is the one the others wait for.",
    ),
)


def explain(log: str | Path) -> str:
    """The log of a rank (the file that NCCL_DEBUG_FILE named) with the meaning of each kind of line.

    Where the file does not exist, because the ranks used gloo: typical lines instead, and their meanings.
    """
    path = Path(log)
    if not path.exists():
        head = (
            "The ranks used gloo, so there is no NCCL log. With a GPU for each rank, this cell explains their own.\n"
            "Lines to look for, as they typically look:"
        )
        return "\n".join([head, *(_entry(line.typical, line.meaning) for line in LINES)])
    text = path.read_text(encoding="utf-8", errors="replace")
    seen = [_PREFIX.sub("", line).strip() for line in text.splitlines()]
    parts = [f"{path.name}: {len(seen)} lines. The first of each kind, in the order of the log:"]
    firsts: dict[int, tuple[int, str]] = {}
    for position, line in enumerate(seen):
        for kind, known in enumerate(LINES):
            if kind not in firsts and re.search(known.pattern, line):
                firsts[kind] = (position, line)
                break
    for kind, (_, line) in sorted(firsts.items(), key=lambda item: item[1][0]):
        parts.append(_entry(line, LINES[kind].meaning))
    return "\n".join(parts)


def _entry(line: str, meaning: str) -> str:
    return f"\n{textwrap.shorten(line, _WIDTH, placeholder=' …')}\n" + textwrap.fill(
        meaning, _WIDTH, initial_indent="    ", subsequent_indent="    "
    )


def topology(found: gpus.Gpus | None = None) -> str:
    """How this machine's GPUs are connected, a row for each GPU, as NVML tells; in words where there are none."""
    found = gpus.find() if found is None else found
    if found.error:
        return found.error
    if len(found.devices) < 2:
        here = str(found) if found.devices else "no NVIDIA GPU"
        paths = "\n".join(f"  {kind:34}{path}" for kind, path in _PATHS.items())
        return f"This machine has {here}, so no two are connected.\n{_WOULD_BE}\n\n{paths}"
    kinds = {(i, j): kind for a, b, kind in found.links for i, j in ((a, b), (b, a))}
    names = [device.index for device in found.devices]
    width = max([6, *(len(kind) for kind in kinds.values())]) + 2
    rows = ["".ljust(7) + "".join(f"GPU {name}".ljust(width) for name in names)]
    for i in names:
        rows.append(f"GPU {i}".ljust(7) + "".join(kinds.get((i, j), "–").ljust(width) for j in names))
    return "\n".join([str(found), "", *(row.rstrip() for row in rows)])
