"""Lesson 3's drawings of sharded state: what a rank holds, and what it sends in one step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ddp_course.pictures.base import COLOURS, DARK, Picture

_MIB, _GIB = 1 << 20, 1 << 30
_STYLES = {"all_gather": (COLOURS[0], "", "all-gather"), "reduce_scatter": (COLOURS[1], "//", "reduce-scatter")}


def state_per_rank(held: Mapping[str, Mapping[int, int]], formula: Mapping[str, int], gpu_gib: float) -> Picture:
    """The bytes of training state on rank 0 over the number of ranks, one line for each model.

    `held` maps a model to ranks → bytes on rank 0, drawn as dots; `formula` to the bytes of the whole model, drawn
    as the line that divides them by the ranks. `gpu_gib` is the memory of a GPU in GiB, dashed.
    """
    picture = Picture(
        f"Training state on rank 0 against the number of ranks, for {', '.join(held)}. Dots: as FSDP2 shards. "
        f"Lines: all of it divided by the ranks. Dashed: a GPU of {gpu_gib:g} GiB.",
        height=3.6,
    )
    axes = picture.subplots()
    for number, (name, points) in enumerate(held.items()):
        ranks = sorted(points)
        line = [formula[name] / n / _GIB for n in ranks]
        axes.plot(ranks, line, color=COLOURS[number], linewidth=1.6, linestyle=("-", "--", ":")[number % 3])
        dots = [points[n] / _GIB for n in ranks]
        axes.plot(ranks, dots, ("o", "s", "^")[number % 3], color=COLOURS[number], markersize=6, label=name)
    axes.axhline(gpu_gib, color=DARK, linestyle=(0, (5, 3)), linewidth=1.2)
    axes.text(ranks[-1], gpu_gib * 1.15, f"a GPU: {gpu_gib:g} GiB", ha="right", va="bottom", fontsize=9)
    axes.set(xscale="log", yscale="log", xlabel="ranks", ylabel="state on rank 0 (GiB)")
    axes.set_xticks(ranks, [f"{n:,}" for n in ranks])
    axes.minorticks_off()
    axes.yaxis.set_major_formatter("{x:g}")
    axes.legend(title="model", frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25, linewidth=0.6)
    return picture


def step_traffic(log: Sequence[tuple[str, int]], forward: int) -> Picture:
    """The collectives of one step in their order, as bars of their bytes.

    `log` holds (name, bytes of the whole tensor), of which the first `forward` belong to the forward pass.
    """
    picture = Picture(
        f"The {len(log)} collectives of one step in their order, as bars of their size. "
        f"Left of the line: forward. All-gathers point up, reduce-scatters down.",
        height=2.8,
    )
    axes = picture.subplots()
    for name, (colour, hatch, label) in _STYLES.items():
        places = [place for place, (one, _) in enumerate(log) if one == name]
        sign = 1 if name == "all_gather" else -1
        heights = [sign * log[place][1] / _MIB for place in places]
        axes.bar(places, heights, width=0.9, color=colour, hatch=hatch, edgecolor="white", linewidth=0, label=label)
    axes.axvline(forward - 0.5, color=DARK, linewidth=1.2)
    axes.axhline(0, color=DARK, linewidth=0.8)
    largest = max(size for _, size in log) / _MIB
    axes.text(forward - 1, -largest * 0.9, "forward", ha="right", va="bottom", fontsize=9)
    axes.text(forward, largest * 0.95, " backward", ha="left", va="top", fontsize=9)
    axes.yaxis.set_major_formatter(lambda value, _: f"{abs(value):,.0f}")
    axes.set(xlabel="collective, in the order of the calls", ylabel="size of the tensor (MiB)", xlim=(-1, len(log)))
    axes.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
    axes.spines[["top", "right"]].set_visible(False)
    return picture
