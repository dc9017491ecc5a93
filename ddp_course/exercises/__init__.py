"""The exercises: `find("average_gradient")`, and those of a lesson in the order the lesson has them.

A lesson's exercises are the package `lesson_NN`: its `EXERCISES` (break-it labs among them) and its `QUIZ`.
"""

from __future__ import annotations

import difflib
import pkgutil
from functools import cache
from importlib import import_module
from types import ModuleType

from ddp_course.errors import LaunchError
from ddp_course.exercises.base import Exercise


@cache
def numbers() -> tuple[str, ...]:
    """The numbers of the lessons that have exercises, such as "02", in order."""
    names = (module.name for module in pkgutil.iter_modules(__path__))
    return tuple(sorted(name.removeprefix("lesson_") for name in names if name.startswith("lesson_")))


def lesson(number: str) -> ModuleType:
    """A lesson's module. Raises LaunchError where there is no such lesson."""
    number = str(number).zfill(2)
    if number not in numbers():
        raise LaunchError(f"There is no lesson {number!r} with exercises. There are: {', '.join(numbers())}.")
    return import_module(f"{__name__}.lesson_{number}")


def of_lesson(number: str) -> list[Exercise]:
    """The exercises of a lesson, in order. Raises LaunchError where there is no such lesson."""
    return list(lesson(number).EXERCISES)


def every() -> list[Exercise]:
    """All exercises of the course, in order."""
    return [exercise for number in numbers() for exercise in of_lesson(number)]


def find(name: str) -> Exercise:
    """The exercise of this name. Raises LaunchError, naming the nearest one, where there is none."""
    known = {exercise.name: exercise for exercise in every()}
    if name in known:
        return known[name]
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f"Did you mean {near[0]}?" if near else f"There are: {', '.join(known)}."
    raise LaunchError(f"There is no exercise {name!r}. {hint}")
