"""One slider: its label, the browser's own slider, and the value in words.

The slider of ipywidgets tells a screen reader neither its label nor its value, only the number of the position.
"""

from __future__ import annotations

from typing import Any

import anywidget
import traitlets

_ESM = """
function render({ model, el }) {
  const values = model.get("options");
  const label = document.createElement("label");
  const name = document.createElement("span");
  const slider = document.createElement("input");
  const shown = document.createElement("span");
  name.textContent = model.get("description");
  slider.type = "range";
  slider.max = values.length - 1;
  slider.setAttribute("aria-label", model.get("description"));
  shown.setAttribute("aria-hidden", "true");  // the slider says it
  const show = () => {
    slider.value = values.indexOf(model.get("value"));
    slider.setAttribute("aria-valuetext", model.get("value"));
    shown.textContent = model.get("value");
  };
  slider.addEventListener("input", () => {
    model.set("value", values[slider.valueAsNumber]);
    model.save_changes();
  });
  slider.addEventListener("keydown", event => {
    if (event.key.startsWith("Arrow")) event.stopPropagation();  // else JupyterLab goes to the next cell
  });
  model.on("change:value", show);
  show();
  label.append(name, slider, shown);
  el.classList.add("ddp-slider");
  el.append(label);
}
export default { render };
"""
_CSS = """
.ddp-slider label { display: flex; align-items: center; gap: 1em; padding: 2px 4px; }
.ddp-slider span:first-child { flex: 0 0 10em; }
.ddp-slider input { flex: 0 1 20em; min-width: 4em; margin: 0; accent-color: var(--jp-brand-color1, #1976d2); }
.ddp-slider span:last-child { flex: none; }
.ddp-slider label { color: var(--jp-content-font-color1, inherit); font-size: var(--jp-widgets-font-size, 13px); }
"""


class Slider(anywidget.AnyWidget):
    """Chooses `value` from the texts in `options`. The arrow keys, Home and End move it."""

    _esm = _ESM
    _css = _CSS
    description: Any = traitlets.Unicode().tag(sync=True)
    options: Any = traitlets.List(traitlets.Unicode()).tag(sync=True)
    value: Any = traitlets.Unicode().tag(sync=True)
