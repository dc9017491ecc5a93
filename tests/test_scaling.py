"""How far training scales: the model against closed forms and against published measurements, and what draws it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ddp_course.controls import scaling_model
from ddp_course.cost import ring_bytes, ring_seconds, tree_seconds
from ddp_course.pictures.scaling import GPUS, efficiencies
from ddp_course.scaling import (
    PUBLISHED,
    Cluster,
    Job,
    Link,
    Published,
    after_backward,
    exposed,
    nodes,
    step_seconds,
    strong,
    weak,
)

MIB = 1 << 20
LINK = Link(alpha=2e-5, beta=1e-10)
CLUSTER = Cluster(LINK, LINK)
JOB = Job(compute=0.3, gradient=100 * MIB)
each_count = pytest.mark.parametrize("ranks", GPUS)


def test_one_gpu_has_nothing_to_send() -> None:
    assert exposed(JOB, CLUSTER, 1) == 0
    assert step_seconds(JOB, CLUSTER, 1) == JOB.compute
    assert weak(JOB, CLUSTER, 1) == strong(JOB, CLUSTER, 1) == 1


@each_count
def test_without_overlap_a_step_is_computing_plus_every_all_reduce(ranks: int) -> None:
    job = replace(JOB, overlap=False)
    whole = 4 * min(ring_seconds(25 * MIB, ranks, 2e-5, 1e-10), tree_seconds(25 * MIB, ranks, 2e-5, 1e-10))
    assert step_seconds(job, CLUSTER, ranks) == pytest.approx(0.3 + whole)
    assert weak(job, CLUSTER, ranks) == pytest.approx(0.3 / (0.3 + whole))


@each_count
def test_a_single_bucket_is_full_when_backward_ends_so_nothing_is_hidden(ranks: int) -> None:
    whole = replace(JOB, bucket=float("inf"))
    assert whole.buckets == 1
    assert exposed(whole, CLUSTER, ranks) == pytest.approx(exposed(replace(whole, overlap=False), CLUSTER, ranks))


@each_count
def test_with_fast_links_only_the_last_bucket_shows(ranks: int) -> None:
    slow_to_compute = replace(JOB, compute=10.0)
    assert exposed(slow_to_compute, CLUSTER, ranks) == pytest.approx(LINK.all_reduce(25 * MIB, ranks))


@each_count
@pytest.mark.parametrize("compute", [0.001, 0.02, 0.3])
def test_endless_buckets_without_latency_leave_what_does_not_fit_under_backward(ranks: int, compute: float) -> None:
    """Perfect overlap: α = 0 and buckets of almost nothing give max(0, communication − backward)."""
    free = Cluster(Link(0, 1e-10), Link(0, 1e-10))
    job = Job(compute, 100 * MIB, bucket=100 * MIB / 20_000)
    sent = ring_bytes(100 * MIB, ranks) * 1e-10
    assert exposed(job, free, ranks) == pytest.approx(max(0, sent - compute * 2 / 3), abs=sent / 10_000)


@each_count
@pytest.mark.parametrize("compute", [0.001, 0.02, 0.3])
@pytest.mark.parametrize("bucket", [1 * MIB, 25 * MIB, 60 * MIB])
def test_even_buckets_have_a_closed_form(ranks: int, compute: float, bucket: int) -> None:
    """K buckets of t seconds, one each 1/K of backward: max(t, K·t − (K−1)/K·backward) is left."""
    job = Job(compute, 100 * MIB, bucket=bucket)
    count, backward = job.buckets, compute * 2 / 3
    seconds = LINK.all_reduce(100 * MIB / count, ranks)
    closed = max(seconds, count * seconds - (count - 1) / count * backward)
    assert exposed(job, CLUSTER, ranks) == pytest.approx(closed)


@pytest.mark.parametrize(
    ("buckets", "left"),
    [
        ([], 0),
        ([(10, 3)], 3),
        ([(4, 3), (10, 2)], 2),  # the first is through before the second is full
        ([(4, 7), (10, 2)], 3),  # the second waits for the first
        ([(2, 1), (4, 1)], 0),  # a bucket may be through before backward ends
        ([(0, 30), (10, 1)], 21),
    ],
)
def test_all_reduces_run_one_after_the_other_and_none_before_its_bucket_is_full(
    buckets: list[tuple[float, float]], left: float
) -> None:
    assert after_backward(buckets, 10) == left


@pytest.mark.parametrize("seed", range(5))
def test_the_overlap_equals_a_simulation_in_small_ticks(seed: int) -> None:
    import random

    pick = random.Random(seed)
    full = sorted(pick.randint(0, 40) for _ in range(6))
    buckets = [(float(ready), float(pick.randint(1, 12))) for ready in full]
    waiting, tick, left = list(buckets), 0, 0.0
    while waiting or left:
        if not left and waiting and waiting[0][0] <= tick:
            left = waiting.pop(0)[1]
        left = max(0.0, left - 1)
        tick += 1
    assert after_backward(buckets, 40) == max(0, tick - 40)


def test_efficiency_never_grows_with_the_number_of_gpus() -> None:
    for measure in (weak, strong):
        values = [measure(JOB, CLUSTER, ranks) for ranks in (1, *GPUS)]
        assert values == sorted(values, reverse=True) and values[0] == 1


@each_count
def test_strong_scaling_is_never_better_than_weak(ranks: int) -> None:
    assert strong(JOB, CLUSTER, ranks, 8) <= weak(JOB, CLUSTER, ranks, 8) <= 1


def test_strong_scaling_ends_where_the_messages_alone_take_the_step() -> None:
    """Amdahl: on ever more GPUs the computing vanishes, and the speed-up stays below base step / messages."""
    job = replace(JOB, overlap=False)
    speed_up = [strong(job, CLUSTER, ranks, 8) * ranks / 8 for ranks in GPUS]
    most = step_seconds(job, CLUSTER, 8) / exposed(job, CLUSTER, 8)
    assert max(speed_up) < most


def test_a_ring_within_a_node_runs_over_the_links_inside() -> None:
    cluster = Cluster(Link(0, 1e-12), Link(0, 1e-9), per_node=8)
    assert cluster.link(8) == cluster.inside and cluster.link(9) == cluster.between
    assert exposed(JOB, cluster, 16) > 500 * exposed(JOB, cluster, 8)


def test_the_faster_of_ring_and_tree_counts() -> None:
    assert LINK.all_reduce(1 << 10, 1024) == tree_seconds(1 << 10, 1024, 2e-5, 1e-10)
    assert LINK.all_reduce(1 << 30, 8) == ring_seconds(1 << 30, 8, 2e-5, 1e-10)
    assert nodes(4, 25).between.beta == 1 / 3.125e9


PREDICTABLE = [point for point in PUBLISHED if point.job]


@pytest.mark.parametrize("point", PREDICTABLE, ids=lambda p: f"{p.model} on {p.gpus}")
def test_what_was_measured_lies_between_nothing_hidden_and_all_the_buckets_allow(point: Published) -> None:
    assert point.job and point.cluster
    best = weak(point.job, point.cluster, point.gpus, point.base)
    worst = weak(replace(point.job, overlap=False), point.cluster, point.gpus, point.base)
    assert worst < point.efficiency < best


def test_the_published_figures_are_those_of_their_sources() -> None:
    assert [(p.model, p.gpus, p.efficiency, p.source) for p in PUBLISHED] == [
        ("ResNet-50", 256, 0.90, "Goyal et al. 2017"),
        ("Inception V3", 128, 0.90, "Horovod"),
        ("Inception V3", 512, 0.90, "Horovod"),
        ("VGG-16", 128, 0.79, "Horovod"),
        ("VGG-16", 512, 0.68, "Horovod"),
        ("ResNet-50", 1024, 0.80, "Akiba et al. 2017"),
        ("ResNet-50", 1088, 0.9162, "Mikami et al. 2018"),
    ]


def test_the_picture_shows_the_values_given_and_every_published_one() -> None:
    picture = efficiencies({"weak": [0.9] * 8, "strong": [0.5] * 8}, PUBLISHED)
    (axes,) = picture.axes
    assert [line.get_ydata()[0] for line in axes.lines[:2]] == [90, 50]
    marks = [xy for line in axes.lines[2:] for xy in zip(line.get_xdata(), line.get_ydata(), strict=True)]
    assert sorted(marks) == sorted((p.gpus, 100 * p.efficiency) for p in PUBLISHED)
    assert "GPUs" in axes.get_xlabel() and "%" in axes.get_ylabel()
    assert picture._repr_png_() == efficiencies({"weak": [0.9] * 8, "strong": [0.5] * 8}, PUBLISHED)._repr_png_()


def test_the_control_says_what_the_functions_give_and_draws_it() -> None:
    control = scaling_model()
    cluster = Cluster(Link(5e-6, 1 / 450e9), Link(2e-5, 8 / 50e9))
    job = Job(0.165, 1e8)
    rows = {line[:20].strip(): line[20:].split() for line in control.text().splitlines()}
    assert rows["GPUs"] == [f"{n:,}" for n in GPUS]
    assert rows["weak scaling"] == [f"{weak(job, cluster, n, 8):.0%}" for n in GPUS]
    falls = [strong(job, cluster, n, 8) for n in GPUS]
    assert rows["strong scaling"] == [*(f"{v:.0%}" for v in falls[:6]), *(f"{v:.1%}" for v in falls[6:])]
    drawn = control.picture(network="10 Gb/s").axes[0].lines[0].get_ydata()
    assert drawn[-1] < 100 * weak(job, cluster, 1024, 8)
    assert control.picture()._repr_png_() != control.picture(network="10 Gb/s")._repr_png_()


def test_moving_a_slider_of_the_control_draws_anew() -> None:
    *sliders, drawing, said = scaling_model().widget().children
    before = drawing.value, said.value
    assert before[0].startswith("<img alt=") and 'role="status"' in before[1]
    sliders[2].value = "10 Gb/s"
    assert drawing.value != before[0] and "data:image/png;base64," in drawing.value
    assert said.value != before[1]
