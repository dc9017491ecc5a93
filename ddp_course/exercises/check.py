"""Running a check: an answer file in, a `Result` out."""

from __future__ import annotations

import json
import random
import re
import secrets
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ddp_course.errors import LaunchError
from ddp_course.exercises import driver
from ddp_course.exercises.base import Case, Exercise
from ddp_course.exercises.compare import join, rank_list
from ddp_course.launcher import client
from ddp_course.launcher.launch import start
from ddp_course.launcher.options import Options
from ddp_course.launcher.run import Run

SECONDS = 8.0  # for the ranks of one world size, once the server can start them; a hang ends then
_COLD_SECONDS = 60.0
_RESTART_SECONDS = 3.0  # more, for each time that the check ends a rank
_PRINTED = 30  # lines of the learner's own output that are shown


@dataclass(frozen=True)
class Result:
    """The outcome of a check. `state` is passed, failed or blank; `text` is what the learner reads."""

    name: str
    state: str
    text: str
    printed: str = ""


def check(exercise: Exercise, file: Path, seeds: Sequence[int] = (), seconds: float = SECONDS) -> Result:
    """Try the answer in `file` over the exercise's world sizes, with the cases of each of `seeds`.

    Without seeds: one that nobody has chosen. The first case that is wrong ends the check.
    """
    seeds = list(seeds) or [secrets.randbelow(1000)]
    wait_for_server()
    limit = (seconds if client.can_fork() else _COLD_SECONDS) * exercise.patience
    printed = None
    for world in exercise.worlds:
        trial = _Trial(exercise, file, world, seeds, limit)
        feedback = trial.feedback()
        if feedback or printed is None:
            printed = trial.printed()
        if feedback:
            lines = [*feedback, f'Stuck? hint("{exercise.name}")']
            text = "\n  ".join([f"✗ {exercise.name} · {trial.where}", *lines])
            return Result(exercise.name, "failed", text, printed)
    ranks = f"{join(exercise.worlds)} rank{'s' * (exercise.worlds != (1,))}"
    return Result(exercise.name, "passed", f"✓ {exercise.name} · {ranks}, {exercise.tested}", printed or "")


