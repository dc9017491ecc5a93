"""The drawings of lesson 3's first half: shards of images, statistics that drift, bytes on a rank."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import Patch

from ddp_course.memory import State
from ddp_course.pictures.base import COLOURS, DARK, Picture

_KIB = 1024
_KINDS = ("parameters", "gradients", "optimizer")


def image_shards(shards: Mapping[str, Any]) -> Picture:
    """A row of images for each shard: `shards` maps its name to images of (n, height, width), dark where 1."""
    picture = Picture(
        "A row for each rank: images of its shard, from its first to its last.", height=0.62 * len(shards)
    )
    count = max(len(images) for images in shards.values())
    panels = picture.subplots(len(shards), count, squeeze=False)
    for row, (name, images) in zip(panels, shards.items(), strict=True):
        for axes, image in zip(row, images, strict=False):
            axes.imshow(image, cmap="gray_r", vmin=0, vmax=1, interpolation="nearest")
        for axes in row:
            axes.set(xticks=[], yticks=[])
            axes.spines[:].set_visible(False)
        row[0].set_ylabel(name, rotation=0, ha="right", va="center", fontsize=9)
    return picture


def drift(means: Sequence[Sequence[float]], accuracy: Mapping[str, float]) -> Picture:
    """Left each rank's running mean of a channel over the steps, right the accuracy of each run by its name.

    `means` is [rank][step]. Dashed: their average, the running mean of all ranks' batches together.
    """
    picture = Picture("Left: the running mean of a channel, step by step. Right: the accuracy it leads to.", height=3.3)
    left, right = picture.subplots(1, 2, width_ratios=[3, 2])
    for rank, values in enumerate(means):
        left.plot(values, label=f"rank {rank}", color=COLOURS[rank], linewidth=1.2)
    together = [sum(values) / len(values) for values in zip(*means, strict=True)]
    left.plot(together, "--", label="all ranks", color=DARK, linewidth=2.2)
    left.set(xlabel="step", ylabel="running mean of a channel")
    left.spines[["top", "right"]].set_visible(False)
    left.legend(frameon=False, fontsize=8.5)
    _bars(right, accuracy)
    return picture


def accuracies(accuracy: Mapping[str, float]) -> Picture:
    """One bar a run: `accuracy` maps its name to a share between 0 and 1."""
    picture = Picture(
        "The accuracy on images kept for testing, after the same 150 batches.", height=0.8 + 0.3 * len(accuracy)
    )
    _bars(picture.subplots(), accuracy)
    return picture


def _bars(axes: Axes, accuracy: Mapping[str, float]) -> None:
    for place, (name, share) in enumerate(accuracy.items()):
        rank = name.removeprefix("rank ")
        axes.barh(place, 100 * share, color=COLOURS[int(rank)] if rank.isdigit() else "#777777")
        axes.text(100 * share + 1, place, f"{share:.1%}", va="center", fontsize=8.5)
    axes.set_yticks(range(len(accuracy)), list(accuracy), fontsize=8.5)
    axes.set(xlabel="accuracy (%)", xlim=(0, 112), ylim=(len(accuracy) - 0.4, -0.6))
    axes.axvline(10, color=DARK, linestyle=":", linewidth=1)
    axes.annotate("guessing", (10, -0.5), fontsize=7.5, textcoords="offset points", xytext=(3, 0), va="center")
    axes.spines[["top", "right"]].set_visible(False)


def stage_bytes(live: Mapping[tuple[str, int], State], formula: Mapping[tuple[str, int], float]) -> Picture:
    """Bytes on a rank by (name, ranks): a stack of what is alive, and a line where the formula puts its top."""
    names = list(dict.fromkeys(name for name, _ in live))
    picture = Picture("Bytes alive on one rank, by kind; the black line is the formula.", height=3.2)
    panels = picture.subplots(1, len(names), sharey=True, squeeze=False)[0]
    for axes, name in zip(panels, names, strict=True):
        counts = [ranks for other, ranks in live if other == name]
        for place, ranks in enumerate(counts):
            bottom = 0.0
            for kind, colour in zip(_KINDS, COLOURS, strict=False):
                size = getattr(live[name, ranks], kind) / _KIB
                axes.bar(place, size, 0.7, bottom, color=colour)
                bottom += size
            axes.plot([place - 0.45, place + 0.45], [formula[name, ranks] / _KIB] * 2, color=DARK, linewidth=2)
        axes.set_xticks(range(len(counts)), [str(ranks) for ranks in counts])
        axes.set(title=name, xlabel="ranks")
        axes.title.set_fontsize(9.5)
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("bytes on a rank (KiB)")
    handles = [Patch(color=colour, label=kind) for kind, colour in zip(_KINDS, COLOURS, strict=False)]
    picture.legend(handles=handles, loc="outside upper right", ncols=3, frameon=False, fontsize=8.5)
    return picture
