"""The drawings of the lessons: values of real runs in, a `Picture` out. No state, no side effects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from ddp_course.pictures.base import COLOURS, DARK, Picture

_MIB = 1 << 20


def sampler_map(orders: Mapping[str, Sequence[Sequence[Sequence[int]]]], samples: int) -> Picture:
    """Which rank sees which sample in which epoch, one panel for each way to sample.

    `orders` maps a panel's title to `[epoch][rank]` → the indices that this rank got, each in
    0 … `samples` − 1. A cell's colour and number are the rank; a split cell was seen by several ranks, a
    hatched one by none. Raises ValueError for an index outside the range.
    """
    picture = Picture(
        "Samples across, epochs down; number and colour are the rank that sees the sample. "
        "Split: seen twice. Hatched: not seen.",
        height=0.75 + 0.3 * max(len(epochs) for epochs in orders.values()),
    )
    panels = picture.subplots(1, len(orders), sharey=True, squeeze=False)[0]
    for axes, (title, epochs) in zip(panels, orders.items(), strict=True):
        for epoch, ranks in enumerate(epochs):
            seen: list[list[int]] = [[] for _ in range(samples)]
            for rank, indices in enumerate(ranks):
                for index in indices:
                    if not 0 <= index < samples:
                        raise ValueError(f"{title}, epoch {epoch}: rank {rank} has sample {index} of {samples}")
                    seen[index].append(rank)
            for sample, who in enumerate(seen):
                _cell(axes, sample, epoch, who)
        axes.set(xlim=(0, samples), ylim=(len(epochs), 0), title=title, xlabel="sample (index)", aspect="equal")
        axes.set_xticks([i + 0.5 for i in range(samples)], [str(i) for i in range(samples)])
        axes.set_yticks([i + 0.5 for i in range(len(epochs))], [str(i) for i in range(len(epochs))])
        axes.tick_params(length=0, labelsize=8)
        axes.title.set_fontsize(9.5)
    panels[0].set_ylabel("epoch")
    return picture


def _cell(axes: Axes, x: int, y: int, ranks: Sequence[int]) -> None:
    """One cell of the map: a strip for each rank that saw the sample."""
    if not ranks:
        axes.add_patch(Rectangle((x, y), 1, 1, facecolor="white", edgecolor="#888888", hatch="////", linewidth=0))
    width = 1 / max(1, len(ranks))
    for position, rank in enumerate(ranks):
        left = x + position * width
        axes.add_patch(Rectangle((left, y), width, 1, facecolor=COLOURS[rank % len(COLOURS)], linewidth=0))
        size = 8 if len(ranks) == 1 else 6.5
        ink = "white" if rank % len(COLOURS) == 0 else "black"
        axes.text(left + width / 2, y + 0.53, str(rank), ha="center", va="center", fontsize=size, color=ink)
    axes.add_patch(Rectangle((x, y), 1, 1, fill=False, edgecolor="white", linewidth=1.2))


def loss_curves(curves: Mapping[str, Sequence[float]], tolerance: float = 1e-4) -> Picture:
    """Loss curves of several runs on each other, and how far each is from the first.

    `curves` maps a run's name to its loss after each step, in nats per byte; all of one length.
    `tolerance` is drawn into the right half as the line to stay below.
    """
    names = list(curves)
    picture = Picture(
        f"Left: the losses of {' and '.join(names)}, on each other. "
        f"Right: how far they are apart at each step, equal ones at 1e-9; dashed line at {tolerance:g}."
    )
    left, right = picture.subplots(1, 2, width_ratios=(3, 2))
    first = curves[names[0]]
    steps = range(len(first))
    for number, (name, losses) in enumerate(curves.items()):
        style = {"linewidth": 6.0, "alpha": 0.45} if number == 0 else {"linewidth": 1.6, "linestyle": "--"}
        left.plot(steps, losses, color=COLOURS[number] if number == 0 else DARK, label=name, **style)
        if number:
            apart = [max(abs(a - b), 1e-9) for a, b in zip(first, losses, strict=True)]  # a log axis has no 0
            right.semilogy(steps, apart, "o", markersize=3.5, color=DARK, label=f"{name} against {names[0]}")
    left.set(xlabel="step", ylabel="loss (nats per byte)", title="loss on the global batch")
    left.legend(frameon=False)
    right.axhline(tolerance, color=COLOURS[5], linestyle="--", linewidth=1.4)
    right.text(len(first) - 1, tolerance * 1.5, f"{tolerance:g}", ha="right", va="bottom", color=COLOURS[5])
    right.set(xlabel="step", ylabel="|difference| (nats per byte)", title="how far apart", ylim=(5e-10, 1e-2))
    _tidy(left, right)
    return picture


def training_curve(steps: Sequence[int], losses: Sequence[float], levels: Mapping[str, float]) -> Picture:
    """The loss of one training run over its steps, with horizontal lines to compare it with.

    `losses` and the values of `levels` (name → height) are in nats per byte.
    """
    picture = Picture("The training loss over the steps, beside horizontal lines: " + ", ".join(levels) + ".")
    axes = picture.subplots()
    axes.plot(steps, losses, color=COLOURS[0], linewidth=2, marker="o", markersize=3)
    for number, (name, height) in enumerate(levels.items()):
        axes.axhline(height, color=COLOURS[(5, 2)[number % 2]], linestyle=("--", ":")[number % 2], linewidth=1.6)
        axes.text(1.01, height, f"{name}\n{height:.2f}", transform=axes.get_yaxis_transform(), va="center", fontsize=9)
    axes.set(xlabel="step", ylabel="loss (nats per byte)", title="training loss on the global batch")
    _tidy(axes)
    return picture


def bucket_layout(layouts: Mapping[str, Sequence[Sequence[int]]], caps: Mapping[str, Sequence[int]]) -> Picture:
    """Which gradients travel together, one row for each layout.

    `layouts` maps a row's title to its buckets in the order of sending, each the bytes of its tensors. `caps`
    maps the same titles to the cap of each bucket in bytes, drawn as a dashed line; missing ones are not drawn.
    """
    picture = Picture(
        "Buckets in the order of sending, from the left; white lines part their tensors. "
        "A dashed line is a bucket's cap: a bucket closes with the tensor that crosses it.",
        height=1.0 + 0.62 * len(layouts),
    )
    axes = picture.subplots()
    for row, (title, buckets) in enumerate(layouts.items()):
        start = 0.0
        for number, tensors in enumerate(buckets):
            colour, left = COLOURS[number % len(COLOURS)], start
            for size in tensors:
                box = Rectangle(
                    (left, row - 0.32), size / _MIB, 0.64, facecolor=colour, edgecolor="white", linewidth=0.6
                )
                axes.add_patch(box)
                left += size / _MIB
            _bucket_name(axes, start, left, row, f"bucket {number}: {left - start:.1f} MiB", colour)
            for cap in caps.get(title, ())[number : number + 1]:
                axes.plot([start + cap / _MIB] * 2, [row - 0.42, row + 0.42], color=DARK, linestyle="--", linewidth=1.3)
            start = left
    widest = max(sum(map(sum, buckets)) for buckets in layouts.values()) / _MIB
    axes.set(xlim=(0, widest * 1.005), ylim=(len(layouts) - 0.5, -0.5), xlabel="gradient (MiB), sent first at the left")
    axes.set_ylabel("layout")
    axes.set_yticks(range(len(layouts)), list(layouts))
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
    return picture


def _bucket_name(axes: Axes, start: float, end: float, row: int, name: str, colour: str) -> None:
    """The name of a bucket in its middle; above a bucket that is too narrow for it."""
    ink = "white" if colour in (COLOURS[0], COLOURS[2], COLOURS[5]) else "black"
    if end - start > 12:
        box = {"facecolor": colour, "edgecolor": "none", "pad": 2}  # over the white lines
        axes.text((start + end) / 2, row, name, ha="center", va="center", fontsize=9, color=ink, bbox=box)
    elif end - start > 3:
        axes.text(start, row - 0.36, name, ha="left", va="bottom", fontsize=8)


def hook_costs(curves: Mapping[str, Sequence[float]], sent: Mapping[str, Sequence[int]]) -> Picture:
    """What communication hooks save and what they cost: loss and bytes sent at each step, for each hook.

    `curves` maps a hook's name to its loss after each step (nats), `sent` to the bytes each rank handed to
    all-reduce in each step. All of one length.
    """
    picture = Picture(
        f"Left: the loss with {', '.join(curves)}. Right: the bytes that each rank hands to all-reduce in a step, "
        "on a logarithmic axis."
    )
    left, right = picture.subplots(1, 2)
    styles = ("-", "--", ":", "-.")
    for number, name in enumerate(curves):
        style = {
            "color": COLOURS[number],
            "linestyle": styles[number % 4],
            "linewidth": (5.0, 3.2, 2.2, 1.6)[number % 4],
        }
        left.plot(curves[name], label=name, **style)
        right.semilogy([size / 1024 for size in sent[name]], label=name, **style)
    left.set(xlabel="step", ylabel="loss (nats)", title="loss on the global batch")
    right.set(xlabel="step", ylabel="KiB a step", title="handed to all-reduce")
    left.legend(frameon=False)
    right.yaxis.set_major_formatter("{x:g}")
    _tidy(left, right)
    return picture


def _tidy(*panels: Axes) -> None:
    for axes in panels:
        axes.spines[["top", "right"]].set_visible(False)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.grid(alpha=0.25, linewidth=0.6)
        axes.title.set_fontsize(10)
