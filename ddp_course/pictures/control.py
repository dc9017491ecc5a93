"""How a control looks where no kernel runs: each slider where it starts, and the answer below."""

from __future__ import annotations

from collections.abc import Sequence

from ddp_course.pictures.base import COLOURS, DARK, Picture

_LINE = 0.26  # inches
_WIDTH = 8.0


def control(sliders: Sequence[tuple[str, Sequence[str], str]], answer: str) -> Picture:
    """`sliders`: label, texts of the positions, text of the one chosen. `answer`: what the control then says."""
    lines = answer.splitlines()
    said = "; ".join([*(f"{label}: {chosen}" for label, _, chosen in sliders), *lines])
    height = (len(sliders) + len(lines) + 1.2) * _LINE
    picture = Picture(f"A control, at its start. {said}", _WIDTH, height)
    axes = picture.add_subplot()
    axes.set(xlim=(0, _WIDTH), ylim=(-height / _LINE, 0))
    axes.set_axis_off()
    for row, (label, texts, chosen) in enumerate(sliders, 1):
        knob = 2 + 2.6 * texts.index(chosen) / max(len(texts) - 1, 1)
        axes.plot([2, 4.6], [-row, -row], color="#bbbbbb", linewidth=3, solid_capstyle="round")
        axes.plot([2, knob], [-row, -row], color=COLOURS[0], linewidth=3, solid_capstyle="round")
        axes.plot([knob], [-row], "o", color=COLOURS[0], markersize=9)
        axes.text(0.05, -row, label, va="center", color=DARK, fontsize=9.5)
        axes.text(4.9, -row, chosen, va="center", color=DARK, fontsize=9.5)
    for row, line in enumerate(lines, len(sliders) + 1):
        axes.text(0.05, -row - 0.5, line, va="center", color=DARK, fontsize=8.5, family="monospace")
    return picture
