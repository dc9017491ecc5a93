"""The drawings of lesson 1 about time: all-reduces over sizes and ranks, and a pipeline's timeline."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import Patch

from ddp_course.cost import ring_seconds, tree_seconds
from ddp_course.pictures.base import COLOURS, Picture

_MARKERS = "osD^"


def times(curves: Mapping[str, Mapping[int, float]], title: str) -> Picture:
    """Seconds over bytes, both logarithmic: name of a way → bytes → seconds."""
    picture = Picture(f"Time over size, both axes logarithmic: {', '.join(curves)}. Lower is faster.", height=3.4)
    axes = picture.subplots()
    for number, (name, curve) in enumerate(curves.items()):
        sizes = sorted(curve)
        seconds = [1e3 * curve[size] for size in sizes]
        axes.loglog(sizes, seconds, f"-{_MARKERS[number % 4]}", color=COLOURS[number], label=name, markersize=5)
    axes.set(xlabel="size of the tensor (bytes)", ylabel="time (ms)", title=title)
    _bytes_axis(axes)
    axes.legend(frameon=False)
    return picture


def cost_fit(
    measured: Mapping[int, Mapping[int, float]], held_out: Mapping[int, Mapping[int, float]], lines: Any
) -> Picture:
    """The α–β line through measured all-reduces, and how it meets sizes that were left out of the fit.

    `measured` and `held_out`: ranks → bytes → seconds; `lines`: ranks → (α, β).
    """
    picture = Picture(
        "Dots: measured, used for the fit. Crosses: left out, with their error. Line: 2(N−1)·α + 2(N−1)/N·S·β.",
        height=3.3,
    )
    panels = picture.subplots(1, len(measured), sharey=True, squeeze=False)[0]
    for number, (axes, ranks) in enumerate(zip(panels, measured, strict=True)):
        dots, crosses = measured[ranks], held_out[ranks]
        sizes = sorted({*dots, *crosses})
        axes.loglog(sizes, [1e3 * ring_seconds(s, ranks, *lines[ranks]) for s in sizes], color="#555555", label="α–β")
        axes.loglog(list(dots), [1e3 * t for t in dots.values()], "o", color=COLOURS[0], label="fitted")
        marks = {"markersize": 9, "markeredgewidth": 2.2}
        axes.loglog(
            list(crosses), [1e3 * t for t in crosses.values()], "x", color=COLOURS[5], label="left out", **marks
        )
        for size, seconds in crosses.items():
            error = ring_seconds(size, ranks, *lines[ranks]) / seconds - 1
            offset = {"textcoords": "offset points", "xytext": (6, -13)}
            axes.annotate(f"{error:+.0%}", (size, 1e3 * seconds), color=COLOURS[5], fontsize=8.5, **offset)
        axes.set(xlabel="size of the tensor (bytes)", title=f"{ranks} ranks")
        axes.set_ylim(0.5e3 * min(min(dots.values()), min(crosses.values())) if number == 0 else None)
        _bytes_axis(axes)
        if number == 0:
            axes.set_ylabel("time (ms)")
            axes.legend(frameon=False)
    return picture


def ring_and_tree(sizes: Mapping[str, float], alpha: float, beta: float, ranks: Sequence[int]) -> Picture:
    """Ring and tree on paper: time over the number of ranks, one panel for each size (name → bytes)."""
    picture = Picture(
        "Time of an all-reduce over the number of ranks, on paper: solid the ring, dashed the tree.", height=3.1
    )
    panels = picture.subplots(1, len(sizes), sharey=True, squeeze=False)[0]
    for axes, (name, size) in zip(panels, sizes.items(), strict=True):
        axes.loglog(ranks, [1e3 * ring_seconds(size, n, alpha, beta) for n in ranks], color=COLOURS[0], label="ring")
        tree = [1e3 * tree_seconds(size, n, alpha, beta) for n in ranks]
        axes.loglog(ranks, tree, "--", color=COLOURS[5], label="tree", linewidth=1.8)
        axes.set(xlabel="ranks", title=name)
        axes.set_xticks([8, 64, 1024], ["8", "64", "1,024"])
        axes.minorticks_off()
        _tidy(axes)
    panels[0].set_ylabel("time (ms)")
    panels[0].legend(frameon=False)
    return picture


def pipeline(spans: Iterable[Mapping[str, Any]], title: str) -> Picture:
    """What each stage did when: blocks with the number of their micro-batch, forward and backward.

    `spans`: dicts with rank, kind ("forward" or "backward"), micro, start and end in seconds.
    """
    rows = [span for span in spans if "micro" in span]
    stages = 1 + max(span["rank"] for span in rows)
    picture = Picture(
        "A row a stage, time to the right: forward and backward of each micro-batch. White is the bubble.",
        height=0.9 + 0.45 * stages,
    )
    axes = picture.subplots()
    origin = min(span["start"] for span in rows)
    colours = {"forward": COLOURS[0], "backward": COLOURS[1]}
    for span in rows:
        start, length = 1e3 * (span["start"] - origin), 1e3 * (span["end"] - span["start"])
        axes.broken_barh(
            [(start, length)], (span["rank"] + 0.06, 0.88), facecolor=colours[span["kind"]], edgecolor="white"
        )
        ink = "white" if span["kind"] == "forward" else "black"
        place = (start + length / 2, span["rank"] + 0.5)
        axes.text(*place, str(span["micro"]), ha="center", va="center", fontsize=8, color=ink)
    axes.set_yticks([stage + 0.5 for stage in range(stages)], [f"stage {stage}" for stage in range(stages)])
    axes.set(xlabel="time (ms)", ylim=(stages, 0), title=title)
    axes.title.set_fontsize(10)
    axes.spines[["top", "right"]].set_visible(False)
    handles = [Patch(color=colour, label=kind) for kind, colour in colours.items()]
    picture.legend(handles=handles, loc="outside upper right", ncols=2, frameon=False, fontsize=8.5)
    return picture


def _bytes_axis(axes: Axes) -> None:
    names = {1 << 10: "1 KiB", 1 << 14: "16 KiB", 1 << 18: "256 KiB", 1 << 20: "1 MiB", 1 << 24: "16 MiB"}
    low, high = axes.get_xlim()
    ticks = [size for size in names if low <= size <= high and size != 1 << 18]
    axes.set_xticks(ticks, [names[size] for size in ticks])
    axes.minorticks_off()
    _tidy(axes)


def _tidy(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25, linewidth=0.6)
    axes.title.set_fontsize(10)
