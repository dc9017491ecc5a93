"""The metadata by which nbgrader knows the exercise cells of a lesson and the cell that scores them."""

from __future__ import annotations

import re
from typing import Any

from ddp_course.exercises import of_lesson

_EXERCISE = re.compile(r"%%exercise (\w+)")
_SCORE = re.compile(r'^score\("(\d\d)"\)$', re.MULTILINE)


def add_grade_marks(notebook: Any) -> None:
    """Mark each `%%exercise` cell as the learner's to fill, each `score("NN")` cell as a locked test of all.

    A test cell is worth a point for each exercise of its lesson; the number it shows is the credit.
    """
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        if found := _EXERCISE.match(cell.source):
            cell.metadata["nbgrader"] = _marks(found[1], solution=True)
        elif found := _SCORE.search(cell.source):
            points = len(of_lesson(found[1]))
            cell.metadata["nbgrader"] = {**_marks(f"score_{found[1]}", solution=False), "points": points}


def _marks(grade_id: str, solution: bool) -> dict[str, Any]:
    return {
        "cell_type": "code",
        "grade": not solution,
        "grade_id": grade_id,
        "locked": not solution,
        "schema_version": 3,
        "solution": solution,
        "task": False,
    }
