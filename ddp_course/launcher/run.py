"""What a launch leaves: `Run`, with one `Rank` for each process."""

from __future__ import annotations

import json
import signal as signals
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ddp_course.errors import LaunchError
from ddp_course.launcher.nodes import Nodes
from ddp_course.launcher.tail import Tail

if TYPE_CHECKING:
    import pandas

    from ddp_course.diagnosis import Diagnosis
    from ddp_course.pictures.timeline import Timeline

__all__ = ["LaunchError", "Rank", "Reports", "Run"]

_KEPT = {"out": 1 << 20, "err": 1 << 20, "reports": 16 << 20}  # bytes of a file that are kept in memory


@dataclass
class Attempt:
    """One start of one rank: how it ended and the files it wrote."""

    number: int
    pid: int
    base: Path
    node: int = 0
    exit_code: int | None = None
    peak_bytes: int = 0
    ended_ns: int = 0
    stopped: bool = False  # by SIGSTOP, when the run was ended at its time limit
    asked_ns: int = 0  # when it was then asked where it stands
    _tails: dict[str, Tail] = field(default_factory=dict, repr=False)
    _kept: dict[str, bytes] = field(default_factory=dict, repr=False)

    @property
    def signal(self) -> str | None:
        """The name of the signal that ended it (SIGKILL …), or None."""
        if self.exit_code is None or self.exit_code >= 0:
            return None
        try:
            return signals.Signals(-self.exit_code).name
        except ValueError:
            return f"signal {-self.exit_code}"

    def path(self, kind: str) -> Path:
        """The file of a kind: out, err, reports, error, stacks, collectives or ask."""
        return self.base.with_suffix(f".{kind}")

    def tail(self, kind: str) -> Tail:
        """The file of a kind as it grows. It stays readable where the folder is deleted, until `close()`."""
        return self._tails.setdefault(kind, Tail(self.path(kind)))

    def text(self, kind: str) -> str:
        """The whole of a file as text; '' where there is none. Bytes that are not UTF-8 become U+FFFD."""
        try:
            return self.path(kind).read_bytes().decode(errors="replace")
        except OSError:
            return self._kept.get(kind, b"").decode(errors="replace")

    def close(self) -> None:
        """The run has ended: close the files. Their beginning is kept in memory, for when the folder is deleted."""
        for kind, most in _KEPT.items():
            tail = self.tail(kind)
            if tail.size():
                self._kept[kind] = tail.read(0, most)
        for tail in self._tails.values():
            tail.close()
        self._tails.clear()

    def json(self, kind: str) -> Any:
        """The content of a JSON file, or None where it is missing or cut off."""
        try:
            return json.loads(self.text(kind) or "null")
        except ValueError:
            return None


@dataclass
class Rank:
    """One rank. With `--max-restarts` it can have several attempts; exit code and signal are the last one's."""

    rank: int
    attempts: list[Attempt] = field(default_factory=list)

    @property
    def exit_code(self) -> int | None:
        """0 for a clean end, 1 after an exception, negative for a signal; None where it was never seen to end."""
        return self.attempts[-1].exit_code if self.attempts else None

    @property
    def signal(self) -> str | None:
        """The name of the signal that ended the rank (SIGKILL …), or None."""
        return self.attempts[-1].signal if self.attempts else None

    @property
    def node(self) -> int:
        """The node it ran on, in its last attempt: 0 where there is one node."""
        return self.attempts[-1].node if self.attempts else 0

    @property
    def stdout(self) -> str:
        """All it printed, of all attempts."""
        return "".join(attempt.text("out") for attempt in self.attempts)

    @property
    def stderr(self) -> str:
        """All it printed on stderr, of all attempts."""
        return "".join(attempt.text("err") for attempt in self.attempts)

    @property
    def reports(self) -> list[dict[str, Any]]:
        """What it sent with `report()`, in order, each with its `rank` (and `attempt` after a restart)."""
        found = []
        for attempt in self.attempts:
            extra = {"attempt": attempt.number} if len(self.attempts) > 1 else {}
            for line in attempt.text("reports").splitlines():
                try:
                    found.append({"rank": self.rank, **extra, **json.loads(line)})
                except ValueError:
                    continue  # the rank was killed while it wrote this line
        return found

    def __repr__(self) -> str:
        return f"Rank({self.rank}, exit_code={self.exit_code})"


class Reports(list[dict[str, Any]]):
    """The reports of all ranks, rank 0's first, as dicts."""

    def to_frame(self) -> pandas.DataFrame:
        """The same as a pandas DataFrame, one row a report. Raises ImportError where pandas is not installed."""
        import pandas

        return pandas.DataFrame(list(self))


class Ranks(Sequence[Rank]):
    """The ranks of a run, in order."""

    def __init__(self, ranks: list[Rank]) -> None:
        self._ranks = ranks

    def __getitem__(self, index: Any) -> Any:
        return self._ranks[index]

    def __len__(self) -> int:
        return len(self._ranks)

    def __iter__(self) -> Iterator[Rank]:
        return iter(self._ranks)

    def __repr__(self) -> str:
        return repr(self._ranks)


@dataclass
class Run:
    """A run that has ended. `outcome` is finished, failed, timeout, interrupted or lost (its agent died)."""

    command: str
    folder: Path
    cwd: Path
    script: Path
    ranks: Ranks
    outcome: str
    seconds: float
    timeout: float
    transcript: str = ""
    nodes: Nodes = field(default_factory=Nodes)
    agents: dict[int, int | None] = field(default_factory=dict)  # node → its agent's exit code; None: it still ran
    stopped_agents: list[int] = field(default_factory=list)  # the nodes whose agent was stopped at the time limit

    @property
    def ok(self) -> bool:
        """Whether every rank ended with exit code 0."""
        return self.outcome == "finished"

    @property
    def last_attempt(self) -> list[Rank]:
        """The ranks that took part in the last attempt: all of them, unless the run went on with fewer nodes."""
        started = [rank for rank in self.ranks if rank.attempts]
        last = max((rank.attempts[-1].number for rank in started), default=0)
        return [rank for rank in started if rank.attempts[-1].number == last]

    @property
    def reports(self) -> Reports:
        """What all ranks sent with `report()`."""
        return Reports(report for rank in self.ranks for report in rank.reports)

    @cached_property
    def diagnosis(self) -> Diagnosis | None:
        """What went wrong, who did it, where and how to mend it; None for a clean run."""
        from ddp_course.diagnosis import diagnose

        return diagnose(self)

    def timeline(self, **reported: Any) -> Timeline:
        """When each rank computed and communicated, drawn from what it sent with `report(profile=prof)`.

        Its `overlap` is the share of the collectives' time that was hidden under compute, 0 to 1. Where a script
        sends several profiles, `reported` picks one: `timeline(cap=25)` for `report(cap=25, profile=prof)`.
        Raises ValueError where there is none.
        """
        from ddp_course.pictures.timeline import draw

        return draw(self.reports, reported)

    def __str__(self) -> str:
        return self.transcript

    def __repr__(self) -> str:
        return f"<Run of {self.script.name}: {self.outcome}, {len(self.ranks)} ranks>"
