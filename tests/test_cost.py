"""What communication costs: the formulas, the fit, and the pictures drawn from them."""

from __future__ import annotations

import math

import pytest

from ddp_course.cost import (
    algbw,
    busbw,
    fit,
    median_error,
    pipeline_bubble,
    relative_errors,
    ring_bytes,
    ring_seconds,
    ring_steps,
    tree_seconds,
)
from ddp_course.pictures.cost import cost_fit, pipeline, ring_and_tree, times
from ddp_course.pipeline import bubble

SIZES = [1 << power for power in range(10, 25)]


@pytest.mark.parametrize(
    ("collective", "factor"),
    [
        ("all_reduce", 14 / 8),
        ("reduce_scatter", 7 / 8),
        ("all_gather", 7 / 8),
        ("all_to_all", 7 / 8),
        ("broadcast", 1),
        ("reduce", 1),
    ],
)
def test_busbw_is_algbw_times_the_factor_of_nccl_tests(collective: str, factor: float) -> None:
    assert algbw(1e9, 0.5) == 2e9
    assert busbw(1e9, 8, 0.5, collective) == pytest.approx(2e9 * factor)


def test_a_collective_without_a_factor_is_refused() -> None:
    with pytest.raises(ValueError, match="barrier: nccl-tests has factors for all_reduce"):
        busbw(1, 2, 1, "barrier")


@pytest.mark.parametrize(("ranks", "steps", "sent"), [(1, 0, 0), (2, 2, 800), (4, 6, 1200), (8, 14, 1400)])
def test_a_ring_has_2_n_minus_1_steps_of_one_chunk(ranks: int, steps: int, sent: float) -> None:
    assert ring_steps(ranks) == steps
    assert ring_bytes(800, ranks) == pytest.approx(sent)
    assert ring_seconds(800, ranks, 3.0, 0.5) == pytest.approx(steps * 3.0 + sent * 0.5)


@pytest.mark.parametrize(("ranks", "levels"), [(1, 0), (2, 1), (8, 3), (9, 4), (1024, 10)])
def test_a_tree_pays_a_latency_for_each_level_up_and_down(ranks: int, levels: int) -> None:
    assert tree_seconds(0, ranks, 1.0, 1.0) == 2 * levels


def test_the_tree_wins_for_small_tensors_on_many_ranks_and_the_ring_for_large_ones_on_few() -> None:
    alpha, beta = 5e-6, 1 / 50e9
    assert tree_seconds(64 << 10, 1024, alpha, beta) < ring_seconds(64 << 10, 1024, alpha, beta) / 50
    assert ring_seconds(1 << 30, 8, alpha, beta) < tree_seconds(1 << 30, 8, alpha, beta)


@pytest.mark.parametrize("ranks", [2, 3, 8, 1024])
def test_a_fit_gives_back_the_alpha_and_beta_that_made_the_times(ranks: int) -> None:
    alpha, beta = fit(SIZES, [ring_seconds(size, ranks, 2e-5, 3e-10) for size in SIZES], ranks)
    assert alpha == pytest.approx(2e-5, rel=1e-6) and beta == pytest.approx(3e-10, rel=1e-6)


def test_small_sizes_count_as_much_as_large_ones() -> None:
    """Times of the largest sizes are off by a fifth: an unweighted fit would give up the smallest for them."""
    times = [ring_seconds(size, 2, 1e-4, 1e-9) * (1.2 if size > 1 << 22 else 1) for size in SIZES]
    alpha, _ = fit(SIZES, times, 2)
    assert alpha == pytest.approx(1e-4, rel=0.05)


def test_no_alpha_or_beta_is_negative() -> None:
    falling, steep = [1.0, 0.1], [1e-6, 1.0]
    assert fit([1000, 2000], falling, 2)[1] == 0 < fit([1000, 2000], falling, 2)[0]
    assert fit([1000, 2000], steep, 2)[0] == 0 < fit([1000, 2000], steep, 2)[1]


@pytest.mark.parametrize(("sizes", "ranks"), [([1024, 1024], 2), ([1024], 2), ([1024, 2048], 1)])
def test_a_fit_of_too_little_is_refused(sizes: list[int], ranks: int) -> None:
    with pytest.raises(ValueError, match="two sizes or more"):
        fit(sizes, [1.0] * len(sizes), ranks)


def test_errors_are_relative_to_what_was_measured() -> None:
    assert relative_errors([1.0, 3.0, 5.0], [2.0, 2.0, 5.0]) == [0.5, 0.5, 0.0]
    assert median_error([1.0, 3.0, 5.0], [2.0, 2.0, 5.0]) == 0.5


@pytest.mark.parametrize(("stages", "micro", "share"), [(4, 1, 3 / 4), (4, 4, 3 / 7), (4, 8, 3 / 11), (1, 5, 0)])
def test_the_bubble_on_paper(stages: int, micro: int, share: float) -> None:
    assert pipeline_bubble(stages, micro) == pytest.approx(share)


def slots(stages: int, micro: int) -> list[dict[str, float | int | str]]:
    """The timeline of a pipeline in which forward takes 1, backward 2, and sending nothing."""
    forward, turn = [], stages + micro - 1
    for rank in range(stages):
        for i in range(micro):
            start = turn + 2 * (stages - 1 - rank + i)
            forward.append({"rank": rank, "kind": "forward", "micro": i, "start": rank + i, "end": rank + i + 1})
            forward.append({"rank": rank, "kind": "backward", "micro": i, "start": start, "end": start + 2})
    return forward


@pytest.mark.parametrize("micro", [1, 4, 8])
def test_the_bubble_measured_on_an_ideal_timeline_is_the_one_on_paper(micro: int) -> None:
    assert bubble(slots(4, micro)) == pytest.approx(pipeline_bubble(4, micro))


def test_the_pictures_show_the_values_given() -> None:
    (axes,) = times({"torch": {1 << 10: 0.001, 1 << 20: 0.01}}, "here").axes
    assert [list(line.get_ydata()) for line in axes.lines] == [[1.0, 10.0]]
    left, _ = cost_fit(
        *[{n: {1 << k: 1e-3 * n for k in (10, 20)} for n in (2, 4)}] * 2, {2: (1e-4, 0), 4: (1e-4, 0)}
    ).axes
    assert left.lines[0].get_ydata() == pytest.approx([0.2, 0.2]) and list(left.lines[1].get_ydata()) == [2.0, 2.0]
    assert [text.get_text() for text in left.texts] == ["-90%", "-90%"], "the error stands beside each cross"
    (axes,) = ring_and_tree({"1 MiB": 1 << 20}, 5e-6, 1 / 50e9, [8, 1024]).axes
    drawn = [line.get_ydata()[-1] for line in axes.lines]
    assert drawn == pytest.approx([1e3 * f(1 << 20, 1024, 5e-6, 1 / 50e9) for f in (ring_seconds, tree_seconds)])


def test_a_pipeline_is_drawn_block_by_block() -> None:
    picture = pipeline(slots(4, 2), "two")
    (axes,) = picture.axes
    assert len(axes.texts) == len(axes.collections) == 16
    assert math.isclose(axes.collections[0].get_paths()[0].get_extents().width, 1e3)
    assert picture._repr_png_() == pipeline(slots(4, 2), "two")._repr_png_()
