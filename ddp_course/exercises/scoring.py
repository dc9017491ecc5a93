"""`score("02")`: the number of a lesson's exercises that pass, for nbgrader's test cell."""

from __future__ import annotations

import textwrap

from ddp_course.exercises import bookkeeping, of_lesson
from ddp_course.exercises.answers import passed


def score(lesson: str) -> int:
    """How many exercises of `lesson` have passed since the kernel started; says which have not.

    As the last line of a test cell worth one point an exercise it is nbgrader's partial credit. It counts
    checks that ran in this kernel, not the progress file, which travels with the notebook.
    """
    done = {key for key, item in bookkeeping.read().items() if item.get("state") == "done"}
    names = [exercise.name for exercise in of_lesson(lesson)]
    missing = [name for name in names if name not in passed]
    print(f"{len(names) - len(missing)} of {len(names)} exercises of lesson {lesson} pass in this notebook.")
    if missing:
        print(textwrap.fill(f"Not yet: {', '.join(missing)}", 100, subsequent_indent="  "))
    if before := [name for name in missing if name in done]:
        said = f"Passed before, but not in the last run of the cell since the kernel started: {', '.join(before)}"
        print(textwrap.fill(said, 100, subsequent_indent="  "))
    return len(names) - len(missing)