class _Trial:
    """All cases of one world size, in one launch."""

    def __init__(self, exercise: Exercise, file: Path, world: int, seeds: list[int], seconds: float) -> None:
        self._exercise, self._file, self._world = exercise, file, world
        self._cases = make_cases(exercise, world, seeds)
        self._nonce = secrets.token_hex(8)
        self.where = f"{world} rank{'s' * (world > 1)}"
        kills = exercise.kills * len(self._cases)
        with tempfile.TemporaryDirectory(prefix="ddp-course-") as folder:
            cases = [{**case, "folder": folder} for case in self._cases]
            job = json.dumps({"nonce": self._nonce, "lesson": exercise.lesson, "cases": cases})
            options = Options(
                driver.__file__,
                (exercise.name, str(file), job),
                nproc_per_node=world,
                max_restarts=kills,
                timeout=seconds + kills * _RESTART_SECONDS,
                backend="gloo",
            )
            self._run = start(options, view=None)
        _forget_the_driver(self._run, file)
        self._sent = [[r[self._nonce] for r in rank.reports if self._nonce in r] for rank in self._run.ranks]

    def feedback(self) -> list[str]:
        """What is wrong, line by line; nothing where all is right."""
        if not all(self._one(0, case, "expected") for case in self._cases):
            raise LaunchError(f"The check of {self._exercise.name} could not start.\n{self._run.diagnosis}", self._run)
        for case in self._cases:
            self.where = f"{self._world} rank{'s' * (self._world > 1)} {case['what']}".rstrip()
            self.where += f" (seed {case['given']})"
            seen = [self._one(rank, case, "seen") for rank in range(self._world)]
            if None in seen:
                return self._why_not(case, [rank for rank, value in enumerate(seen) if value is None])
            expected = self._one(0, case, "expected")
            values, calls = [sent["seen"] for sent in seen], [sent["collectives"] for sent in seen]
            if wrong := self._exercise.judge(case, expected["expected"], values, calls):
                return wrong.splitlines()
        if not self._run.ok:
            return self._diagnosis()
        return []

    def printed(self) -> str:
        """What the learner's code printed, labelled with its rank, cut to what one reads."""
        lines = [line for line in self._run.transcript.splitlines()[1:-1] if " │ " in line and " stderr │" not in line]
        if len(lines) > _PRINTED:
            lines = [*lines[:_PRINTED], f"… {len(lines) - _PRINTED} more lines"]
        return "\n".join(lines)

    def _one(self, rank: int, case: Case, kind: str) -> Any:
        found = [sent for sent in self._sent[rank] if sent.get("case") == case["index"] and kind in sent]
        return found[0] if found else None

    def _why_not(self, case: Case, missing: list[int]) -> list[str]:
        """Why some ranks have no result for a case."""
        for sent in (sent for rank in self._sent for sent in rank):
            if line := sent.get("unwritten"):
                return [f"not finished yet: line {line} still raises NotImplementedError."]
        exited = [rank for rank in missing if any("exited" in sent for sent in self._sent[rank])]
        if exited:
            return [
                f"your code ended {rank_list(exited)} with sys.exit() before there was a result.",
                "Return the result instead: the check goes on after your function.",
            ]
        if any(self._one(rank, case, "left") for rank in range(self._world)):
            return self._alone(missing)
        if self._run.ok or not self._run.diagnosis:
            return [f"{rank_list(missing)} ended before there was a result. Return the result; do not end the process."]
        return self._diagnosis()

    def _diagnosis(self) -> list[str]:
        text = str(self._run.diagnosis).removeprefix("✗ ")
        return re.sub(r" If it only needs longer, give it more:\s+--timeout\s+\d+\.", "", text).splitlines()

    def _alone(self, waiting: list[int]) -> list[str]:
        gone = [rank for rank in range(self._world) if rank not in waiting]
        line = _learners_line(self._run, waiting[0], self._file)
        return [
            f"{rank_list(gone)} returned, but {rank_list(waiting)} still wait{'s' * (len(waiting) == 1)}{line}",
            "A collective ends only when every rank of the group has called it.",
        ]


def make_cases(exercise: Exercise, world: int, seeds: Sequence[int]) -> list[Case]:
    """The cases of all seeds, each with its own seed for the data, and the seed that was given for it."""
    cases: list[Case] = []
    for seed in seeds:
        pick = random.Random(f"{seed} {exercise.name} {world}")
        for case in exercise.cases(pick, world):
            numbers = {"index": len(cases), "world": world, "given": seed, "seed": pick.randrange(1 << 30)}
            cases.append({"what": "", **numbers, **case})
    return cases


def _forget_the_driver(run: Run, file: Path) -> None:
    """Make the diagnosis one of the learner's file: tracebacks start where that was called."""
    run.script = file.resolve()
    for attempt in (attempt for rank in run.ranks for attempt in rank.attempts):
        error = attempt.json("error")
        theirs = [i for i, frame in enumerate((error or {}).get("frames", ())) if frame["file"] == str(file)]
        if not theirs:
            continue
        error["frames"] = error["frames"][theirs[0] :]
        head, *entries = re.split(r"^(?=  File )", error["traceback"], flags=re.MULTILINE)
        error["traceback"] = head + "".join(entries[theirs[0] :])
        attempt.path("error").write_text(json.dumps(error))


def _learners_line(run: Run, rank: int, file: Path) -> str:
    error = run.ranks[rank].attempts[-1].json("error") if run.ranks[rank].attempts else None
    frames = [f for f in (error or {}).get("frames", []) if Path(f["file"]).resolve() == file.resolve()]
    if not frames:
        return "."
    number = frames[-1]["line"]
    source = file.read_text(encoding="utf-8").splitlines()[number - 1].strip()
    return f" in line {number}: {source}"


def wait_for_server() -> None:
    """Return when the server can start ranks, so that no answer pays for the import of torch with its time."""
    with client.open_run(client.can_fork()) as channel:
        channel.sendall(b'{"do": "stop", "grace": 0}\n')
        while channel.recv(1 << 16):
            pass
