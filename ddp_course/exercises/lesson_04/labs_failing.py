"""Lesson 4, break-it labs: a failure that says nothing, and a rank that stays away."""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from ddp_course.exercises.base import Call, Case, Lab, Option, Question
from ddp_course.exercises.compare import per_rank, show


class HiddenTraceback(Lab):
    """A summary without the error."""

    name = "hidden_traceback"
    lesson, section = "04", 5
    title = "the traceback behind ChildFailedError"
    minutes, difficulty = 5, 1
    tested = "a clean end and three exceptions; the error file has each, and the process still fails"
    worlds = (1,)
    options = "--nproc-per-node 1 --lab"
    broken = """\
import os
import subprocess
import sys


def train():
    batches = [[1, 2], []][int(os.environ["RANK"])]
    print("mean", sum(batches) / len(batches))


if sys.argv[1:] == ["train"]:
    train()
else:  # what a job script does on a cluster: the ranks' own output goes into files, far away
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command = [*torchrun, "--redirects=3", __file__, "train"]
    job = subprocess.run(command, capture_output=True, text=True)
    for line in job.stderr[job.stderr.index("Root Cause"):].splitlines():
        if line.split(":")[0].strip() in ("rank", "exitcode", "error_file", "traceback"):
            print(line.split("(pid")[0].strip())
    sys.exit(job.returncode)
"""
    question = Question(
        "Rank 1 failed, and torchrun's summary does not say of what. Why?",
        (
            Option(
                "The traceback was lost: a process that fails cannot tell why",
                "It wrote one, on its stderr, and that went into a file of the log folder.",
            ),
            Option(
                "torchrun shows tracebacks of rank 0 only",
                "It shows the root cause's, whichever rank that is, if that rank left one for it.",
            ),
            Option(
                "The agent sees an exit code; the error itself it knows only from an error file, and nobody wrote one",
                "Yes: error_file <N/A>. What writes it is @record around the function that a rank runs.",
            ),
            Option(
                "--redirects=3 throws the output of the ranks away",
                "It puts it into files, one for each rank and stream. Without it, it stands on the console, among all "
                "the others'.",
            ),
        ),
        "c",
    )
    stub = '''\
from torch.distributed.elastic.multiprocessing.errors import record


def run(train):
    """Runs train() and returns what it returns.

    Where it raises, torchrun's summary has to get the error and its traceback, and this process has to fail.
    """
    raise NotImplementedError
'''
    hints = (
        "What does the agent read when a rank has ended, besides its exit code?",
        "record is a decorator. It writes the error file for an exception that passes through it.",
        "A decorator is a function of a function: it can be called with train. What comes back is to be called, too.",
    )

    def cases(self, pick: random.Random, world: int) -> list[Case]:
        number = pick.randint(10, 99)
        return [
            {"type": None, "message": f"loss {number}", "what": "where nothing fails"},
            {"type": "ValueError", "message": f"sample {number} is empty", "what": "where train raises a ValueError"},
            {"type": "KeyError", "message": f"layer {number}", "what": "where train raises a KeyError"},
            {"type": "RuntimeError", "message": f"step {number}", "what": "where train raises a RuntimeError"},
        ]

    def expected(self, case: Case, rank: int) -> Any:
        return {}

    def run(self, answer: SimpleNamespace, case: Case, rank: int) -> Any:
        from ddp_course.exercises.ranks import plain

        raises = {"ValueError": ValueError, "KeyError": KeyError, "RuntimeError": RuntimeError}

        def train() -> str:
            if case["type"]:
                raise raises[case["type"]](case["message"])
            return str(case["message"])

        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()):
            file, kept = Path(folder) / "error.json", os.environ.get("TORCHELASTIC_ERROR_FILE")
            os.environ["TORCHELASTIC_ERROR_FILE"] = str(file)
            returned, raised = None, ""
            try:
                returned = plain(answer.run(train))
            except (Exception, SystemExit) as error:
                if isinstance(error, NotImplementedError):
                    raise
                raised = type(error).__name__
            finally:
                os.environ["TORCHELASTIC_ERROR_FILE"] = kept or ""
            return {"returned": returned, "raised": raised, **_recorded(file)}

    def judge(self, case: Case, expected: Any, seen: list[Any], calls: list[list[Call]]) -> str | None:
        one = seen[0]
        if not case["type"]:
            if one["raised"] or one["returned"] != case["message"]:
                got = one["raised"] or show(one["returned"])
                return f"expected {show(case['message'])}, what train returns   you gave {got}"
            return "an error file was written, and nothing had failed." if one["file"] else None
        if not one["raised"]:
            return "train raised, and your function returned: torchrun would take this rank for one that ended well."
        if not one["file"]:
            return f"the process fails with {one['raised']}, but there is no error file: the summary would say <N/A>."
        if case["message"] not in one["message"] or case["type"] not in one["message"]:
            return f"the error file has no {case['type']} with its message; it says {show(one['message'][:60])}."
        if "in train" not in one["traceback"]:
            return "the error file has the message, but no traceback: where was it raised?"
        return None


