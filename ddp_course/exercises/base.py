"""What an exercise is, and how values are compared.

A check goes through cases. For each case rank 0 computes `expected` before it has seen the learner's file,
then every rank calls `run` with what the file defines; the notebook compares what came back in `judge`.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, ClassVar

from ddp_course.exercises.compare import compare

Case = dict[str, Any]
Call = list[Any]  # what `ranks.collectives` says of one collective


class Exercise:
    """One exercise. A subclass says what is asked, which cases to try, and what is right."""

    name: ClassVar[str]
    lesson: ClassVar[str]
    section: ClassVar[int]
    title: ClassVar[str]
    minutes: ClassVar[int]
    difficulty: ClassVar[int]  # 1 to 3 dots
    stub: ClassVar[str]  # the cell as the learner finds it, without its %%exercise line
    hints: ClassVar[tuple[str, str, str]]
    tested: ClassVar[str]  # what a passed check covered, after the numbers of ranks
    worlds: ClassVar[tuple[int, ...]] = (2, 3, 4)
    tolerance: ClassVar[float] = 1e-9  # relative, for float64; float32 cases say "tolerance" themselves
    oracle_needs_all_ranks: ClassVar[bool] = False  # `expected` calls collectives
    kills: ClassVar[int] = 0  # how often `run` ends a rank in a case; all ranks are then started anew
    patience: ClassVar[float] = 1.0  # times the usual limit, for a check that starts processes of its own

    def cases(self, pick: random.Random, world: int) -> list[Case]:
        """The cases for `world` ranks. Each is JSON, with "what": what a learner reads of it after "3 ranks".

        The engine adds "seed" (unless given), "world" and "index". Draw sizes from `pick`, data from the seed.
        """
        raise NotImplementedError

    def expected(self, case: Case, rank: int) -> Any:
        """The right result, computed before the learner's file is read. Only rank 0's counts.

        A dict with "value", and with "known": [value, explanation] for each usual wrong answer.
        """
        raise NotImplementedError

    def run(self, answer: SimpleNamespace, case: Case, rank: int) -> Any:
        """What the learner's functions give on this rank, as JSON or tensors. Called on every rank.

        `case["folder"]` is a folder that all ranks share, also after a restart; it goes when the check has ended.
        """
        raise NotImplementedError

    def judge(self, case: Case, expected: Any, seen: list[Any], calls: list[list[Call]]) -> str | None:
        """The feedback, or None where `seen`, one result a rank, is right. Called in the notebook.

        `calls` holds what each rank communicated: [name, numbers of elements, dtype] a collective.
        """
        return compare(expected["value"], seen, expected.get("known", ()), case.get("tolerance", self.tolerance))

    @property
    def dots(self) -> str:
        """The difficulty as dots: ●●○."""
        return "●" * self.difficulty + "○" * (3 - self.difficulty)


@dataclass(frozen=True)
class Option:
    """One option of a question, and what the learner reads after choosing it."""

    text: str
    why: str


@dataclass(frozen=True)
class Question:
    """A question. `right` holds the letters of the right options; with `choose_all` there can be several."""

    text: str
    options: tuple[Option, ...]
    right: str
    choose_all: bool = False

    @property
    def letters(self) -> str:
        """The letters of the options: abcd."""
        return "abcdefgh"[: len(self.options)]


class Lab(Exercise):
    """A break-it lab: a broken program to run, its cause to choose, and a repair to write as an exercise."""

    broken: ClassVar[str]  # the program, without its %%torchrun line
    options: ClassVar[str]  # of %%torchrun
    question: ClassVar[Question]
