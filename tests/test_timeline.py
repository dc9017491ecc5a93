"""`run.timeline()`: a real DDP run's profile, and the rules that make spans of a profiler's events."""

from __future__ import annotations

import html
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ddp_course import Run, launch
from ddp_course.pictures.spans import COMPUTE, Span, of_events, of_profile, overlap
from ddp_course.pictures.timeline import Timeline, draw
from ddp_course.sliders import PictureSlider

PROGRAM = Path(__file__).parent / "programs" / "profiled.py"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("profiled"))
        return launch(PROGRAM, nproc_per_node=2)


# A real run of two ranks


def test_a_profiled_run_writes_nothing_of_the_profiler_into_its_output(run: Run) -> None:
    assert [(rank.stdout, rank.stderr) for rank in run.ranks] == [("done\n", "")] * 2


@pytest.mark.parametrize(("cap", "buckets"), [(1, 6), (100, 1)])
def test_every_bucket_of_every_rank_is_one_all_reduce(run: Run, cap: int, buckets: int) -> None:
    logged = {report["buckets"].count(",") + 1 for report in run.reports if report["cap"] == cap}
    assert logged == {buckets}
    for spans in run.timeline(cap=cap).spans.values():
        assert [span.kind for span in spans if span.kind not in COMPUTE] == ["all_reduce"] * buckets


def test_each_rank_goes_forward_then_backward_then_steps(run: Run) -> None:
    timeline = run.timeline(cap=100)
    assert sorted(timeline.spans) == [0, 1]
    for spans in timeline.spans.values():
        first = {kind: min(span.start for span in spans if span.kind == kind) for kind in COMPUTE}
        assert first["forward"] < first["backward"] < first["optimizer"]
        assert all(span.duration >= 0 for span in spans)


def test_the_ranks_share_one_clock(run: Run) -> None:
    """An all-reduce ends on all ranks at about the same time; one of them alone cannot finish it."""
    ends = [
        max(span.end for span in spans if span.kind == "all_reduce") for spans in run.timeline(cap=100).spans.values()
    ]
    starts = [
        max(span.start for span in spans if span.kind == "all_reduce") for spans in run.timeline(cap=100).spans.values()
    ]
    assert max(starts) < min(ends)


def test_communication_takes_as_long_as_ddp_itself_measured(run: Run) -> None:
    for report in run.reports:
        spans = [Span(*span) for span in report["profile"]["spans"]]
        calls = [span for span in spans if span.kind == "all_reduce"]
        seen = (max(call.end for call in calls) - min(call.start for call in calls)) / 1000
        assert seen == pytest.approx(report["ddp_ms"], rel=0.5, abs=20)


def test_small_buckets_hide_and_one_bucket_does_not(run: Run) -> None:
    small, one = run.timeline(cap=1).overlap, run.timeline(cap=100).overlap
    assert 0 <= one < small <= 1


def test_without_conditions_the_last_profile_is_drawn(run: Run) -> None:
    assert run.timeline().spans == run.timeline(cap=100).spans


def test_its_text_is_the_same_whatever_was_measured(run: Run) -> None:
    assert repr(run.timeline(cap=1)) == repr(run.timeline(cap=100))
    assert repr(run.timeline()).startswith("[picture] Two lanes a rank")


def test_a_slider_over_timelines_says_the_overlap_to_a_screen_reader(run: Run) -> None:
    timelines = {cap: run.timeline(cap=cap) for cap in (1, 100)}
    choose, shown = PictureSlider("cap (MiB)", timelines, start=1).widget().children
    assert html.escape(timelines[1].measured) in shown.value
    choose.value = "100"
    assert html.escape(timelines[100].measured) in shown.value
    assert "%" not in repr(PictureSlider("cap (MiB)", timelines, start=1)), "what is stored must not vary"


