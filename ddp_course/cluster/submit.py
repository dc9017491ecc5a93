"""Submitting a job file from a notebook, and waiting for it."""

from __future__ import annotations

import re
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from ddp_course.errors import LaunchError


@dataclass
class Submitted:
    """A job that has ended. `state` is SLURM's word for how (COMPLETED, FAILED, TIMEOUT …), '' without a cluster."""

    file: str
    number: str = ""
    state: str = ""

    @property
    def logs(self) -> list[Path]:
        """The logs that it left here."""
        return sorted(Path().glob(f"*-{self.number}*.log")) if self.number else []

    def __str__(self) -> str:
        if not self.number:
            return f"No SLURM cluster answers here: {self.file} was not submitted."
        lines = [f"job {self.number}: {self.state}"]
        return "\n".join(
            [*lines, *(f"{log.name} │ {line}" for log in self.logs for line in log.read_text().splitlines())]
        )


def answers() -> bool:
    """Whether a SLURM cluster answers on this machine."""
    return _said("sinfo", "--noheader") is not None


def submit(file: str) -> Submitted:
    """Give `file` to sbatch, wait until the job has ended, in the queue and after, and return what became of it.

    Without a cluster nothing happens. Raises LaunchError where sbatch refuses the file. An interrupt cancels the job.
    """
    if not answers():
        return Submitted(file)
    done = subprocess.run(["sbatch", "--parsable", file], capture_output=True, text=True)
    if done.returncode:
        raise LaunchError(f"SLURM does not take {file}. It says:\n{done.stderr.strip()}")
    number = done.stdout.strip().partition(";")[0]
    try:
        while _said("squeue", "--noheader", "--jobs", number):
            time.sleep(0.5)
    except KeyboardInterrupt:
        subprocess.run(["scancel", number])
        raise
    state = re.search(r"JobState=(\w+)", _said("scontrol", "show", "job", number) or "")
    return Submitted(file, number, state.group(1) if state else "unknown")


def _said(*command: str) -> str | None:
    """What a command says; None where it fails or is not there."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return None if done.returncode else done.stdout
