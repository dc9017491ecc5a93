"""Why a run went wrong."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ddp_course.run import Run


@dataclass(frozen=True)
class Diagnosis:
    """One short block: what happened, who did it, where, why, and how to mend it."""

    kind: str
    culprits: list[int] = field(default_factory=list)
    victims: list[int] = field(default_factory=list)
    file: str | None = None
    line: int | None = None
    source: str | None = None
    explanation: str = ""
    fix: str = ""
    section: str | None = None

    def __str__(self) -> str:
        return self.explanation


def diagnose(run: Run) -> Diagnosis | None:
    """The diagnosis of a run that has ended; None for a clean one."""
    if run.ok:
        return None
    for rank in run.ranks:
        if rank.attempts and (error := rank.attempts[-1].json("error")):
            return Diagnosis("exception", [rank.rank], explanation=error["traceback"])
    return Diagnosis(run.outcome, explanation=f"the run ended: {run.outcome}")