def _recorded(file: Path) -> dict[str, Any]:
    """What torchrun would read of an error file."""
    if not file.exists():
        return {"file": False}
    try:
        message = json.loads(file.read_text())["message"]
        return {"file": True, "message": message["message"], "traceback": message["extraInfo"]["py_callstack"]}
    except (ValueError, KeyError, TypeError):
        return {"file": True, "message": "nothing in torchrun's form", "traceback": ""}


class MissingRank(Lab):
    """A batch that one rank cannot read."""

    name = "missing_rank"
    lesson, section = "04", 6
    title = "one rank skips a step"
    minutes, difficulty = 8, 2
    tested = "all ranks, some, one and none with a gradient"
    options = "--nproc-per-node 2 --timeout 4 --lab"
    broken = """\
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
samples = [["1", "2", "3", "4"], ["5", "6", "?", "8"]][dist.get_rank()]
for step, text in enumerate(samples):
    try:
        gradient = torch.tensor([float(text)])
    except ValueError:
        print(f"step {step}: cannot read {text!r}, next one")
        continue
    dist.all_reduce(gradient)
    print(f"step {step}: mean gradient {gradient.item() / 2}")
dist.barrier()
print("saved")
dist.destroy_process_group()
"""
    question = Question(
        "Rank 1 goes on after a sample that it cannot read. Rank 0 reads all of its own, and waits for ever. For what?",
        (
            Option(
                "For the sample that rank 1 could not read",
                "Samples are not sent. What the ranks exchange is one gradient in each step.",
            ),
            Option(
                "For nothing: the last all-reduce is slow",
                "Rank 1 is in the barrier and will make no all-reduce any more.",
            ),
            Option(
                "For a barrier that rank 1 has passed",
                "The other way round: rank 1 is in the barrier, rank 0 has not come to it yet.",
            ),
            Option(
                "For rank 1's fourth all-reduce: it made only three",
                "Yes. From step 2 on the two were one apart: rank 0's step 2 was averaged with rank 1's step 3, "
                "(3 + 8) / 2 = 5.5.",
            ),
        ),
        "d",
    )
    stub = '''\
import torch
import torch.distributed as dist


def mean_gradient(gradient, parameter):
    """gradient: this rank's, with the shape of parameter, or None where it could not read its batch.

    Returns, on every rank, the mean of the gradients of those ranks that have one; None where no rank has one.
    """
    raise NotImplementedError
'''
    hints = (
        "A rank without a gradient has to come to the all-reduce all the same. With what?",
        "Zeros change no sum. But by how many do you divide then?",
        "Two sums over the ranks: the gradients, and how many ranks had one. A rank with None gives zeros and 0.",
    )

    def cases(self, pick: random.Random, world: int) -> list[Case]:
        chosen = pick.randrange(world)
        haves = [
            ([True] * world, "which all have a gradient"),
            ([rank != chosen for rank in range(world)], f"of which rank {chosen} has none"),
            ([rank == chosen for rank in range(world)], f"of which only rank {chosen} has one"),
            ([False] * world, "of which none has one"),
        ]
        return [{"have": have, "shape": [pick.randint(2, 4), 3], "what": what} for have, what in haves]

    def expected(self, case: Case, rank: int) -> Any:
        import torch

        have, world = case["have"], case["world"]
        each = [self._gradient(case, r) if h else torch.zeros(case["shape"]) for r, h in enumerate(have)]
        total, count = torch.stack([one.double() for one in each]).sum(0), sum(have)
        if not count:
            return {"value": None, "known": [[total.tolist(), "No rank has a gradient: there is no mean to return."]]}
        mean = (total / count).tolist()
        own = per_rank([self._gradient(case, r).tolist() if h else None for r, h in enumerate(have)])
        return {
            "value": mean,
            "known": [
                [
                    per_rank([mean if h else None for h in have]),
                    "A rank without a gradient steps too: it needs the mean.",
                ],
                [(total / world).tolist(), f"That is divided by all {world} ranks; {count} had a gradient."],
                [total.tolist(), "That is the sum."],
                [own, "Each rank has its own gradient: nothing was exchanged."],
            ],
        }

    def run(self, answer: SimpleNamespace, case: Case, rank: int) -> Any:
        import torch

        from ddp_course.exercises.ranks import plain

        gradient = self._gradient(case, rank) if case["have"][rank] else None
        return plain(answer.mean_gradient(gradient, torch.zeros(case["shape"], dtype=torch.float64)))

    def _gradient(self, case: Case, rank: int) -> Any:
        from ddp_course.exercises.ranks import randn

        return randn(case["seed"] + rank, *case["shape"])
