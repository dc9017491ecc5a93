"""Run a notebook in a kernel of this Python, and bring its outputs into a form that stays the same."""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellControlSignal, CellExecutionError, DeadKernelError

from ddp_course.authoring.source import EXCUSED, RAISES, BuildError, name_cell, tags

CELL_SECONDS = 120
_WIDGET = "application/vnd.jupyter.widget-view+json"
_NOT_FOR_THE_KERNEL = ("MPLBACKEND", "PYTEST_CURRENT_TEST")


@contextmanager
def scratch(root: Path) -> Iterator[Path]:
    """A fresh `lessons/` and `solutions/` to run in, holding the `.py` files of `root`'s.

    A cell then finds nothing that an earlier run left, such as a checkpoint, and leaves nothing behind.
    """
    with tempfile.TemporaryDirectory(prefix="ddp-course-build-") as name:
        place = Path(name).resolve()
        for folder in ("lessons", "solutions"):
            (place / folder).mkdir()
            for script in (root / folder).glob("*.py"):
                shutil.copy2(script, place / folder)
        yield place


def execute(notebook: Any, folder: Path, file: str) -> None:
    """Run every code cell of `notebook` in place, with `folder` as the current folder.

    Raises `BuildError` where a cell fails without the tag raises-exception, takes longer than
    `CELL_SECONDS`, or ends the kernel; `file` names the notebook in the message.
    """
    # Only this Python's own kernel: a `python3` kernel that the user installed may be another Python's.
    manager = AsyncKernelManager(kernel_name="python3", kernel_spec_manager=KernelSpecManager(kernel_dirs=[]))
    client = NotebookClient(
        notebook,
        km=manager,
        timeout=CELL_SECONDS,
        record_timing=False,
        store_widget_state=False,
        coalesce_streams=True,
    )
    env = {key: value for key, value in os.environ.items() if key not in _NOT_FOR_THE_KERNEL}
    # The author's IPython profile must not shape a stored output; the live panel is different every time.
    env |= {"DDP_COURSE_PANEL": "off", "IPYTHONDIR": str(folder.parent / "ipython")}
    # What the kernel itself logs says nothing about the lesson; what cells write to stderr is an output.
    kernel = client.setup_kernel(cwd=str(folder), env=env, stderr=subprocess.DEVNULL, cleanup_kc=True)
    with kernel:
        for index, cell in enumerate(notebook.cells):
            try:
                client.execute_cell(cell, index)
            except (CellControlSignal, DeadKernelError) as error:
                raise BuildError(f"{name_cell(file, index + 1, cell)} {_reason(error)}") from error
    for cell in notebook.cells:
        if cell.cell_type == "code":
            for output in cell.outputs:
                _normalise(output)


def keep_excused(notebook: Any, stored: Any) -> None:
    """Give each excused cell its stored outputs, as long as no code up to and including it has changed."""
    pairs = zip(_code(notebook), _code(stored), strict=False)
    for cell, old in pairs:
        if cell.source != old.source:
            return
        if EXCUSED in tags(cell) and EXCUSED in tags(old):
            cell.outputs = old.outputs


def _code(notebook: Any) -> list[Any]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def _reason(error: Exception) -> str:
    if isinstance(error, CellExecutionError):
        advice = f"repair it, or tag it {RAISES} where the error is what the cell shows."
        return f"raises {error.ename}: {error.evalue}\n{advice}"
    if isinstance(error, DeadKernelError):
        return "ended the kernel; make it return."
    return f"runs for more than {CELL_SECONDS} s; make it shorter."


def _normalise(output: Any) -> None:
    data = output.get("data", {})
    data.pop(_WIDGET, None)  # a widget's model id is random, and without a kernel there is no widget
    if "image/png" in data:
        data["image/png"] = base64.b64encode(_pixels_only(base64.b64decode(data["image/png"]))).decode()
    # IPython's own traceback holds paths and differs between Python versions; one that an exception
    # renders for itself (`_render_traceback_`) is written for the reader and stays.
    if output.output_type == "error" and "Traceback (most recent call last)" in "\n".join(output.traceback):
        output.traceback = [f"{output.ename}: {output.evalue}"]


def _pixels_only(png: bytes) -> bytes:
    """The PNG without its text and time chunks: they name the version of matplotlib."""
    kept, position = [png[:8]], 8
    while position < len(png):
        end = position + 12 + int.from_bytes(png[position : position + 4], "big")
        if png[position + 4 : position + 8] not in (b"tEXt", b"zTXt", b"iTXt", b"tIME"):
            kept.append(png[position:end])
        position = end
    return b"".join(kept)
