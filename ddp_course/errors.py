"""The one exception a launch raises."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ddp_course.launcher.run import Run


class LaunchError(RuntimeError):
    """A launch that could not start, or a run that failed. Its message says what, where, and what to do.

    `run` is the failed run, or None where nothing was started.
    """

    def __init__(self, message: str, run: Run | None = None) -> None:
        super().__init__(message)
        self.run = run

    def _render_traceback_(self) -> list[str]:
        """What a notebook shows: the message. The frames of the launcher teach nothing."""
        return [f"LaunchError: {self}"]


class LaunchInterrupted(KeyboardInterrupt):
    """The launch was interrupted; every process of its run has been ended."""

    def _render_traceback_(self) -> list[str]:
        return ["Stopped. No process of the run is left."]
