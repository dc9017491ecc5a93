"""Controls that answer at once: sliders above a text, and where there is one a picture, worked out from them."""

from __future__ import annotations

import html
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from ddp_course.decision import choose
from ddp_course.memory import GB, GIB, fits, fp32_adamw, mixed_adam
from ddp_course.scaling import PUBLISHED, Cluster, Job, Link, strong, weak

if TYPE_CHECKING:
    from ddp_course.pictures.base import Picture

_TEXT = (
    "white-space:pre-wrap;word-break:normal;overflow-wrap:anywhere;line-height:1.5;margin:4px 0;"
    "color:var(--jp-content-font-color1,inherit)"
)


class Choice(NamedTuple):
    """One slider: what it sets, with its unit, the values by their text, and the text it starts at."""

    label: str
    values: Mapping[str, Any]
    start: str


class Control:
    """Sliders and the text that `answer` makes of their values. As a cell's last line it shows itself.

    `choices` maps the names of `answer`'s arguments to sliders; `draw` takes the same ones and makes a picture, which
    stands above the text. Where no kernel runs, a notebook shows the start.
    """

    def __init__(
        self, choices: Mapping[str, Choice], answer: Callable[..., str], draw: Callable[..., Picture] | None = None
    ) -> None:
        self._choices = dict(choices)
        self._answer = answer
        self._draw = draw

    def text(self, **chosen: str) -> str:
        """The answer for these positions of the sliders, by their texts; the others stand at their start."""
        return self._answer(**self._values(chosen))

    def _values(self, chosen: Mapping[str, str]) -> dict[str, Any]:
        return {n: c.values[chosen.get(n, c.start)] for n, c in self._choices.items()}

    def __repr__(self) -> str:
        settings = ", ".join(f"{choice.label} {choice.start}" for choice in self._choices.values())
        return textwrap.fill(f"[control] {settings}", 96, subsequent_indent="  ") + f"\n{self.text()}"

    def widget(self) -> Any:
        """The sliders above the text, as widgets."""
        import ipywidgets

        from ddp_course.pictures.base import image
        from ddp_course.slider_widget import Slider

        sliders = {
            name: Slider(description=choice.label, options=list(choice.values), value=choice.start)
            for name, choice in self._choices.items()
        }
        said = ipywidgets.HTML()
        drawing = ipywidgets.HTML(layout={"width": "100%", "margin": "0"})

        def show(_: Any = None) -> None:
            chosen = {name: slider.value for name, slider in sliders.items()}
            text = html.escape(self.text(**chosen))
            said.value = f'<pre role="status" aria-live="polite" style="{_TEXT}">{text}</pre>'
            if drawn := self._drawn(chosen):  # after the answer: a picture takes its time
                drawing.value = image(drawn._repr_png_(), drawn.caption)

        for slider in sliders.values():
            slider.observe(show, names="value")
        show()
        return ipywidgets.VBox([*sliders.values(), *([drawing] if self._draw else []), said])

    def _drawn(self, chosen: Mapping[str, str]) -> Picture | None:
        return self._draw(**self._values(chosen)) if self._draw else None

    def picture(self, **chosen: str) -> Picture:
        """What it draws at these positions. Without a drawing of its own: the control as it starts, which a notebook
        shows where no kernel runs."""
        if drawn := self._drawn(chosen):
            return drawn
        from ddp_course.pictures.control import control

        return control([(c.label, list(c.values), c.start) for c in self._choices.values()], self.text())

    def _ipython_display_(self) -> None:
        from IPython.display import display

        from ddp_course.pictures.base import bundle

        picture = self.picture()
        stored = bundle(picture._repr_png_(), picture.caption, repr(self))
        display({**self.widget()._repr_mimebundle_(), **stored}, raw=True)


def _gb(size: float, digits: int = 4) -> str:
    return f"{size / GB:,.0f}" if size >= 10 ** (digits - 1) * GB else f"{size / GB:.{digits}g}"


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


def sharding_calculator() -> Control:
    """Bytes on each GPU in mixed precision, for DDP and for the three stages of ZeRO, and whether they fit."""

    def answer(parameters: float, ranks: int, gpu: float) -> str:
        lines = []
        for stage, name in enumerate(("DDP", "ZeRO-1", "ZeRO-2", "ZeRO-3")):
            state = mixed_adam(int(parameters), stage, ranks)
            parts = (state.parameters, state.gradients, state.optimizer)
            sizes = " + ".join(_gb(part, 3) for part in parts)
            verdict = "fits" if fits(state.total, gpu) else "does not fit"
            lines.append(f"{name:6}  {sizes} = {_gb(state.total)} GB on each GPU: {verdict}")
        return "\n".join(lines)

    choices = {
        "parameters": Choice("model", _MODELS, "7.5 B"),
        "ranks": Choice("GPUs", _COUNTS, "64"),
        "gpu": Choice("memory of a GPU", _GPUS, "40 GiB"),
    }
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


_INSIDE = Link(5e-6, 1 / 450e9)  # NVLink 4
_CAPS = {"1 MiB": 1 << 20, "5 MiB": 5 << 20, "25 MiB": 25 << 20, "100 MiB": 100 << 20, "no limit": float("inf")}


def scaling_model() -> Control:
    """Efficiency on 8 to 1,024 GPUs: the step on one GPU, gradient, network and buckets in; a picture out.

    Relative to one node of 8 GPUs with NVLink 4 inside; published measurements beside, each with its own network.
    """

    def curves(
        compute: float, parameters: float, network: float, alpha: float, bucket: float
    ) -> dict[str, list[float]]:
        from ddp_course.pictures.scaling import GPUS

        cluster = Cluster(_INSIDE, Link(alpha, 8 / (network * 1e9)))
        job = Job(compute, 4 * parameters, bucket=bucket)
        late = replace(job, overlap=False)
        return {
            "weak scaling": [weak(job, cluster, n, 8) for n in GPUS],
            "weak, nothing hidden": [weak(late, cluster, n, 8) for n in GPUS],
            "strong scaling": [strong(job, cluster, n, 8) for n in GPUS],
        }

    def answer(**values: float) -> str:
        from ddp_course.pictures.scaling import GPUS

        head = f"{'GPUs':20}" + "".join(f"{n:>7,}" for n in GPUS)
        rows = [
            f"{name:20}" + "".join(f"{v:>7.0%}" if v >= 0.095 else f"{v:>7.1%}" for v in row)
            for name, row in curves(**values).items()
        ]
        return "\n".join([head, *rows])

    def draw(**values: float) -> Picture:
        from ddp_course.pictures.scaling import efficiencies

        return efficiencies(curves(**values), PUBLISHED)

    models = {"2.5 M": 2.5e6, "25 M": 25e6, "138 M": 138e6, "350 M": 350e6, "1.5 B": 1.5e9}
    networks = (1, 10, 25, 50, 100, 200, 400, 800, 3200)
    choices = {
        "compute": Choice("step on one GPU", {f"{ms} ms": ms / 1e3 for ms in (10, 30, 100, 165, 400, 1000)}, "165 ms"),
        "parameters": Choice("parameters, fp32", models, "25 M"),
        "network": Choice("network of a node", _numbers("Gb/s", networks), "50 Gb/s"),
        "alpha": Choice("latency α", {f"{us} µs": us / 1e6 for us in (1, 5, 20, 100, 500)}, "20 µs"),
        "bucket": Choice("bucket cap", _CAPS, "25 MiB"),
    }
    return Control(choices, answer, draw)
