"""The drawing of lesson 4 about scaling: efficiency over the number of GPUs, predicted and published."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ddp_course.pictures.base import COLOURS, DARK, Picture
from ddp_course.scaling import Published

GPUS = (8, 16, 32, 64, 128, 256, 512, 1024)
_STYLES = (("-", COLOURS[0]), ("--", COLOURS[5]), (":", COLOURS[2]))
_MARKERS = "osD^vP*"


def efficiencies(
    curves: Mapping[str, Sequence[float]], published: Sequence[Published] = (), gpus: Sequence[int] = GPUS
) -> Picture:
    """Efficiency in percent over the number of GPUs: a line for each of up to three `curves` (name → a value for
    each of `gpus`), and a mark for each published measurement."""
    picture = Picture(
        f"Efficiency over the number of GPUs. Lines are predicted: {', '.join(curves)}."
        + " Marks are published measurements." * bool(published),
        height=3.7,
    )
    # A slider redraws it within 200 ms: where its labels end is known, so that no layout has to be found each time.
    picture.set_layout_engine("none")
    axes = picture.subplots(gridspec_kw={"left": 0.08, "right": 0.7, "bottom": 0.14, "top": 0.97})
    for (style, colour), (name, values) in zip(_STYLES, curves.items(), strict=False):
        axes.semilogx(gpus, [100 * value for value in values], style, color=colour, linewidth=2, label=name)
    kinds = list(dict.fromkeys((point.model, point.source) for point in published))
    for marker, (model, source) in zip(_MARKERS, kinds, strict=False):
        own = [point for point in published if (point.model, point.source) == (model, source)]
        places = [point.gpus for point in own], [100 * point.efficiency for point in own]
        axes.plot(*places, marker, color=DARK, markerfacecolor="white", markersize=7, label=f"{model}, {source}")
    axes.set(xlabel="GPUs", ylabel="efficiency (%)", ylim=(0, 105))
    axes.set_xticks(gpus, [f"{count:,}" for count in gpus])
    axes.minorticks_off()
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8.5, loc="center left", bbox_to_anchor=(1.01, 0.5))
    return picture
