"""Lesson 4, section 5: who failed first."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

from ddp_course.exercises.base import Call, Case, Exercise
from ddp_course.exercises.compare import show

Rank = dict[str, Any]

_CLOSED = "RuntimeError: [gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:{port}"
_RESET = "RuntimeError: [gloo/transport/tcp/pair.cc:537] Read error [127.0.0.1]:{port}: Connection reset by peer"
_TIMED_OUT = "RuntimeError: [gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 2000ms for recv operation"
_OWN = (
    "ValueError: sample 311 has no label",
    "KeyError: 'model'",
    "FileNotFoundError: [Errno 2] No such file or directory: 'shard_07.bin'",
    "RuntimeError: The size of tensor a (64) must match the size of tensor b (48)",
)


class FirstFailure(Exercise):
    """A job's ends, sorted into causes and consequences."""

    name = "first_failure"
    lesson, section = "04", 5
    title = "who failed first?"
    minutes, difficulty = 10, 2
    tested = "exceptions, signals, early exits and a missing rank, each with its victims"
    worlds = (1,)
    stub = '''\
def first_failure(ranks):
    """ranks: how each rank of a job ended, rank 0 first. Each is a dict: "exit_code"; "error", the last line of its
    traceback, or None where it left none; "second", when it ended.

    Returns the rank that the trouble began with.
    """
    raise NotImplementedError
'''
    hints = (
        "Which ends are only the consequence of another one? Name the signs of a victim first, and leave those out.",
        "Among what is left, the earliest. Where nothing is left, every error tells of a wait in vain: for whom? First "
        "look for a rank that had left already, then for one that never came.",
        "In this order: an error or a signal of its own (not -15, no lost connection, nothing timed out); an exit "
        'code 0; a -15 with no error at all. The "second" decides only between several of the same kind.',
    )

    def cases(self, pick: random.Random, world: int) -> list[Case]:
        many, start = pick.randint(3, 6), pick.randint(20, 90)
        culprit = pick.randrange(1, many)

        def job(cause: Rank, others: list[Rank]) -> list[Rank]:
            """`cause` on the culprit, `others` in turn on the ranks beside it."""
            beside = iter(others * many)
            return [cause if rank == culprit else next(beside) for rank in range(many)]

        def end(code: int, error: str | None, later: int) -> Rank:
            return {"exit_code": code, "error": error, "second": start + later}

        closed = end(1, _CLOSED.format(port=pick.randint(30_000, 60_000)), 0)
        first, second = pick.sample(_OWN, 2)
        own, ended = end(1, first, 0), end(-15, None, 1)
        early = end(1, _RESET.format(port=pick.randint(30_000, 60_000)), -1)
        later = end(1, second, 2)
        return [
            {"ranks": job(own, [ended]), "what": "· a job with an exception"},
            {
                "ranks": job(own, [end(0, None, -5), ended]),
                "what": "· a job with an exception, after others had finished",
            },
            {
                "ranks": job(own, [closed, ended]),
                "what": "· a job with an exception, and closed connections in the same second",
            },
            {"ranks": job(own, [later, ended]), "what": "· a job with two exceptions"},
            {"ranks": job(end(-9, None, 0), [early, ended]), "what": "· a job with SIGKILL, seen after its victims"},
            {"ranks": job(end(-11, None, 0), [closed]), "what": "· a job with a crash in native code"},
            {"ranks": job(end(3, None, 0), [closed, ended]), "what": "· a job with sys.exit(3)"},
            {"ranks": job(end(0, None, -2), [closed, ended]), "what": "· a job with a rank that left with exit code 0"},
            {"ranks": job(end(-15, None, 3), [end(1, _TIMED_OUT, 0)]), "what": "· a job with a rank that never came"},
        ]

    def expected(self, case: Case, rank: int) -> Any:
        return who(case["ranks"])

    def run(self, answer: SimpleNamespace, case: Case, rank: int) -> Any:
        from ddp_course.exercises.ranks import plain

        return plain(answer.first_failure([dict(rank) for rank in case["ranks"]]))

    def judge(self, case: Case, expected: Any, seen: list[Any], calls: list[list[Call]]) -> str | None:
        mine, ranks = seen[0], case["ranks"]
        if mine == expected and type(mine) is int:
            return None
        table = [f"  rank {number}: {_row(rank)}" for number, rank in enumerate(ranks)]
        lines = [f"it began with rank {expected}   you returned {show(mine)}", *table]
        if type(mine) is int and 0 <= mine < len(ranks):
            lines.append(f"Rank {mine} {_alibi(ranks[mine], ranks[expected])}")
        return "\n".join(lines)


def who(ranks: list[Rank]) -> int:
    """The rank that it began with: the first that failed by itself; else one that left; else one that never came."""
    itself = [r for r, one in enumerate(ranks) if one["exit_code"] not in (0, -15) and not _waited(one)]
    left = [r for r, one in enumerate(ranks) if one["exit_code"] == 0]
    missing = [r for r, one in enumerate(ranks) if not _waited(one)]
    return min(itself or left or missing, key=lambda rank: ranks[rank]["second"])


def _waited(rank: Rank) -> bool:
    """Whether its error tells only that another rank was gone or did not come."""
    error = rank["error"] or ""
    return "by peer" in error or "Timed out waiting" in error


def _row(rank: Rank) -> str:
    error = "no error" if rank["error"] is None else rank["error"]
    error = error if len(error) <= 60 else f"{error[:28]}…{error[-31:]}"
    return f"exit code {rank['exit_code']:3}, second {rank['second']}, {error}"


def _alibi(mine: Rank, culprit: Rank) -> str:
    """Why it was not this rank."""
    if _waited(mine) and "by peer" in mine["error"]:
        return "lost its connection: the other end of it was gone before."
    if _waited(mine):
        return "waited, and its time was up. For whom did it wait?"
    if mine["exit_code"] == -15:
        return "was ended by the agent (SIGTERM) because another rank had failed."
    if mine["exit_code"] == 0:
        return "had finished, and another rank failed by itself."
    if mine["second"] > culprit["second"]:
        return "failed too, but later."
    return "did not begin it."
