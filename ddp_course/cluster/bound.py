"""`python … NOTEBOOK srun …`: srun, bound to the process NOTEBOOK. When that dies, srun gets SIGTERM.

On SIGTERM srun cancels a job that still waits in the queue, where no node's program can end it.
"""

from __future__ import annotations

import os
import signal
import sys

from ddp_course.launcher.worker import die_with_parent


def main(notebook: str, *command: str) -> None:
    """Become `command`, unless the notebook is gone already."""
    die_with_parent(signal.SIGTERM)
    if os.getppid() == int(notebook):
        os.execvp(command[0], command)


if __name__ == "__main__":
    main(*sys.argv[1:])
