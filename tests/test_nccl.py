"""What the lesson says of NCCL's log and of the machine's topology, with and without GPUs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ddp_course import nccl
from ddp_course.launcher.gpus import Device, Gpus

# Lines in the form that NCCL writes them, of an invented machine with two GPUs.
LOG = """\
NCCL version 2.30.3+cuda13.0
[2026-05-05 06:16:47] node-a:700:700 [0] NCCL INFO Bootstrap: Using lo:127.0.0.1<0>
node-a:700:731 [0] NCCL INFO NET/IB : No device found.
node-a:700:731 [0] NCCL INFO Using network Socket
node-a:700:731 [0] NCCL INFO Channel 00/24 :    0   1
node-a:700:731 [0] NCCL INFO Channel 01/24 :    0   1
node-a:700:731 [0] NCCL INFO Ring 00 : 1 -> 0 -> 1
node-a:700:731 [0] NCCL INFO Trees [0] 1/-1/-1->0->-1 [1] -1/-1/-1->0->1
node-a:700:731 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM
node-a:700:731 [0] NCCL INFO Connected all rings
node-a:700:731 [0] NCCL INFO 24 coll channels, 24 collnet channels, 16 nvls channels, 32 p2p channels
node-a:700:731 [0] NCCL INFO comm 0x5581 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1b000 - Init COMPLETE
"""


def entries(text: str) -> dict[str, str]:
    """line → its meaning, of an explanation."""
    parts = [part.split("\n", 1) for part in text.split("\n\n")[1:]]
    return {line: " ".join(meaning.split()) for line, meaning in parts}


def test_every_kind_of_line_in_a_log_is_explained_once_without_host_and_process(tmp_path: Path) -> None:
    (tmp_path / "nccl.log").write_text(LOG)
    said = nccl.explain(tmp_path / "nccl.log")
    explained = entries(said)
    assert len(explained) == len(LOG.splitlines()) - 1  # the second channel needs no explanation
    assert said.startswith("nccl.log: 12 lines.")
    assert "node-a" not in said
    assert explained["Using network Socket"].startswith("what carries data between machines")
    assert explained["Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM"].startswith("GPU to GPU directly")
    assert explained["Bootstrap: Using lo:127.0.0.1<0>"].startswith("the network interface")


def test_without_a_log_the_typical_lines_are_explained(tmp_path: Path) -> None:
    said = nccl.explain(tmp_path / "none.log")
    assert said.startswith("The ranks used gloo, so there is no NCCL log.")
    assert list(entries(said)) == [line.typical for line in nccl.LINES]


@pytest.mark.parametrize("line", nccl.LINES, ids=lambda line: line.typical)
def test_a_typical_line_is_known_as_its_own_kind(line: nccl.Line) -> None:
    first = next(known for known in nccl.LINES if re.search(known.pattern, line.typical))
    assert first is line


def test_a_log_cut_off_or_of_another_library_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "nccl.log").write_bytes(b"node-a:1:1 [0] NCCL INFO Boot\xff\xfe")
    assert nccl.explain(tmp_path / "nccl.log").startswith("nccl.log: 1 lines.")


def gpus(*links: tuple[int, int, str]) -> Gpus:
    count = max((max(a, b) for a, b, _ in links), default=0) + 1
    return Gpus([Device(i, f"GPU-{i}", "H200", 141 << 30) for i in range(count)], links)


def test_the_topology_is_a_symmetric_table() -> None:
    said = nccl.topology(gpus((0, 1, "NVLink"), (0, 2, "PCIe across sockets"), (1, 2, "PCIe switch")))
    table = [re.split(r"\s{2,}", row) for row in said.split("\n\n")[1].splitlines()]
    assert table == [
        ["", "GPU 0", "GPU 1", "GPU 2"],
        ["GPU 0", "–", "NVLink", "PCIe across sockets"],
        ["GPU 1", "NVLink", "–", "PCIe switch"],
        ["GPU 2", "PCIe across sockets", "PCIe switch", "–"],
    ]


@pytest.mark.parametrize(("found", "here"), [(Gpus(), "no NVIDIA GPU"), (gpus(), "1 × H200, 141 GiB")])
def test_with_fewer_than_two_gpus_it_says_what_would_be_there(found: Gpus, here: str) -> None:
    said = nccl.topology(found)
    assert said.startswith(f"This machine has {here}")
    assert "NVLink" in said and "PCIe across sockets" in said


def test_a_driver_that_does_not_answer_is_named() -> None:
    assert nccl.topology(Gpus(error="NVML: Driver/library version mismatch")).startswith("NVML: Driver")
