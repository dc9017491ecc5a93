"""The drawings of the lessons show the values they were given, and come out the same each time."""

from __future__ import annotations

import pytest
from matplotlib.patches import Rectangle

from ddp_course.pictures import COLOURS, Picture, loss_curves, sampler_map, training_curve

PADDED = [[[0, 4, 8], [1, 5, 9], [2, 6, 0], [3, 7, 1]]]
DROPPED = [[[0, 4], [1, 5], [2, 6], [3, 7]]]
PICTURES = {
    "sampler_map": lambda: sampler_map({"padded": PADDED, "drop_last": DROPPED}, 10),
    "loss_curves": lambda: loss_curves({"1 rank": [3.0, 2.0], "2 ranks": [3.0, 2.00001]}),
    "training_curve": lambda: training_curve([1, 20], [5.5, 3.0], {"the unigram baseline": 3.36}),
}
each_picture = pytest.mark.parametrize("name", PICTURES)


def numbers(picture: Picture, panel: int) -> list[tuple[int, str]]:
    """(sample, rank) of every number in a panel of the sampler map."""
    return sorted((int(text.get_position()[0]), text.get_text()) for text in picture.axes[panel].texts)


def test_a_padded_sample_shows_both_of_its_ranks() -> None:
    shown = numbers(PICTURES["sampler_map"](), 0)
    assert [rank for sample, rank in shown if sample == 0] == ["0", "2"]
    assert [rank for sample, rank in shown if sample == 1] == ["1", "3"]
    assert len(shown) == 12


def test_a_dropped_sample_is_hatched_and_has_no_number() -> None:
    picture = PICTURES["sampler_map"]()
    assert {sample for sample, _ in numbers(picture, 1)} == set(range(8))
    patches = [patch for patch in picture.axes[1].patches if isinstance(patch, Rectangle)]
    assert sorted(patch.get_x() for patch in patches if patch.get_hatch()) == [8, 9]


def test_a_sample_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="rank 1 has sample 10 of 10"):
        sampler_map({"wrong": [[[0], [10]]]}, 10)


def test_curves_are_drawn_with_the_values_given() -> None:
    left, right = PICTURES["loss_curves"]().axes
    assert [list(line.get_ydata()) for line in left.lines] == [[3.0, 2.0], [3.0, 2.00001]]
    assert list(right.lines[0].get_ydata()) == pytest.approx([1e-9, 1e-5])


@each_picture
def test_every_axis_is_named(name: str) -> None:
    panels = PICTURES[name]().axes
    assert all(axes.get_xlabel() for axes in panels)
    assert panels[0].get_ylabel()


@each_picture
def test_a_picture_is_a_png_as_wide_as_a_notebook_with_a_caption_in_words(name: str) -> None:
    picture = PICTURES[name]()
    png = picture._repr_png_()
    assert png.startswith(b"\x89PNG")
    assert int.from_bytes(png[16:20], "big") == 880
    assert len(picture.caption.split()) > 8
    assert repr(picture) == f"[picture] {picture.caption}"


@each_picture
def test_a_picture_comes_out_the_same_each_time(name: str) -> None:
    assert PICTURES[name]()._repr_png_() == PICTURES[name]()._repr_png_()


def test_ranks_have_colours_of_their_own() -> None:
    assert len(set(COLOURS)) == 8
