"""A run while it lasts: what the server tells and what the ranks write."""

from __future__ import annotations

import json
import math
import time
from pathlib import Path
from typing import Any

from ddp_course.launcher.options import Options
from ddp_course.launcher.run import Attempt, Rank

_SERVER_STARTS_WITHIN = 300.0  # seconds; importing torch from a slow network disk takes minutes


class LiveRank:
    """A rank while it runs: its state, last line and progress."""

    def __init__(self, rank: int) -> None:
        self.record = Rank(rank)
        self.state = "starting"
        self.last_line = ""
        self.step: float | None = None
        self.total: float | None = None

    def poll(self) -> None:
        if not self.record.attempts:
            return
        attempt = self.record.attempts[-1]
        for kind in ("out", "err"):
            if attempt.tail(kind).poll():
                self.last_line = attempt.tail(kind).last_line
        if attempt.tail("reports").poll():
            try:
                values = json.loads(attempt.tail("reports").last_line)
            except ValueError:
                return  # half a line: the rest comes with the next look
            self.step = _number(values.get("step"), self.step)
            self.total = _number(values.get("total"), self.total)


def _number(value: Any, otherwise: float | None) -> float | None:
    """A script may report anything as its step: what cannot be drawn is passed over."""
    try:
        return float(value) if math.isfinite(value) else otherwise
    except (TypeError, OverflowError):
        return otherwise


class Live:
    """A run while it lasts: what the server tells and what the ranks write."""

    def __init__(self, options: Options, folder: Path) -> None:
        self.options = options
        self.folder = folder
        self.ranks = [LiveRank(rank) for rank in range(options.nproc)]
        self.sessions: set[int] = set()
        self.agent_exit: int | None = None
        self.began = time.monotonic()
        self.began_at = time.time()
        self.started: float | None = None  # when the agent was: a server may import torch before

    def overdue(self) -> bool:
        """Whether the time limit has passed. It counts from the start of the agent."""
        if self.started is None:
            return time.monotonic() > self.began + _SERVER_STARTS_WITHIN
        return time.monotonic() > self.started + self.options.timeout

    def event(self, event: dict[str, Any]) -> None:
        kind = event["event"]
        if kind in ("agent", "rank"):
            self.sessions.add(event["pid"])
            self.started = self.started or time.monotonic()
        if kind == "rank":
            base = self.folder / f"attempt-{event['attempt']}" / f"rank-{event['rank']}"
            rank = self.ranks[event["rank"]]
            rank.record.attempts.append(Attempt(event["attempt"], event["pid"], base))
            rank.state = "running"
        elif kind == "exit":
            rank = self.ranks[event["rank"]]
            attempt = rank.record.attempts[-1]
            attempt.exit_code, attempt.peak_bytes = event["code"], event["peak_bytes"]
            attempt.ended_ns = event["time_ns"]
            rank.state = "done" if event["code"] == 0 else "failed"
        elif kind == "agent_exit":
            self.agent_exit = event["code"]
