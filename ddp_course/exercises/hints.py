"""`hint("average_gradient")`: one step further at each call, then where the solution is."""

from __future__ import annotations

import textwrap

from ddp_course.errors import LaunchError
from ddp_course.exercises import bookkeeping, find, lesson

_STEPS = 3


def hint(name: str, step: int | None = None) -> None:
    """Print the next hint of an exercise, or hint `step`: 1 to 3. After the third: where the solution is.

    Raises LaunchError where there is no such exercise or step.
    """
    exercise = find(name)
    if step is not None and step not in range(1, _STEPS + 1):
        raise LaunchError(f"There are hints 1 to {_STEPS}; there is no hint {step}.")
    given = bookkeeping.read().get(name, {}).get("hints", 0)
    wanted = step or given + 1
    if wanted > _STEPS:
        notebook = lesson(exercise.lesson).NOTEBOOK
        print(f"All {_STEPS} hints are given; hint({name!r}, 1) shows the first again.".replace("'", '"'))
        print(f"The solution, with its explanation, is in section {exercise.section} of solutions/{notebook}.ipynb.")
        return
    bookkeeping.record(name, hints=max(given, wanted))
    print(textwrap.fill(f"Hint {wanted} of {_STEPS}: {exercise.hints[wanted - 1]}", 100, subsequent_indent="  "))
