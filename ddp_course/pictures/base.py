"""The figure that all pictures of the course are, and their colours."""

from __future__ import annotations

import base64
import html
import io
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

# Okabe and Ito's colours, which colour-blind people can tell apart, in the order in which ranks take them.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#999999")
DARK = "#222222"
_DPI = 110


class Picture(Figure):
    """A matplotlib figure that a notebook stores as a PNG, with its caption as the text beside it.

    `caption` is one line that says in words what the picture shows. Not pyplot's: nothing is shown twice,
    and no backend is chosen.
    """

    def __init__(self, caption: str, width: float = 8.0, height: float = 3.2) -> None:
        super().__init__(figsize=(width, height), dpi=_DPI, layout="constrained")
        self.caption = caption

    def __repr__(self) -> str:
        return f"[picture] {self.caption}"

    def _repr_png_(self) -> bytes:
        canvas, file = FigureCanvasAgg(self), io.BytesIO()
        canvas.draw()  # a slider's picture has 200 ms: savefig() would draw twice, and a PNG on the way takes time
        pixels = Image.fromarray(np.asarray(canvas.buffer_rgba()))
        # Lines and letters need no more than 256 colours, which take half the bytes. The same bytes each time.
        pixels.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(file, "PNG")
        return file.getvalue()

    def _ipython_display_(self) -> None:
        """Show the PNG and the caption, whatever pyplot has registered for figures."""
        from IPython.display import display

        display(bundle(self._repr_png_(), self.caption, repr(self)), raw=True)


def image(png: bytes, said: str) -> str:
    """A PNG as HTML, with what it shows in words for those who do not see it."""
    width, data = int.from_bytes(png[16:20], "big"), base64.b64encode(png).decode()
    style = f"width:100%;max-width:{width}px"  # as wide as there is room
    return f'<img alt="{html.escape(said)}" style="{style}" src="data:image/png;base64,{data}">'


def bundle(png: bytes, said: str, text: str) -> dict[str, Any]:
    """A picture as a notebook stores it: as HTML, as the PNG alone, and as `text`.

    JupyterLab shows the HTML. To an image/png it gives no alternative text, whatever its metadata say; other
    viewers, and PDF export, take the PNG.
    """
    return {"text/html": image(png, said), "image/png": png, "text/plain": text}
