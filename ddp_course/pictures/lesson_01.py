"""The drawings of lesson 1: bytes, collectives, the ring. Values of real runs in, a `Picture` out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, Rectangle

from ddp_course.memory import GB, State
from ddp_course.pictures.base import COLOURS, DARK, Picture

_ORDER = ("broadcast", "reduce", "all_reduce", "all_gather", "reduce_scatter", "all_to_all")


def memory_bars(
    states: Mapping[str, State], activations: Mapping[str, float], limit_gb: float | None = None
) -> Picture:
    """One bar for each model: parameters, gradients, optimizer and activations in GB (10⁹ bytes).

    `states` and `activations` (bytes) have the same names. `limit_gb` is drawn as the memory of one GPU.
    """
    picture = Picture(
        "Bytes of training, one bar a model: parameters, gradients, AdamW's averages, activations.",
        height=0.9 + 0.5 * len(states),
    )
    axes = picture.subplots()
    total = max([s.total + activations.get(n, 0) for n, s in states.items()] + [(limit_gb or 0) * GB]) / GB
    for row, (name, state) in enumerate(states.items()):
        parts = (state.parameters, state.gradients, state.optimizer, activations.get(name, 0))
        left = 0.0
        for colour, size in zip(COLOURS, parts, strict=False):
            size = size / GB
            axes.barh(row, size, left=left, height=0.62, color=colour, edgecolor="white")
            if size > 0.06 * total:
                ink = "white" if colour == COLOURS[0] else "black"
                axes.text(left + size / 2, row, f"{size:.3g}", ha="center", va="center", fontsize=9, color=ink)
            left += size
    if limit_gb:
        axes.axvline(limit_gb, color=COLOURS[5], linestyle="--", linewidth=1.6)
        axes.text(limit_gb, -0.55, " one GPU", color=COLOURS[5], fontsize=9, ha="left", va="bottom")
    axes.set_yticks(range(len(states)), list(states))
    axes.set(xlabel="GB (10⁹ bytes)", ylabel="model", ylim=(len(states) - 0.5, -0.9), xlim=(0, 1.08 * total))
    names = ("parameters", "gradients", "optimizer", "activations")
    shown = names if any(activations.values()) else names[:3]
    handles = [Rectangle((0, 0), 1, 1, color=colour, label=name) for colour, name in zip(COLOURS, shown, strict=False)]
    picture.legend(handles=handles, loc="outside upper center", ncols=4, frameon=False, fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)
    return picture


def collectives(reports: Iterable[Mapping[str, Any]]) -> Picture:
    """What each collective did to the values of each rank: before on the left, after on the right.

    `reports`: of every rank, for every collective, `op`, `before` and `after` (lists of numbers).
    """
    runs: dict[str, dict[int, Any]] = {}
    for report in reports:
        if "op" in report:
            runs.setdefault(report["op"], {})[report["rank"]] = (report["before"], report["after"])
    names = [name for name in _ORDER if name in runs]
    picture = Picture(
        "Collectives on the same ranks: what each rank held before, and after. Colour: the rank a number came from.",
        height=1.9 * ((len(names) + 1) // 2),
    )
    panels = picture.subplots((len(names) + 1) // 2, 2, squeeze=False).flat
    for axes, name in zip(panels, names, strict=False):
        ranks = runs[name]
        width = max(len(row) for pair in ranks.values() for row in pair)
        for rank, (before, after) in sorted(ranks.items()):
            _cells(axes, 0, rank, before, COLOURS[rank])
            _cells(axes, width + 1.6, rank, after, _mixed(after, ranks))
            axes.text(-0.25, rank + 0.5, f"rank {rank}", ha="right", va="center", fontsize=8)
        axes.annotate("", (width + 1.4, len(ranks) / 2), (width + 0.2, len(ranks) / 2), arrowprops={"arrowstyle": "->"})
        axes.set(xlim=(-1.8, 2 * width + 1.8), ylim=(len(ranks) + 0.1, -0.1), title=name)
        axes.title.set_fontsize(10)
        axes.set_axis_off()
    return picture


def _mixed(after: Sequence[float], ranks: Mapping[int, Any]) -> list[str]:
    """The colour of each number: the rank that alone had it before, or dark for a sum."""
    owners = {value: rank for rank, (before, _) in ranks.items() for value in before}
    return [COLOURS[owners[value]] if value in owners else DARK for value in after]


def _cells(axes: Axes, x: float, y: float, values: Sequence[float], colours: str | Sequence[str]) -> None:
    for place, value in enumerate(values):
        colour = colours if isinstance(colours, str) else colours[place]
        axes.add_patch(Rectangle((x + place, y + 0.08), 0.94, 0.84, facecolor=colour, linewidth=0))
        ink = "white" if colour in (DARK, COLOURS[0]) else "black"
        axes.text(x + place + 0.47, y + 0.5, f"{value:g}", ha="center", va="center", fontsize=8.5, color=ink)


def ring_steps(reports: Iterable[Mapping[str, Any]]) -> dict[int, Picture]:
    """Number of steps taken → the state of the ring then, with the messages of the last step.

    `reports`: the log of `ddp_course.ring.ring_all_reduce` of all ranks. A chunk is dark when it is complete.
    """
    log = [report for report in reports if "steps" in report]
    last = max(report["steps"] for report in log)
    total = next(report["tensor"] for report in log if report["steps"] == last)
    return {
        step: _ring_state(step, last, [report for report in log if report["steps"] == step], total)
        for step in range(last + 1)
    }


def _ring_state(step: int, last: int, reports: list[Mapping[str, Any]], total: Sequence[float]) -> Picture:
    world = len(reports)
    bounds = [len(chunk) for chunk in _split(list(range(len(total))), world)]
    starts = [sum(bounds[:number]) for number in range(world + 1)]
    phase = "before the first step" if step == 0 else "summing up" if step <= last // 2 else "handing on"
    said = [f"rank {r['rank']} sent chunk {r['chunk']} to rank {r['to']}" for r in reports if "to" in r]
    picture = Picture(
        f"Step {step} of {last}, {phase}. {'; '.join(said) if said else 'Each rank has its own numbers'}.", height=2.9
    )
    axes = picture.subplots()
    for report in sorted(reports, key=lambda report: report["rank"]):
        rank, values = report["rank"], report["tensor"]
        done = [value == right for value, right in zip(values, total, strict=True)]
        for chunk in range(world):
            part = slice(starts[chunk], starts[chunk + 1])
            colours = [DARK if ok else COLOURS[rank] for ok in done[part]]
            _cells(axes, starts[chunk] + 0.5 * chunk, 1.5 * rank, values[part], colours)
        axes.text(-0.3, 1.5 * rank + 0.5, f"rank {rank}", ha="right", va="center", fontsize=9)
        if "to" in report:
            _message(axes, report, starts, world)
    width = len(total) + 0.5 * (world - 1)
    for chunk in range(world):
        middle = (starts[chunk] + starts[chunk + 1]) / 2 + 0.5 * chunk
        axes.text(middle, -0.35, f"chunk {chunk}", ha="center", fontsize=8.5)
    axes.set(xlim=(-1.6, width + 1.6), ylim=(1.5 * world, -0.9), title=f"step {step} of {last}: {phase}")
    axes.title.set_fontsize(10)
    axes.set_axis_off()
    return picture


def _message(axes: Axes, report: Mapping[str, Any], starts: Sequence[int], world: int) -> None:
    """An arrow from the chunk that was sent to the same chunk on the rank it went to."""
    x = (starts[report["chunk"]] + starts[report["chunk"] + 1]) / 2 + 0.5 * report["chunk"]
    top, bottom = 1.5 * report["rank"] + 0.9, 1.5 * report["to"] + 0.1
    if report["to"] == 0:  # around the ring
        x = starts[report["chunk"] + 1] + 0.5 * report["chunk"] + 0.22
        top, bottom = 1.5 * (world - 1) + 0.5, 0.5
    arrow = FancyArrowPatch((x, top), (x, bottom), arrowstyle="-|>", mutation_scale=13, color=COLOURS[5], linewidth=1.8)
    axes.add_patch(arrow)


def _split(items: list[int], parts: int) -> list[list[int]]:
    """As torch.tensor_split: the first chunks are one longer where it does not come out even."""
    size, rest = divmod(len(items), parts)
    ends = [size * (number + 1) + min(number + 1, rest) for number in range(parts)]
    return [items[start:end] for start, end in zip([0, *ends], ends, strict=False)]
