"""For exercises of lesson 4 whose check really kills ranks: when, and what is left for the next start to know."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from ddp_course.exercises.base import Case


class Watch:
    """What one rank does in a case, over all starts of it. Its notes lie in the folder that outlives a killed rank.

    `kill` is (rank, step): that rank is killed, once, as the step begins. `kill_saving` is a step: the rank that saves
    in it is killed, once, when half of the file is written. `path` is where the learner's snapshot goes.
    """

    def __init__(self, case: Case, rank: int, kill: tuple[int, int], kill_saving: int | None = None) -> None:
        self._folder = Path(case["folder"]) / str(case["index"])
        self._folder.mkdir(exist_ok=True)
        self.path = str(self._folder / "snapshot.pt")
        self._rank, self._kill, self._kill_saving = rank, kill, kill_saving
        self._now = -1  # the last step that has begun in this start
        self._snapshot: BinaryIO | None = None
        self._modified = 0

    def seen(self) -> dict[str, Any]:
        """The step that each start of this rank began with, whether it saved, and whether into the old file."""
        starts = [int(line) for line in self._notes("starts")]
        return {"starts": starts, "saved": bool(self._notes("saved")), "in_place": bool(self._notes("in place"))}

    @property
    def unreadable(self) -> bool:
        """Whether a start would only stumble over what is judged already: half a file, or that of several writers."""
        half = (self._folder / "in place 0").exists() and (self._folder / "killed saving").exists()
        return half or any(path.name != "saved 0" for path in self._folder.glob("saved *"))

    def step(self, number: int) -> None:
        """A step begins, on all ranks: what was saved after the last one is on the disk by now."""
        import torch.distributed as dist

        dist.barrier()
        if self._now < 0:
            self._note("starts", str(number))
        elif self._rank == 0 and os.path.exists(self.path):
            self._look_at_snapshot()
        self._now = number
        if (self._rank, number) == self._kill and self._once("killed"):
            os.kill(os.getpid(), signal.SIGKILL)

    def _look_at_snapshot(self) -> None:
        """Note where the file of the step before was written into: it is still the same one, and is newer."""
        new = open(self.path, "rb")  # open until the next step, so that no other file gets its inode
        status = os.fstat(new.fileno())
        if self._snapshot:
            same = os.fstat(self._snapshot.fileno()).st_ino == status.st_ino
            if same and status.st_mtime_ns != self._modified:
                self._note("in place", "yes")
            self._snapshot.close()
        self._snapshot, self._modified = new, status.st_mtime_ns

    @contextmanager
    def saving(self) -> Iterator[None]:
        """Meanwhile torch.save to a file is noted, and killed where that is due."""
        import torch

        original = torch.save

        def save(content: Any, target: Any, *args: Any, **kwargs: Any) -> None:
            original(content, target, *args, **kwargs)
            name = target if isinstance(target, (str, os.PathLike)) else getattr(target, "name", None)
            if name is None:  # to memory, as gathering objects does
                return
            self._note("saved", "yes")
            if self._now == self._kill_saving and self._once("killed saving"):
                if hasattr(target, "flush"):
                    target.flush()
                os.truncate(name, os.path.getsize(name) // 2)
                os.kill(os.getpid(), signal.SIGKILL)

        torch.save = save  # type: ignore[assignment]
        try:
            yield
        finally:
            torch.save = original

    def _once(self, what: str) -> bool:
        try:
            (self._folder / what).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    def _note(self, kind: str, line: str) -> None:
        with open(self._folder / f"{kind} {self._rank}", "a") as file:
            file.write(f"{line}\n")

    def _notes(self, kind: str) -> list[str]:
        path = self._folder / f"{kind} {self._rank}"
        return path.read_text().split("\n")[:-1] if path.exists() else []
