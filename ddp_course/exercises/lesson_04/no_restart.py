"""Lesson 4, break-it lab: a run that ends at its first failure, because nobody allowed it a second start."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from ddp_course.exercises.base import Call, Case, Lab, Option, Question
from ddp_course.exercises.compare import show
from ddp_course.exercises.lesson_04 import agents
from ddp_course.launcher.launch import start
from ddp_course.launcher.options import Options

_SCRIPT = "train.py"
_FLAKY = """\
import os, sys
sys.exit(int(os.environ["TORCHELASTIC_RESTART_COUNT"]) < {failures})
"""


class NoRestart(Lab):
    """max-restarts is 0 unless one says otherwise."""

    name = "no_restart"
    lesson, section = "04", 4
    title = "no second start"
    minutes, difficulty = 5, 1
    tested = "options read by torchrun itself; real runs of 1 to 3 ranks that fail once and twice"
    worlds = (1,)
    options = "--nproc-per-node 2 --lab"
    broken = """\
import os
import signal

import torch
import torch.distributed as dist

dist.init_process_group()
rank = dist.get_rank()
start = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
for step in range(4):
    if start == 0 and rank == 1 and step == 2:
        os.kill(os.getpid(), signal.SIGKILL)  # once: as if the memory had run out
    ranks = torch.ones(1)
    dist.all_reduce(ranks)
    print(f"start {start}, step {step}: {ranks.item():.0f} ranks are here", flush=True)
print("finished")
dist.destroy_process_group()
"""
    question = Question(
        "Rank 1 dies in the first start only. Why was there no second one?",
        (
            Option(
                "SIGKILL cannot be survived: torchrun starts anew only after an exception",
                "It starts anew after anything but exit code 0, whether an exception or a signal.",
            ),
            Option(
                "torchrun may start the ranks anew 0 times, unless you say otherwise",
                "Yes. --max-restarts is 0 by default, so the first failure ends the run.",
            ),
            Option(
                "Rank 0 was still alive, and torchrun waits until all ranks have failed",
                "The first failure is enough: torchrun then ends the others, which could only wait for the dead one.",
            ),
            Option(
                "There is no snapshot to go on from, so starting anew would be useless",
                "torchrun knows nothing of snapshots. Without one a new start begins at step 0, but it takes place.",
            ),
        ),
        "b",
    )
    stub = '''\
def options(ranks, failures):
    """Returns torchrun's options as a list of words, such as ["--log-dir=logs"], without torchrun and the script:
    this many ranks on this machine, which are started anew after each of `failures` failures, and not once more."""
    raise NotImplementedError
'''
    hints = (
        "Two options are enough. One says how many ranks, the other how often they may be started anew.",
        "The first start is not counted: with one failure there are two starts, and one of them is a restart.",
        "torchrun writes its options as --name=value. A list of words holds strings: put the numbers in with an "
        "f-string.",
    )

    def cases(self, pick: random.Random, world: int) -> list[Case]:
        pairs = [(2, 1), (pick.choice((1, 3)), 2)]
        what = "· options for {} and {}"
        return [
            {"ranks": r, "failures": f, "what": what.format(_many(r, "rank"), _many(f, "failure"))} for r, f in pairs
        ]

    def expected(self, case: Case, rank: int) -> Any:
        return {"ranks": case["ranks"], "restarts": case["failures"]}

    def run(self, answer: SimpleNamespace, case: Case, rank: int) -> Any:
        from ddp_course.exercises.ranks import plain

        words = answer.options(case["ranks"], case["failures"])
        if not isinstance(words, (list, tuple)) or not all(isinstance(word, str) for word in words):
            return {"error": f"expected a list of strings   you returned {show(plain(words))}"}
        return _read(list(words))

    def judge(self, case: Case, expected: Any, seen: list[Any], calls: list[list[Call]]) -> str | None:
        found, failures = seen[0], case["failures"]
        if "error" in found:
            return str(found["error"])
        if found["nproc"] != str(case["ranks"]):
            return f"expected {_many(case['ranks'], 'rank')}   your options start {found['nproc']}"
        if not _survives(case, found["restarts"], failures):
            return f"after failure {found['restarts'] + 1} of {failures} there was no new start: the run has failed."
        if _survives(case, found["restarts"], failures + 1):
            return f"it survives {_many(failures, 'failure')}, and one more too. A run that fails for good should end."
        return None


def _read(words: list[str]) -> dict[str, Any]:
    """What torchrun's own parser makes of the options."""
    try:
        given = agents.parse([*words, _SCRIPT])
    except ValueError as error:
        return {"error": f"torchrun does not take these options: {error}."}
    if given.training_script != _SCRIPT:
        return {"error": f"{given.training_script!r} is no option. Leave out torchrun itself and the script."}
    if given.nnodes not in ("1", "1:1"):
        return {"error": f"--nnodes={given.nnodes}: this machine is one node."}
    return {"nproc": str(given.nproc_per_node), "restarts": int(given.max_restarts)}


def _many(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


def _survives(case: Case, restarts: int, failures: int) -> bool:
    """Whether a script that fails so many times gets through, in a real run."""
    with tempfile.TemporaryDirectory(prefix="ddp-course-") as folder:
        script = Path(folder) / _SCRIPT
        script.write_text(_FLAKY.format(failures=failures))
        run = start(Options(str(script), (), case["ranks"], restarts, timeout=20, backend="gloo"), view=None)
        return run.ok
