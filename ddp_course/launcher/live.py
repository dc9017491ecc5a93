"""A run while it lasts: what the server tells and what the ranks write."""

from __future__ import annotations

import json
import math
import time
from pathlib import Path
from typing import Any

from ddp_course.launcher import agent, processes
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
        self._ranks = {rank: LiveRank(rank) for rank in options.ranks}
        self.sessions: set[int] = set()
        self.agents: dict[int, int | None] = {}  # node → exit code
        self._agent_pids: dict[int, int] = {}
        self.began = time.monotonic()
        self.began_at = time.time()
        self.started: float | None = None  # when the agents were: a server may import torch before
        self.waits = ""  # for what, in SLURM's queue
        self._lost: dict[int, float] = {}  # node → when its agent ended badly

    @property
    def ranks(self) -> list[LiveRank]:
        """In order."""
        return [self._ranks[rank] for rank in sorted(self._ranks)]

    @property
    def named_ranks(self) -> list[tuple[str, LiveRank]]:
        """Each with what to call it: `rank 2`, with its node where there are several."""
        named = []
        for rank in self.ranks:
            node = rank.record.node if rank.record.attempts else rank.record.rank // self.options.nproc
            named.append((f"node {node} " * self.options.nodes.several + f"rank {rank.record.rank}", rank))
        return named

    def folder_of(self, node: int) -> Path:
        """A folder for each node, where there are several."""
        return self.folder / f"node-{node}" if self.options.nodes.several else self.folder

    def overdue(self) -> bool:
        """Whether the time limit has passed. It counts from the start of the agents."""
        if self.started is None:
            if self.options.slurm is not None:
                return False  # it waits in the queue, as long as that takes
            return time.monotonic() > self.began + _SERVER_STARTS_WITHIN
        return time.monotonic() > self.started + self.options.timeout

    def event(self, event: dict[str, Any]) -> None:
        """Take in what is told of an agent (of `node`) or a rank."""
        kind, node = event["event"], event.get("node", 0)
        if kind in ("agent", "rank"):
            if self.options.slurm is None:  # else the number means nothing on this machine
                self.sessions.add(event["pid"])
            self.started = self.started or time.monotonic()
        if kind == "agent":
            self.agents[node] = None
            self._agent_pids[node] = event["pid"]
            self._lost.pop(node, None)
        elif kind == "rank":
            rank = self._ranks.setdefault(event["rank"], LiveRank(event["rank"]))
            base = self.folder_of(node) / f"attempt-{event['attempt']}" / f"rank-{event['rank']}"
            rank.record.attempts.append(Attempt(event["attempt"], event["pid"], base, node))
            rank.state = "running"
        elif kind == "exit":
            rank = self._ranks[event["rank"]]
            attempt = next(one for one in rank.record.attempts if one.number == event["attempt"])
            attempt.exit_code, attempt.peak_bytes = event["code"], event["peak_bytes"]
            attempt.ended_ns = event["time_ns"]
            rank.state = "done" if event["code"] == 0 else "failed"
        elif kind == "queue":
            self.waits = f"in the queue: {event['reason']}"
            for rank in self._ranks.values():
                rank.last_line = self.waits
        elif kind == "evidence":
            attempt = self._ranks[event["rank"]].record.attempts[-1]
            attempt.asked_ns, attempt.stopped = event["asked_ns"], event["stopped"]
        elif kind == "agent_exit":
            self.agents[node] = event["code"]
            if event["code"]:
                self._lost[node] = time.monotonic()
                self._take_down(node)

    def _take_down(self, node: int) -> None:
        for rank in self._ranks.values():
            if rank.state == "running" and rank.record.node == node:
                rank.state = "failed"

    def stopped_agents(self) -> list[int]:
        """The nodes on this machine whose agent is stopped (SIGSTOP)."""
        pids = self._agent_pids if self.options.slurm is None else {}
        return [node for node, pid in pids.items() if processes.state(pid) in ("T", "t")]

    def returning(self) -> list[int]:
        """The nodes whose agent was killed so long ago that they come back now."""
        after, now = self.options.nodes.return_after, time.monotonic()
        if after is None:
            return []
        due = [n for n, at in self._lost.items() if n and was_signalled(self.agents[n] or 0) and now > at + after]
        for node in due:
            del self._lost[node]
        return due

    def cannot_go_on(self) -> float:
        """Seconds since so many nodes are lost that the others cannot finish without them; 0 where they can."""
        nodes = self.options.nodes
        if not self._lost:
            return 0.0
        left = len(self.agents) - len(self._lost)
        doomed = 0 in self._lost or left < nodes.limits[0]  # node 0 serves the rendezvous
        return time.monotonic() - min(self._lost.values()) if doomed else 0.0

    def outcome(self) -> str:
        """finished, failed or lost, by how the agents ended."""
        codes = list(self.agents.values())
        ended = [code for code in codes if code is not None]  # None: it still runs, or nobody is left to tell
        if not ended or any(map(was_signalled, ended)):
            nodes = self.options.nodes
            others = [code for code in codes if code is None or not was_signalled(code)]
            enough = nodes.elastic and len(others) >= nodes.limits[0]
            return "finished" if enough and not any(code != 0 for code in others) else "lost"
        return "finished" if all(code == 0 for code in codes) else "failed"


def was_signalled(code: int) -> bool:
    """Whether a signal ended the agent."""
    return code < 0 or code >= agent.SIGNALLED
