"""`make screenshots`: each section of each lesson as a browser shows it, in build/screenshots/, to be looked at.

The cells are run first. Then the lesson is photographed in JupyterLab, light and dark, at 100 % and at 150 %, and
in Notebook 7.  `make screenshots ARGS="02 03"` does some lessons only.
"""

from __future__ import annotations

import itertools
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from browser import ROOT, Lab, Notebook, browser, lab
from conftest import find_chromium

OUT = ROOT / "build" / "screenshots"
WIDTH, HEIGHT, TALLEST = 1280, 900, 12_000
SECONDS = 600  # for all cells of a lesson


def sections(cells: list[Any]) -> dict[str, tuple[int, int]]:
    """Name of each section → its first and last cell."""
    starts = [(0, "start")]
    for index, cell in enumerate(cells):
        if cell.cell_type == "markdown" and (heading := re.match("## +(.+)", cell.source)):
            starts.append((index, re.sub(r"\W+", "-", heading.group(1)).strip("-").lower()))
    pairs = itertools.pairwise([*starts, (len(cells), "")])
    return {f"{number:02}-{name}": (first, after - 1) for number, ((first, name), (after, _)) in enumerate(pairs)}


def shoot(notebook: Notebook, look: str) -> None:
    """One picture a section."""
    page = notebook.page
    folder = OUT / notebook.path.stem / look
    folder.mkdir(parents=True, exist_ok=True)
    width = page.viewport_size["width"]
    for name, (first, last) in sections(notebook.stored()).items():
        page.set_viewport_size({"width": width, "height": HEIGHT})
        notebook.cell(last).scroll_into_view_if_needed()
        top, bottom = (notebook.cell(index).bounding_box() for index in (first, last))
        height = bottom["y"] + bottom["height"] - top["y"]
        page.set_viewport_size({"width": width, "height": int(min(height + 200, TALLEST))})
        notebook.cell(first).evaluate("cell => cell.scrollIntoView({block: 'start'})")
        page.wait_for_timeout(500)
        page.screenshot(path=folder / f"{name}.png")
    print(f"  {look}", flush=True)


def lesson(server: Lab, window: Any, name: str) -> None:
    print(name, flush=True)
    page = window.new_context(viewport={"width": WIDTH, "height": HEIGHT}).new_page()
    notebook = server.open_from_file_browser(page, name)
    notebook.run_all(SECONDS)
    notebook.save()
    shoot(notebook, "lab")
    notebook.page.set_viewport_size({"width": WIDTH, "height": HEIGHT})
    notebook.theme("Dark")
    shoot(notebook, "lab-dark")
    notebook.page.set_viewport_size({"width": WIDTH, "height": HEIGHT})
    notebook.theme("Light")
    page.context.close()
    looks = {"lab-150": (f"lab/workspaces/zoomed/tree/{name}", 1.5), "notebook": (f"notebooks/{name}", 1.0)}
    for look, (address, zoom) in looks.items():
        size = {"width": int(WIDTH / zoom), "height": int(HEIGHT / zoom)}
        page = window.new_context(viewport=size, device_scale_factor=zoom).new_page()
        again = Notebook(page, notebook.path)
        page.goto(server.url(address))
        again.wait_loaded(len(again.stored()))
        page.wait_for_timeout(3000)  # widgets come from the kernel
        if zoom > 1:
            page.keyboard.press("Control+B")  # without the file browser, as `make lab` opens it
        shoot(again, look)
        page.context.close()
    server.end_kernel(name)


def main(numbers: list[str]) -> None:
    wanted = [
        path for path in sorted((ROOT / "lessons").glob("[0-9]*.ipynb")) if not numbers or path.name[:2] in numbers
    ]
    executable = find_chromium()
    if not executable:
        sys.exit("There is no Chromium here. CHROMIUM=/where/it/is make screenshots")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file in [*wanted, *(ROOT / "lessons").glob("*.py")]:
            shutil.copy(file, folder)
        with lab(folder) as server, browser(executable) as window:
            for path in wanted:
                lesson(server, window, path.name)
    print(f"They are in {OUT.relative_to(ROOT)}.")


if __name__ == "__main__":
    main(sys.argv[1:])
