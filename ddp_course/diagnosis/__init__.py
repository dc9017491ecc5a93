"""Why a run went wrong: `diagnose` reads what the ranks left and says it in one short block."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ddp_course.diagnosis.block import Diagnosis

if TYPE_CHECKING:
    from ddp_course.run import Run

__all__ = ["Diagnosis", "diagnose"]


def diagnose(run: Run) -> Diagnosis | None:
    """The diagnosis of a run that has ended; None for a clean one. Never raises."""
    from ddp_course.diagnosis import report

    try:
        return report.diagnose(run)
    except Exception as error:  # a bug here must not hide the run's own failure
        if run.ok:
            return None
        what = f"{type(error).__name__}: {error}"
        return Diagnosis(run.outcome, headline=f"the run failed, and so did its diagnosis: {what}")
