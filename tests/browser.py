"""A real JupyterLab, started as `make lab` does, and a notebook in it as a learner's browser shows it."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nbformat
import psutil

ROOT = Path(__file__).parent.parent
_QUIET = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
_QUIET += ["--disable-component-update", "--disable-sync"]
_ADDRESS = re.compile(r"(http://127\.0\.0\.1:\d+)/lab\S*token=(\w+)")

# To `evaluate` on an element.
# The lowest contrast of any text below an element with what is behind it, as WCAG defines it.
CONTRAST = """root => {
  const rgb = colour => colour.match(/[\\d.]+/g).map(Number);
  const linear = c => (c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  const luminance = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
  const behind = element => {
    for (; element; element = element.parentElement) {
      const colour = rgb(getComputedStyle(element).backgroundColor);
      if (colour.length < 4 || colour[3] === 1) return colour;
    }
    return [255, 255, 255];
  };
  const texts = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  let lowest = 21;
  while (texts.nextNode()) {
    if (!texts.currentNode.textContent.trim()) continue;
    const element = texts.currentNode.parentElement;
    const [a, b] = [rgb(getComputedStyle(element).color), behind(element)].map(luminance);
    lowest = Math.min(lowest, (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05));
  }
  return lowest;
}"""
# What can be scrolled sideways in an element or around it, up to the notebook.
SIDEWAYS = """root => {
  const around = [];
  for (let e = root; e && !e.classList.contains('jp-NotebookPanel'); e = e.parentElement) around.push(e);
  return [...root.querySelectorAll('*'), ...around]
    .filter(e => e.scrollWidth > e.clientWidth && ['auto', 'scroll'].includes(getComputedStyle(e).overflowX))
    .map(e => `${e.className}: ${e.scrollWidth} px in ${e.clientWidth}`);
}"""


@contextmanager
def lab(folder: Path) -> Iterator[Lab]:
    """JupyterLab in `folder`, with settings, trust and workspaces of its own. It ends with its kernels."""
    private = Path(tempfile.mkdtemp(prefix="jupyter-"))
    env = {
        **os.environ,
        "JUPYTER_CONFIG_PATH": str(ROOT / "ddp_course" / "jupyter"),
        "JUPYTER_CONFIG_DIR": str(private),
        "JUPYTER_DATA_DIR": str(private),
        "JUPYTER_RUNTIME_DIR": str(private / "runtime"),
        "IPYTHONDIR": str(private / "ipython"),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    env.pop("DDP_COURSE_PANEL", None)
    command = [sys.executable, "-m", "jupyter", "lab", "--no-browser", "--port", "0"]
    command += ["--allow-root"] if os.geteuid() == 0 else []
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    server = subprocess.Popen(command, cwd=folder, env=env, start_new_session=True, **pipes)
    lines: list[str] = []
    threading.Thread(target=lambda: lines.extend(iter(server.stdout.readline, "")), daemon=True).start()  # type: ignore[union-attr]
    try:
        deadline = time.monotonic() + 60
        while not (found := _ADDRESS.search("".join(lines))):
            assert server.poll() is None and time.monotonic() < deadline, "no address:\n" + "".join(lines)
            time.sleep(0.1)
        yield Lab(folder, found.group(1), found.group(2))
    finally:
        family = psutil.Process(server.pid).children(recursive=True) if server.poll() is None else []
        os.killpg(server.pid, signal.SIGTERM)
        try:
            server.wait(timeout=15)
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, signal.SIGKILL)
        for process in family:  # kernels are in sessions of their own
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
        shutil.rmtree(private, ignore_errors=True)


@contextmanager
def browser(executable: str) -> Iterator[Any]:
    """Playwright's browser object."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        instance = playwright.chromium.launch(executable_path=executable, args=_QUIET)
        yield instance
        instance.close()


class Lab:
    """A running server; `open()` shows one of its notebooks."""

    def __init__(self, folder: Path, address: str, token: str) -> None:
        self.folder = folder
        self._address = address
        self._token = token

    def write(self, name: str, *cells: str) -> None:
        """A notebook with these code cells, none of them run, in a folder of its own."""
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
        notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
        path = self.folder / name / "lesson.ipynb"
        path.parent.mkdir()
        nbformat.write(notebook, path)

    def open(self, page: Any, name: str) -> Notebook:
        """The notebook of this name on a page 1280 px wide, in a workspace of its own, its kernel idle."""
        page.set_viewport_size({"width": 1280, "height": 900})
        notebook = Notebook(page, self.folder / name / "lesson.ipynb")
        page.goto(self.url(f"lab/workspaces/{name}/tree/{name}/lesson.ipynb"))
        notebook.wait_ready()
        return notebook

    def open_from_file_browser(self, page: Any, name: str) -> Notebook:
        """The notebook of this name in the server's folder, opened by a double click, all its cells there."""
        notebook = Notebook(page, self.folder / name)
        cells = len(notebook.stored())
        page.goto(self.url(f"lab/workspaces/{notebook.path.stem}"))
        page.locator(".jp-DirListing-item", has_text=name).dblclick()
        notebook.wait_ready()
        notebook.wait_loaded(cells)
        return notebook

    def url(self, path: str) -> str:
        """The address of a page of this server, with the token; a workspace starts empty."""
        return f"{self._address}/{path}?token={self._token}&reset"

    def end_kernel(self, name: str) -> None:
        """End the kernel of the notebook of this name, or in the folder of this name."""
        for session in self._rest("GET", "sessions"):
            if session["path"].split("/")[0] == name:
                self._rest("DELETE", f"sessions/{session['id']}")

    def _rest(self, method: str, path: str) -> Any:
        url = f"{self._address}/api/{path}"
        request = urllib.request.Request(url, method=method, headers={"Authorization": f"token {self._token}"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.loads(answer.read() or b"null")


class Notebook:
    """An open notebook, driven by what a learner clicks and reads."""

    def __init__(self, page: Any, path: Path) -> None:
        self.page = page
        self.path = path
        self.messages = 0  # received from kernels
        page.on("websocket", self._count)

    def _count(self, socket: Any) -> None:
        def received(_: Any) -> None:
            self.messages += 1

        if "/channels" in socket.url:
            socket.on("framereceived", received)

    def wait_ready(self) -> None:
        """Until the notebook shows and its kernel is there: before, JupyterLab drops the keys that run a cell."""
        self.page.locator(".jp-Notebook .jp-CodeCell").first.wait_for(timeout=60_000)
        self.page.locator("#jp-main-statusbar", has_text="| Idle").wait_for(timeout=60_000)

    def wait_loaded(self, cells: int) -> None:
        """Until the page has all of the notebook's cells: JupyterLab adds them one by one."""
        counted = "n => document.querySelectorAll('.jp-Notebook .jp-Cell').length === n"
        self.page.wait_for_function(counted, arg=cells, timeout=120_000)

    def cell(self, index: int) -> Any:
        return self.page.locator(".jp-Notebook .jp-Cell").nth(index)

    def output(self, index: int) -> Any:
        return self.cell(index).locator(".jp-Cell-outputArea")

    def text(self, index: int) -> str:
        """What the cell's output reads. JupyterLab renders only what is on the screen."""
        self.output(index).scroll_into_view_if_needed()
        self.page.wait_for_timeout(100)
        return str(self.output(index).inner_text())

    def start(self, index: int) -> None:
        """Run the cell as Shift-Enter does, without waiting."""
        self.cell(index).locator(".jp-InputPrompt").evaluate("prompt => { prompt.textContent = ''; }")  # the old number
        self.cell(index).locator(".cm-content").click()
        self.page.keyboard.press("Control+Enter")

    def run(self, index: int, seconds: float = 60) -> str:
        self.start(index)
        self.wait_done(index, seconds)
        return self.text(index)

    def wait_done(self, index: int, seconds: float = 60) -> None:
        """Until the cell has its number."""
        self.cell(index).locator(".jp-InputPrompt", has_text=re.compile(r"\[\d+\]")).wait_for(timeout=seconds * 1000)

    def wait_idle(self, seconds: float = 60) -> None:
        self.page.locator('.jp-Notebook-ExecutionIndicator[data-status="idle"]').wait_for(timeout=seconds * 1000)

    def stop(self) -> None:
        """The toolbar's stop button."""
        self._toolbar("interrupt").click()

    def restart(self) -> None:
        """The toolbar's restart button, and yes."""
        self._toolbar("restart").click()
        self.page.locator(".jp-Dialog .jp-mod-accept").click()

    def save(self) -> None:
        """The toolbar's save button, until the file is there whole."""
        before = self.path.stat().st_mtime_ns
        self._toolbar("save").click()
        deadline = time.monotonic() + 10
        while self.path.stat().st_mtime_ns == before or not self.path.read_text(encoding="utf-8").endswith("}\n"):
            assert time.monotonic() < deadline, "not saved"
            self.page.wait_for_timeout(50)

    def stored(self) -> list[Any]:
        """The cells in the file. JupyterLab may be writing it."""
        deadline = time.monotonic() + 10
        while True:
            try:
                return list(nbformat.read(self.path, as_version=4).cells)
            except nbformat.reader.NotJSONError:
                assert time.monotonic() < deadline, "the file is no notebook"
                time.sleep(0.05)

    def wait_saved(self, index: int, text: str, seconds: float = 20) -> None:
        """Until the file has this among the cell's outputs: it may have been saved just before, too."""
        deadline = time.monotonic() + seconds
        while text not in str(self.stored()[index].get("outputs")):
            assert time.monotonic() < deadline, f"not saved with {text!r} in it"
            self.page.wait_for_timeout(50)

    def reload(self) -> None:
        """The browser's reload button. What was not saved is lost, as JupyterLab warns."""
        self.page.once("dialog", lambda dialog: dialog.accept())
        self.page.reload()
        self.page.locator(".jp-Notebook .jp-CodeCell").first.wait_for(timeout=60_000)

    def menu(self, *entries: str) -> None:
        """Click through the menu bar: menu("Run", "Run All Cells")."""
        for entry in entries:
            self.page.locator(".lm-MenuBar-itemLabel, .lm-Menu-itemLabel").get_by_text(entry, exact=True).click()

    def theme(self, name: str) -> None:
        """Settings → Theme → JupyterLab Light or JupyterLab Dark."""
        self.menu("Settings", "Theme", f"JupyterLab {name}")
        self.page.locator(f'body[data-jp-theme-name="JupyterLab {name}"]').wait_for(state="attached")

    def run_all(self, seconds: float) -> None:
        """Run → Run All Cells, until none of them runs or waits."""
        busy = self.page.locator(".jp-InputPrompt", has_text="[*]")
        self.menu("Run", "Run All Cells")
        busy.first.wait_for()
        deadline = time.monotonic() + seconds
        while busy.count():
            assert time.monotonic() < deadline, "still running: " + busy.first.locator("../..").inner_text()[:300]
            self.page.wait_for_timeout(200)
        self.wait_idle()

    def write(self, index: int, source: str) -> None:
        """Put `source` in the place of what a cell holds, as typing or pasting it does."""
        self.cell(index).locator(".cm-content").click()
        self.page.keyboard.press("Control+A")
        self.page.keyboard.insert_text(source)

    def ask(self, index: int, source: str, seconds: float = 60) -> str:
        """What a new cell below cell `index` shows. The cell is deleted again."""
        self.cell(index).locator(".jp-InputPrompt").click()
        self.page.keyboard.press("b")
        self.write(index + 1, source)
        self.page.keyboard.press("Control+Enter")
        self.wait_done(index + 1, seconds)
        text = self.text(index + 1)
        self.page.keyboard.press("d")
        self.page.keyboard.press("d")
        return text

    def screens(self) -> Iterator[None]:
        """Scroll through the notebook from its top, a screen at a time: JupyterLab renders what is on the screen."""
        pane, top = self.page.locator(".jp-NotebookPanel:visible .jp-WindowedPanel-outer"), 0.0
        while True:
            pane.evaluate("(pane, top) => pane.scrollTo(0, top)", top)
            self.page.wait_for_timeout(200)
            yield
            top, height, whole = pane.evaluate("pane => [pane.scrollTop, pane.clientHeight, pane.scrollHeight]")
            if top + height >= whole - 1:
                return
            top += height - 40

    def _toolbar(self, name: str) -> Any:
        return self.page.locator(f'.jp-NotebookPanel-toolbar [data-jp-item-name="{name}"]')
