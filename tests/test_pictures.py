"""The drawings of the lessons show the values they were given, and come out the same each time."""

from __future__ import annotations

import base64
import html
import re
import time
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from matplotlib.patches import Rectangle

from ddp_course.controls import decision_control, memory_calculator
from ddp_course.pictures.lesson_02 import (
    COLOURS,
    Picture,
    bucket_layout,
    hook_costs,
    loss_curves,
    sampler_map,
    training_curve,
)
from ddp_course.sliders import PictureSlider

PADDED = [[[0, 4, 8], [1, 5, 9], [2, 6, 0], [3, 7, 1]]]
DROPPED = [[[0, 4], [1, 5], [2, 6], [3, 7]]]
MIB = 1 << 20
PICTURES = {
    "sampler_map": lambda: sampler_map({"padded": PADDED, "drop_last": DROPPED}, 10),
    "loss_curves": lambda: loss_curves({"1 rank": [3.0, 2.0], "2 ranks": [3.0, 2.00001]}),
    "bucket_layout": lambda: bucket_layout(
        {"step 1": [[MIB] * 40], "from step 2": [[4 * MIB], [16 * MIB, 16 * MIB], [4 * MIB]]},
        {"from step 2": [MIB, 25 * MIB]},
    ),
    "hook_costs": lambda: hook_costs(
        {"fp32": [2.0, 1.0], "fp16": [2.0, 1.1]}, {"fp32": [4096] * 2, "fp16": [2048] * 2}
    ),
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


def test_a_layout_shows_every_tensor_after_the_one_before_it() -> None:
    axes = PICTURES["bucket_layout"]().axes[0]
    boxes = [patch for patch in axes.patches if isinstance(patch, Rectangle) and patch.get_y() > 0]
    assert [(box.get_x(), box.get_width()) for box in boxes] == [(0, 4), (4, 16), (20, 16), (36, 4)]
    assert [text.get_text() for text in axes.texts] == [
        "bucket 0: 40.0 MiB",
        "bucket 0: 4.0 MiB",
        "bucket 1: 32.0 MiB",
        "bucket 2: 4.0 MiB",
    ]


def test_a_cap_is_drawn_where_its_bucket_reaches_it() -> None:
    assert [line.get_xdata()[0] for line in PICTURES["bucket_layout"]().axes[0].lines] == [1, 4 + 25]


def test_hooks_are_drawn_with_the_losses_and_bytes_given() -> None:
    left, right = PICTURES["hook_costs"]().axes
    assert [list(line.get_ydata()) for line in left.lines] == [[2.0, 1.0], [2.0, 1.1]]
    assert [list(line.get_ydata()) for line in right.lines] == [[4, 4], [2, 2]]


# A slider leafs through pictures


def slider() -> PictureSlider:
    return PictureSlider("cap (MiB)", {1: PICTURES["loss_curves"](), 25: PICTURES["bucket_layout"]()}, start=25)


def test_a_slider_shows_another_picture_within_200_ms() -> None:
    choose, shown = slider().widget().children
    before = shown.value
    began = time.perf_counter()
    choose.value = "1"
    assert time.perf_counter() - began < 0.2
    assert shown.value != before


def test_a_slider_has_a_name_and_says_in_words_what_it_shows() -> None:
    choose, shown = slider().widget().children
    assert choose.description == "cap (MiB)"
    assert 'alt="cap (MiB) 25. Buckets in the order of sending' in shown.value
    choose.value = "1"
    assert 'alt="cap (MiB) 1. Left: the losses' in shown.value


def stored(shows_itself: Any) -> dict[str, Any]:
    """What a notebook is given to show and store."""
    published: list[dict[str, Any]] = []
    shell = InteractiveShell.instance()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shell.display_pub, "publish", lambda data, **_: published.append(data))
        shows_itself._ipython_display_()
    InteractiveShell.clear_instance()
    (data,) = published
    return data


def test_a_slider_stores_a_png_and_one_line_of_text() -> None:
    data = stored(slider())
    assert data["image/png"] == PICTURES["bucket_layout"]()._repr_png_()
    assert data["text/plain"] == repr(slider())
    assert repr(slider()).startswith("[slider] cap (MiB): 1, 25. At 25: Buckets in the order")
    assert "application/vnd.jupyter.widget-view+json" in data


@pytest.mark.parametrize("control", [memory_calculator, decision_control])
def test_a_control_stores_a_png_with_its_sliders_and_its_answer(control: Any) -> None:
    data = stored(control())
    assert data["image/png"].startswith(b"\x89PNG")
    assert data["text/plain"] == repr(control())
    *sliders, _ = control().widget().children
    alt = html.unescape(re.search('alt="(.*?)"', data["text/html"]).group(1))  # type: ignore[union-attr]
    assert all(f"{one.description}: {one.value}; " in alt for one in sliders)
    assert all(line in alt for line in control().text().splitlines())
    assert "application/vnd.jupyter.widget-view+json" in data


@each_picture
def test_a_picture_is_stored_with_its_caption_as_alternative_text(name: str) -> None:
    picture = PICTURES[name]()
    data = stored(picture)
    shown = base64.b64decode(re.search('base64,([^"]+)', data["text/html"]).group(1))  # type: ignore[union-attr]
    assert data["image/png"] == shown
    assert f'alt="{html.escape(picture.caption)}"' in data["text/html"]


def test_a_slider_without_a_picture_to_start_with_is_refused() -> None:
    with pytest.raises(ValueError, match=r"no picture for cap 7; there are: 1"):
        PictureSlider("cap", {1: PICTURES["loss_curves"]()}, start=7)


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
