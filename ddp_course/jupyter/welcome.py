"""`ddp-course welcome`: the page that `make lab` shows above lesson 1, with the lessons, their times and the progress.

The page is `Welcome.md` beside the lessons. JupyterLab opens it because a workspace of the course's own says so,
kept in `.ddp_course/`; the learner's other workspaces stay as they are.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ddp_course.errors import LaunchError
from ddp_course.exercises.bookkeeping import Overview, progress
from ddp_course.launcher.folders import course_folder

PAGE = "Welcome.md"
WORKSPACE = "ddp-course"
_SHARE = 0.4  # of the height, for the page


def page(lessons: Sequence[Path], overview: Overview) -> str:
    """The welcome in Markdown."""
    head = "| lesson | minutes to read and run | exercises done | minutes of exercises left |"
    table = [head, "|---|---|---|---|", *(_row(path, overview) for path in lessons)]
    after = f"{overview.ahead.splitlines()[-1]} Close this page with its ×: `make lab` brings it back."
    return "\n".join(["### Welcome", "", *table, "", after, ""])


def _row(path: Path, overview: Overview) -> str:
    try:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        text = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    except (OSError, ValueError, TypeError, KeyError):
        return f"| {path.name}: cannot be read as a notebook | – | – | – |"
    heading = re.search("^# Lesson (.+)$", text, re.MULTILINE)
    minutes = sum(map(int, re.findall(r"^## .*\((\d+) min\)", text, re.MULTILINE)))
    _, items = overview.lessons.get(path.name[:2], ("", []))
    left = [item.minutes for item in items if item.state != "done"]
    done = f"{len(items) - len(left)} of {len(items)}"
    return f"| [{heading.group(1) if heading else path.stem}]({path.name}) | {minutes} | {done} | {sum(left)} |"


def workspace(lesson: str) -> dict[str, Any]:
    """JupyterLab's layout: the page above the lesson."""
    shown = [f"markdownviewer-widget:{PAGE}", f"notebook:{lesson}"]
    areas = [{"type": "tab-area", "currentIndex": 0, "widgets": [widget]} for widget in shown]
    dock = {"type": "split-area", "orientation": "vertical", "sizes": [_SHARE, 1 - _SHARE], "children": areas}
    return {
        "data": {
            "layout-restorer:data": {"main": {"dock": dock, "current": shown[1]}},
            shown[0]: {"data": {"path": PAGE, "factory": "Markdown Preview"}},
            shown[1]: {"data": {"path": lesson, "factory": "Notebook"}},
        },
        "metadata": {"id": WORKSPACE},
    }


def _file() -> str:
    """The name that jupyterlab_server gives the workspace's file; importing it for that takes seconds."""
    return f"{WORKSPACE}-{hashlib.sha256(WORKSPACE.encode()).hexdigest()[:4]}.jupyterlab-workspace"


def main(argv: list[str]) -> int:
    """Write the page and the workspace of the lessons in the current folder. Where it cannot, JupyterLab opens all the
    same: it says why and returns 0."""
    argparse.ArgumentParser("ddp-course welcome", description=__doc__.partition("\n")[0]).parse_args(argv)
    lessons = sorted(Path().glob("[0-9][0-9]_*.ipynb"))
    try:
        if lessons:
            Path(PAGE).write_text(page(lessons, progress()), encoding="utf-8")
            folder = course_folder() / "jupyterlab"
            folder.mkdir(exist_ok=True)
            (folder / _file()).write_text(json.dumps(workspace(lessons[0].name)), encoding="utf-8")
    except (OSError, LaunchError) as error:
        print(f"ddp-course welcome: no welcome page. {error}", file=sys.stderr)
    return 0
