"""Controls that answer at once: sliders above a text worked out from them. In a stored notebook, the text alone."""

from __future__ import annotations

import html
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ddp_course.decision import choose
from ddp_course.memory import GB, GIB, fp32_adamw, mixed_adam

if TYPE_CHECKING:
    from ddp_course.pictures.base import Picture

_TEXT = "white-space:pre-wrap;line-height:1.5;margin:4px 0;color:var(--jp-content-font-color1,inherit)"


class Choice(NamedTuple):
    """One slider: what it sets, with its unit, the values by their text, and the text it starts at."""

    label: str
    values: Mapping[str, Any]
    start: str


class Control:
    """Sliders and the text that `answer` makes of their values. As a cell's last line it shows itself.

    `choices` maps the names of `answer`'s arguments to sliders. Where no kernel runs, a notebook shows the start.
    """

    def __init__(self, choices: Mapping[str, Choice], answer: Callable[..., str]) -> None:
        self._choices = dict(choices)
        self._answer = answer

    def text(self, **chosen: str) -> str:
        """The answer for these positions of the sliders, by their texts; the others stand at their start."""
        values = {n: c.values[chosen.get(n, c.start)] for n, c in self._choices.items()}
        return self._answer(**values)

    def __repr__(self) -> str:
        settings = ", ".join(f"{choice.label} {choice.start}" for choice in self._choices.values())
        return textwrap.fill(f"[control] {settings}", 96, subsequent_indent="  ") + f"\n{self.text()}"

    def widget(self) -> Any:
        """The sliders above the text, as widgets."""
        import ipywidgets

        from ddp_course.slider_widget import Slider

        sliders = {
            name: Slider(description=choice.label, options=list(choice.values), value=choice.start)
            for name, choice in self._choices.items()
        }
        shown = ipywidgets.HTML()

        def show(_: Any = None) -> None:
            text = html.escape(self.text(**{name: slider.value for name, slider in sliders.items()}))
            shown.value = f'<pre role="status" aria-live="polite" style="{_TEXT}">{text}</pre>'

        for slider in sliders.values():
            slider.observe(show, names="value")
        show()
        return ipywidgets.VBox([*sliders.values(), shown])

    def picture(self) -> Picture:
        """The control as it starts, for where no kernel runs."""
        from ddp_course.pictures.control import control

        return control([(c.label, list(c.values), c.start) for c in self._choices.values()], self.text())

    def _ipython_display_(self) -> None:
        from IPython.display import display

        from ddp_course.pictures.base import bundle

        picture = self.picture()
        stored = bundle(picture._repr_png_(), picture.caption, repr(self))
        display({**self.widget()._repr_mimebundle_(), **stored}, raw=True)


def _gb(size: float) -> str:
    return f"{size / GB:,.0f}" if size >= 1000 * GB else f"{size / GB:.4g}"


def _numbers(unit: str, values: Sequence[float]) -> dict[str, float]:
    return {f"{value:g} {unit}".strip(): value for value in values}


_MODELS = {"124 M": 124e6, "1 B": 1e9, "3 B": 3e9, "7.5 B": 7.5e9, "8 B": 8e9, "13 B": 13e9, "30 B": 30e9}
_MODELS |= {"70 B": 70e9, "175 B": 175e9, "1 T": 1e12}
_GPUS = {f"{gib} GiB": gib for gib in (16, 24, 32, 40, 80, 141, 192)}
_COUNTS = {f"{n:,}": n for n in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)}


def memory_calculator() -> Control:
    """Bytes of parameters, gradients and AdamW for a model, in fp32 and in mixed precision, and the GPUs it takes."""

    def answer(parameters: float, gpu: float) -> str:
        lines = []
        for name, state in (("fp32", fp32_adamw(int(parameters))), ("mixed", mixed_adam(int(parameters)))):
            parts = (state.parameters, state.gradients, state.optimizer)
            sizes = " + ".join(map(_gb, parts))
            gpus = state.total / (gpu * GIB)
            verdict = "fits on one GPU" if gpus <= 1 else f"fills {gpus:,.1f} GPUs"
            lines.append(f"{name:5}  {sizes} = {_gb(state.total)} GB before activations: {verdict}")
        return "\n".join(lines)

    choices = {"parameters": Choice("model", _MODELS, "8 B"), "gpu": Choice("memory of a GPU", _GPUS, "80 GiB")}
    return Control(choices, answer)


def decision_control() -> Control:
    """Which way to train: model, GPUs and links in; the way, the reason and the numbers that decide out."""

    def answer(**values: Any) -> str:
        return str(choose(**values))

    choices = {
        "parameters": Choice("model", _MODELS, "13 B"),
        "gpu_gib": Choice("memory of a GPU", _GPUS, "40 GiB"),
        "gpus": Choice("GPUs", _COUNTS, "8"),
        "gpus_per_node": Choice("GPUs in a node", {str(n): n for n in (1, 2, 4, 8)}, "8"),
        "inside_gb_s": Choice("link inside a node", _numbers("GB/s", (16, 32, 300, 450, 900)), "450 GB/s"),
        "between_gb_s": Choice("link between nodes", _numbers("GB/s", (1, 3, 12, 25, 50, 100)), "50 GB/s"),
    }
    return Control(choices, answer)
