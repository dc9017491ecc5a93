"""The drawing of lesson 4 about restarts: the losses of each start on those of a run that was never killed."""

from __future__ import annotations

from collections.abc import Mapping

from ddp_course.pictures.base import COLOURS, DARK, Picture


def starts(whole: Mapping[int, float], parts: Mapping[int, Mapping[int, float]]) -> Picture:
    """`whole`: step → loss in nats per byte of the run that was never killed. `parts`: start → the same of each start
    of a run that was. A cross closes every start but the last."""
    killed = len(parts) - 1
    picture = Picture(
        f"Loss over steps. Grey: never killed. Coloured: the {len(parts)} starts of a run that was killed "
        f"{killed} time{'s' * (killed != 1)}, at the crosses.",
        height=2.9,
    )
    axes = picture.subplots()
    axes.plot(list(whole), list(whole.values()), color="#bbbbbb", linewidth=9, label="never killed")
    for number, (start, losses) in enumerate(parts.items()):
        steps, values = list(losses), list(losses.values())
        axes.plot(steps, values, "o-", color=COLOURS[number % 6], linewidth=2, markersize=6, label=f"start {start}")
        if number < killed and steps:
            axes.plot(steps[-1] + 0.4, values[-1], "x", color=DARK, markersize=9, markeredgewidth=2.2)
    axes.set(xlabel="step", ylabel="loss (nats per byte)")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1.01, 0.5))
    return picture
