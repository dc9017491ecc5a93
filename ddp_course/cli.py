"""The `ddp-course` command: one line per subcommand, each in the module that does the work."""

from __future__ import annotations

import io
import sys
from importlib import import_module

COMMANDS = {
    "run": (
        "ddp_course.launcher.launch",
        "start a script on several ranks, as torchrun does, and explain what went wrong",
    ),
    "slurm": ("ddp_course.cluster.sbatch", "write the job file that starts a script on several nodes under SLURM"),
    "kubernetes": ("ddp_course.cluster.trainjob", "write the manifest that starts a script on a Kubernetes cluster"),
    "doctor": ("ddp_course.doctor", "check that the course can be taken on this machine"),
    "welcome": ("ddp_course.jupyter.welcome", "write the page that `make lab` shows above lesson 1"),
    "check": ("ddp_course.exercises.grading", "grade the exercises in a folder of learners' notebooks (instructors)"),
    "build": ("ddp_course.authoring", "build the notebooks from their sources (authors)"),
}


def _usage() -> str:
    lines = ["usage: ddp-course COMMAND [options]", ""]
    lines += [f"  {name:<11} {what}" for name, (_, what) in COMMANDS.items()]
    return "\n".join([*lines, "", "ddp-course COMMAND --help says more about one of them."])


def main(argv: list[str] | None = None) -> int:
    """Run one subcommand. Returns its exit code; 2 where the command is unknown."""
    argv = sys.argv[1:] if argv is None else argv
    if argv and argv[0] in ("-h", "--help"):
        print(_usage())
        return 0
    if not argv or argv[0] not in COMMANDS:
        said = f"ddp-course: no command {argv[0]!r}" if argv else "ddp-course: which command?"
        print(f"{said}\n\n{_usage()}", file=sys.stderr)
        return 2
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal need not know every letter
    module, _ = COMMANDS[argv[0]]
    return int(import_module(module).main(argv[1:]))


if __name__ == "__main__":
    sys.exit(main())
