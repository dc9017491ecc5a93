"""Why a run went wrong: `diagnose` reads what the ranks left and says it in one short block."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ddp_course.diagnosis.block import Diagnosis

if TYPE_CHECKING:
    from ddp_course.launcher.run import Run

__all__ = ["Diagnosis", "diagnose"]


def _portable(found: Diagnosis, folder: str) -> Diagnosis:
    """Paths as the learner knows them: from the notebook's folder, which is another one on the next machine."""
    details = tuple(line.replace(folder, "") for line in found.details)
    return replace(found, headline=found.headline.replace(folder, ""), details=details)


def diagnose(run: Run) -> Diagnosis | None:
    """The diagnosis of a run that has ended; None for a clean one. Never raises."""
    from ddp_course.diagnosis import report

    try:
        found = report.diagnose(run)
        return found and _portable(found, f"{run.cwd}/")
    except Exception as error:  # a bug here must not hide the run's own failure
        if run.ok:
            return None
        what = f"{type(error).__name__}: {error}"
        return Diagnosis(run.outcome, headline=f"the run failed, and so did its diagnosis: {what}")
