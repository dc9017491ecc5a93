"""Where runs are kept: `.ddp_course/` in the folder of the notebook, one folder for each of the last 20 runs."""

from __future__ import annotations

import fcntl
import os
import shutil
from pathlib import Path
from typing import IO, Any

from ddp_course.errors import LaunchError

KEEP = 20


def here() -> Path:
    """The current folder. Raises LaunchError where it was deleted."""
    try:
        return Path.cwd()
    except OSError:
        raise LaunchError(
            "The current folder is gone: it was deleted or moved while this Python works in it. Go to another one "
            "(%cd in a notebook), or restart the kernel."
        ) from None


def course_folder() -> Path:
    """`.ddp_course` in the current folder, made where it is missing, ignored by git, readable by its owner only.

    Raises LaunchError where it cannot be written.
    """
    folder = here() / ".ddp_course"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        if not (ignore := folder / ".gitignore").exists():
            ignore.write_text("*\n")
    except OSError as error:
        raise _unwritable(folder.parent, error) from error
    return folder


def _unwritable(folder: Path, error: OSError) -> LaunchError:
    return LaunchError(
        f"Cannot write in {folder} ({error.strerror}). Runs are kept in a folder .ddp_course there: "
        "start JupyterLab in a folder of your own, for example a copy of the lessons in your home folder."
    )


class RunFolder:
    """The folder of one run: `path`. Locked while the run lives, so that nobody removes it."""

    def __init__(self) -> None:
        runs = course_folder() / "runs"
        try:
            runs.mkdir(mode=0o700, exist_ok=True)
            self.path = _next_folder(runs)
            self._lock: IO[str] = open(self.path / "lock", "w")
        except OSError as error:
            raise _unwritable(runs.parent.parent, error) from error
        _try_lock(self._lock)
        _prune(runs)

    def close(self) -> None:
        """The run has ended: it is the `latest`. The folder may be removed when 20 newer ones exist."""
        self._lock.close()
        link = self.path.with_name(f"{self.path.name}.link")
        try:
            link.symlink_to(self.path.name)
            link.replace(self.path.with_name("latest"))
        except OSError:
            pass  # a full disk or a file system without links: the numbered folder is still there


def _next_folder(runs: Path) -> Path:
    number = max((int(p.name) for p in runs.iterdir() if p.name.isdigit()), default=0) + 1
    while True:
        path = runs / f"{number:04d}"
        try:
            path.mkdir(mode=0o700)
        except FileExistsError:  # another launch took the number
            number += 1
            continue
        return path


def _prune(runs: Path) -> None:
    for old in sorted((p for p in runs.iterdir() if p.name.isdigit()), key=lambda p: int(p.name))[:-KEEP]:
        try:
            with open(old / "lock", "w") as lock:
                if _try_lock(lock):
                    shutil.rmtree(old, ignore_errors=True)
        except OSError:
            continue


def _try_lock(file: IO[Any]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


class CellScript:
    """The cell as a script in the current folder: `cell.py`, or `cell2.py` … where a live run uses that one.

    Its lines have the cell's numbers: line 1 is the magic, as a comment. That comment also tells a script of
    ours from a file of the learner's, which is never written over.
    """

    MARK = "# %%"

    def __init__(self, magic: str, body: str, stem: str = "cell") -> None:
        text = f"{self.MARK}{magic}".rstrip() + "\n" + body
        for number in range(1, 1000):
            path = Path(f"{stem}{number if number > 1 else ''}.py")
            if self._take(path, text):
                self.path = path
                return
        raise LaunchError(f"Every name from {stem}.py to {stem}999.py is taken in {here()}.")

    def _take(self, path: Path, text: str) -> bool:
        if path.exists() and not path.is_file():
            return False
        try:
            file = open(os.open(path, os.O_RDWR | os.O_CREAT, 0o666), "r+b")  # not emptied: another kernel's, perhaps
        except OSError as error:
            if path.exists():
                return False  # a file that may not be written
            raise _unwritable(here(), error) from error
        if file.read(len(self.MARK)) not in (b"", self.MARK.encode()) or not _try_lock(file):
            file.close()
            return False
        file.seek(0)
        file.truncate()
        file.write(text.encode())
        file.flush()
        os.utime(path)
        self._file = file
        return True

    def close(self) -> None:
        """Another run may use the name now."""
        self._file.close()
