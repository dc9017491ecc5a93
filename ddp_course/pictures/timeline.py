"""`run.timeline()`: what each rank did when, and how much of its communication was hidden under compute."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import Patch

from ddp_course.pictures.base import COLOURS, Picture
from ddp_course.pictures.spans import COMPUTE, Span, overlap

_COLOUR = dict(zip(COMPUTE, (COLOURS[0], COLOURS[1], COLOURS[2]), strict=True))
_COMMUNICATION = COLOURS[3]
_HELP = (
    "No rank of this run reported a profile{where}. In the script: `with torch.profiler.profile() as prof:` around "
    "a training step, and after it `report(profile=prof)`."
)


class Timeline(Picture):
    """Two lanes a rank, compute above communication, over time in milliseconds.

    `spans` maps each rank to its spans. `overlap` is the share of the time in collectives, of all ranks
    together, during which the same rank also computed: 0 to 1. `measured` says that in words.
    """

    def __init__(self, spans: Mapping[int, list[Span]]) -> None:
        super().__init__(
            "Two lanes a rank over time: forward, backward and optimizer above, the all-reduces below. "
            "An all-reduce under a compute block is hidden by it.",
            height=1.0 + 0.85 * len(spans),
        )
        self.spans = dict(spans)
        time = {rank: sum(s.duration for s in of if s.kind not in COMPUTE) for rank, of in spans.items()}
        total = sum(time.values())
        self.overlap = sum(overlap(of) * time[rank] for rank, of in spans.items()) / total if total else 0.0
        self.measured = f"{self.overlap:.0%} of the collectives' time is hidden under compute"
        self._draw(self.subplots())

    def _draw(self, axes: Axes) -> None:
        origin = min(span.start for of in self.spans.values() for span in of)
        end = max((span.end - origin) / 1000 for of in self.spans.values() for span in of)
        lanes = []
        for row, (rank, spans) in enumerate(sorted(self.spans.items())):
            top = 2.3 * row
            lanes += [(top + 0.5, f"rank {rank}\ncompute"), (top + 1.5, "collectives")]
            for span in spans:
                if span.kind in COMPUTE:
                    _block(axes, span, origin, top + 0.05, 0.9, _COLOUR[span.kind], end)
            calls = [span for span in spans if span.kind not in COMPUTE]
            places = _side_by_side(calls)
            height = 0.9 / (1 + max(places, default=0))
            for span, place in zip(calls, places, strict=True):
                _block(axes, span, origin, top + 1.05 + place * height, height, _COMMUNICATION, end)
        axes.set(xlim=(0, end * 1.01), ylim=(2.3 * len(self.spans) - 0.2, -0.1), xlabel="time (ms)")
        axes.set_yticks([y for y, _ in lanes], [label for _, label in lanes], fontsize=8.5)
        axes.set_title(self.measured, fontsize=10, loc="left")
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="x", alpha=0.25, linewidth=0.6)
        axes.set_axisbelow(True)
        colours = _COLOUR | {"collective": _COMMUNICATION}
        handles = [Patch(color=colour, label=kind) for kind, colour in colours.items()]
        self.legend(handles=handles, loc="outside upper right", ncols=4, frameon=False, fontsize=8.5)


def _block(axes: Axes, span: Span, origin: int, top: float, height: float, colour: str, end: float) -> None:
    start, width = (span.start - origin) / 1000, span.duration / 1000
    axes.broken_barh([(start, width)], (top, height), facecolor=colour, edgecolor="white", linewidth=0.7)
    if width > 0.1 * end:  # room for a word, so that colour is not the only sign
        ink = "white" if colour == COLOURS[0] else "black"
        text = span.kind.replace("_", "-")
        axes.text(start + width / 2, top + height / 2, text, ha="center", va="center", fontsize=8, color=ink)


def _side_by_side(spans: list[Span]) -> list[int]:
    """For each span the first row in which nothing else runs at that time. Gloo runs two all-reduces at once."""
    free: list[int] = []
    rows = []
    for span in spans:
        row = next((row for row, end in enumerate(free) if end <= span.start), len(free))
        free[row : row + 1] = [span.end]
        rows.append(row)
    return rows


def draw(reports: Iterable[Mapping[str, Any]], wanted: Mapping[str, Any]) -> Timeline:
    """The timeline of the last profile that each rank reported together with the `wanted` values.

    Raises ValueError where no report has one.
    """
    found: dict[int, list[Span]] = {}
    for report in reports:
        if any(key not in report or report[key] != value for key, value in wanted.items()):
            continue
        for value in report.values():
            if isinstance(value, dict) and value.get("spans"):
                found[report["rank"]] = [Span(*span) for span in value["spans"]]
    if not found:
        where = " with " + ", ".join(f"{key}={value!r}" for key, value in wanted.items()) if wanted else ""
        raise ValueError(_HELP.format(where=where))
    return Timeline(found)
