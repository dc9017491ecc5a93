"""Lesson 1: its ring, its pictures, and that its own functions are the ones that its checks ask for."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest

from ddp_course import by_hand, launch, ring
from ddp_course.exercises import bookkeeping, check, find
from ddp_course.memory import fp32_adamw
from ddp_course.pictures.lesson_01 import collectives, memory_bars, ring_steps

RING = """\
import sys
import torch
import torch.distributed as dist
from ddp_course import report
from ddp_course.exercises.lesson_01.sent import sent
from ddp_course.ring import ring_all_reduce

dist.init_process_group("gloo")
tensor = torch.arange(1.0, float(sys.argv[1]) + 1) * 10 ** dist.get_rank()
with sent() as messages:
    ring_all_reduce(tensor, log=report)
report(messages=messages)
"""


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def logged(length: int, ranks: int) -> Any:
    Path("cell.py").write_text(RING)
    return launch("cell.py", length, nproc_per_node=ranks).reports


@pytest.mark.parametrize(("length", "ranks"), [(8, 4), (7, 3), (1, 2)])
def test_the_log_of_the_ring_is_what_was_sent(length: int, ranks: int) -> None:
    reports = logged(length, ranks)
    total = [float(sum(10**rank for rank in range(ranks)) * (i + 1)) for i in range(length)]
    for rank in range(ranks):
        own = [report for report in reports if report["rank"] == rank]
        steps = [report for report in own if "to" in report]
        assert [report["steps"] for report in steps] == list(range(1, 2 * ranks - 1))
        assert steps[-1]["tensor"] == total
        (messages,) = [report["messages"] for report in own if "messages" in report]
        assert [m["to"] for m in messages] == [report["to"] for report in steps] == [(rank + 1) % ranks] * len(steps)
        assert [m["elements"] for m in messages] == [len(report["values"]) for report in steps]
    assert sum(m["bytes"] for r in reports if "messages" in r for m in r["messages"]) == 2 * (ranks - 1) * length * 4


def test_the_ring_is_drawn_from_the_log() -> None:
    frames = ring_steps(logged(8, 4))
    assert list(frames) == list(range(7))
    start, end = ({text.get_text() for text in frames[step].axes[0].texts} for step in (0, 6))
    assert {"1", "20", "300", "4000"} <= start and {"1111", "8888"} <= end and "1" not in end
    arrows = [patch for patch in frames[3].axes[0].patches if type(patch).__name__ == "FancyArrowPatch"]
    assert len(arrows) == 4 and "rank 3 sent chunk 1 to rank 0" in frames[3].caption
    assert all(not text.endswith(".0") for text in start)


def test_collectives_are_drawn_with_the_values_of_the_run() -> None:
    reports = [
        {"rank": rank, "op": op, "before": [10.0**rank], "after": [111.0]}
        for rank in range(3)
        for op in ("all_reduce", "reduce")
    ]
    picture = collectives(reports)
    assert [axes.get_title() for axes in picture.axes] == ["reduce", "all_reduce"]
    numbers = [text.get_text() for text in picture.axes[1].texts if not text.get_text().startswith("rank")]
    assert [number for number in numbers if number] == ["1", "111", "10", "111", "100", "111"]


def test_memory_is_drawn_in_gb() -> None:
    picture = memory_bars({"8 B": fp32_adamw(8 * 10**9)}, {}, limit_gb=80)
    (axes,) = picture.axes
    assert [patch.get_width() for patch in axes.patches] == [32, 32, 64, 0]
    assert axes.get_xlabel().startswith("GB") and axes.get_ylabel() == "model"


@pytest.mark.parametrize(
    ("name", "module"), [("ring_all_reduce", ring), ("one_process_step", by_hand)], ids=["ring", "step"]
)
def test_the_courses_own_functions_pass_their_checks(name: str, module: Any) -> None:
    Path("own.py").write_text(inspect.getsource(module))
    result = check.check(find(name), Path("own.py"), [11])
    assert result.state == "passed", result.text


def test_a_learners_function_is_used_once_it_has_passed() -> None:
    folder = Path(".ddp_course/answers/ring_all_reduce")
    folder.mkdir(parents=True)
    (folder / "0001.py").write_text("def ring_all_reduce(tensor):\n    return 'mine'\n")
    assert ring.own_ring() is ring.ring_all_reduce, "not before it has passed"
    bookkeeping.record("ring_all_reduce", "done")
    assert ring.own_ring()(None) == "mine"  # type: ignore[func-returns-value]
    (folder / "0002.py").write_text("def ring_all_reduce(tensor):\n    return 'newer'\n")
    assert ring.own_ring()(None) == "newer"  # type: ignore[func-returns-value]


def test_a_stage_that_is_a_little_off_is_not_as_one_process() -> None:
    import torch
    from torch import nn

    from ddp_course.pipeline import apart, batch, stage_of

    for off in (0.0, 1e-6):
        stages = [stage_of(rank) for rank in range(4)]
        inputs, targets = batch()
        outputs = nn.Sequential(*stages)(inputs)
        nn.functional.mse_loss(outputs, targets).backward()
        gradient = next(stages[2].parameters()).grad
        assert gradient is not None
        gradient += off
        assert (apart(stages[2], 2) <= 1e-12) == (off == 0)
        assert (apart(stages[3], 3, outputs + torch.tensor(off)) <= 1e-12) == (off == 0)
