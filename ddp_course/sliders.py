"""A slider that leafs through pictures. They are drawn beforehand, so a move shows the next one at once."""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import Any

from ddp_course.pictures.base import Picture, bundle, image


class PictureSlider:
    """Pictures by value, with a slider to choose one. As a cell's last line it shows itself.

    `label` names the value, with its unit; `pictures` maps values, in order, to pictures; `start` is shown first.
    Where no kernel runs, a notebook shows the picture of `start`. The arrow keys move the slider, and a screen
    reader hears the value, the picture's caption, and its `measured` where it has that. Raises ValueError where there
    is no picture for `start`.
    """

    def __init__(self, label: str, pictures: Mapping[Any, Picture], start: Any) -> None:
        if start not in pictures:
            raise ValueError(f"no picture for {label} {start!r}; there are: {', '.join(map(str, pictures))}")
        self._label = label
        self._start = start
        self._pngs = {value: picture._repr_png_() for value, picture in pictures.items()}
        self._captions = {value: picture.caption for value, picture in pictures.items()}
        self._measured = {value: getattr(picture, "measured", "") for value, picture in pictures.items()}

    def __repr__(self) -> str:
        values = ", ".join(map(str, self._pngs))
        return f"[slider] {self._label}: {values}. At {self._start}: {self._captions[self._start]}"

    def widget(self) -> Any:
        """The slider above its picture, as widgets."""
        import ipywidgets

        from ddp_course.slider_widget import Slider

        by_text = {str(value): value for value in self._pngs}
        slider = Slider(description=self._label, options=list(by_text), value=str(self._start))
        shown = ipywidgets.HTML(self._shown(self._start), layout={"width": "100%", "margin": "0"})
        slider.observe(lambda change: setattr(shown, "value", self._shown(by_text[change["new"]])), names="value")
        return ipywidgets.VBox([slider, shown])

    def _said(self, value: Any) -> str:
        return f"{self._label} {value}. {self._captions[value]} {self._measured[value]}".strip()

    def _shown(self, value: Any) -> str:
        words = html.escape(self._said(value))
        return (
            f"{image(self._pngs[value], self._said(value))}"
            f'<div role="status" aria-live="polite" style="position:absolute;left:-9999px">{words}</div>'
        )

    def _ipython_display_(self) -> None:
        from IPython.display import display

        stored = bundle(self._pngs[self._start], self._said(self._start), repr(self))
        display({**self.widget()._repr_mimebundle_(), **stored}, raw=True)