def test_its_title_has_the_overlap_and_its_axis_milliseconds(run: Run) -> None:
    timeline = run.timeline(cap=1)
    (axes,) = timeline.axes
    assert axes.get_title(loc="left").startswith(f"{timeline.overlap:.0%} of")
    assert axes.get_xlabel() == "time (ms)"
    ms = max(span.end for of in timeline.spans.values() for span in of)
    ms -= min(span.start for of in timeline.spans.values() for span in of)
    assert axes.get_xlim()[1] == pytest.approx(ms / 1000 * 1.01)


def test_a_run_without_a_profile_says_how_to_send_one(run: Run) -> None:
    with pytest.raises(ValueError, match=r"with cap=7\. In the script: .*report\(profile=prof\)"):
        run.timeline(cap=7)


# The rules


def event(name: str, start_us: float, us: float, device: str = "CPU", mark: bool = False) -> Any:
    """An event as kineto gives it."""
    return SimpleNamespace(
        name=lambda: name,
        start_ns=lambda: int(start_us * 1000),
        duration_ns=lambda: int(us * 1000),
        device_type=lambda: f"DeviceType.{device}",
        is_user_annotation=lambda: mark,
    )


def test_neighbouring_backward_calls_become_one_span_and_distant_ones_do_not() -> None:
    name = "autograd::engine::evaluate_function: AddmmBackward0"
    assert of_events([event(name, 0, 100), event(name, 120, 100), event(name, 900, 10), event("aten::mm", 0, 9)]) == [
        Span("backward", 0, 220),
        Span("backward", 900, 10),
    ]


def test_all_reduces_stay_apart_even_where_they_overlap() -> None:
    events = [event("gloo:all_reduce", 0, 100), event("gloo:all_reduce", 50, 100)]
    assert of_events(events) == [Span("all_reduce", 0, 100), Span("all_reduce", 50, 100)]


def test_on_gpus_kernels_are_sorted_by_the_marks_around_them() -> None:
    events = [
        event("DistributedDataParallel.forward", 0, 90),  # on the CPU, which runs ahead of the GPU
        event("DistributedDataParallel.forward", 100, 100, "CUDA", mark=True),
        event("sgemm", 110, 50, "CUDA"),
        event("sgemm", 210, 50, "CUDA"),
        event("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 240, 90, "CUDA"),
        event("Optimizer.step#SGD.step", 400, 50, "CUDA", mark=True),
        event("multi_tensor_apply_kernel", 410, 20, "CUDA"),
        event("Memcpy HtoD", 0, 500, "CUDA"),
    ]
    assert of_events(events) == [
        Span("forward", 110, 50),
        Span("backward", 210, 50),
        Span("all_reduce", 240, 90),
        Span("optimizer", 410, 20),
    ]


@pytest.mark.parametrize(
    ("compute", "hidden"),
    [([], 0.0), ([(0, 50)], 0.5), ([(0, 50), (20, 40)], 0.6), ([(0, 500)], 1.0), ([(100, 50)], 0.0)],
)
def test_overlap_is_the_share_of_communication_under_compute(compute: list[tuple[int, int]], hidden: float) -> None:
    spans = [Span("all_reduce", 0, 100), *(Span("backward", *times) for times in compute)]
    assert overlap(spans) == pytest.approx(hidden)


def test_all_reduces_at_the_same_time_count_once() -> None:
    spans = [Span("all_reduce", 0, 100), Span("all_reduce", 50, 50), Span("backward", 0, 50)]
    assert overlap(spans) == pytest.approx(0.5)


def test_without_communication_nothing_is_hidden() -> None:
    assert overlap([Span("forward", 0, 10)]) == 0.0
    assert Timeline({0: [Span("forward", 0, 10)]}).overlap == 0.0


def test_a_profile_that_is_still_open_is_refused() -> None:
    with pytest.raises(ValueError, match="comes after the `with profile"):
        of_profile(SimpleNamespace(profiler=None))


def test_reports_without_spans_are_no_timeline() -> None:
    with pytest.raises(ValueError, match="No rank of this run reported a profile"):
        draw([{"rank": 0, "loss": 1.0}], {})
