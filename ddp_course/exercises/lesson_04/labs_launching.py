"""Lesson 4, break-it labs: programs that do not start as they were meant to."""

from __future__ import annotations

import os
import random
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from ddp_course.exercises.base import Call, Case, Lab, Option, Question
from ddp_course.exercises.compare import per_rank, show
from ddp_course.exercises.lesson_04 import agents
from ddp_course.launcher.nodes import C10D_PORT, STATIC_PORT


class PortInUse(Lab):
    """Two runs, one port."""

    name = "port_in_use"
    lesson, section = "04", 1
    title = "the port is taken"
    minutes, difficulty = 5, 1
    tested = "a line that leaves the port to the system, really started"
    worlds = (1,)
    patience = 2.0
    options = "--nproc-per-node 1 --lab"
    broken = """\
import socket
import subprocess
import sys

earlier = socket.create_server(("", 0))  # stands for a run of the same job that is still alive
port = earlier.getsockname()[1]
torchrun = [sys.executable, "-m", "torch.distributed.run"]
options = ["--nproc-per-node=2", f"--master-port={port}"]
job = subprocess.run([*torchrun, *options, "train.py"], capture_output=True, text=True)
error = next(line for line in job.stderr.splitlines() if "port:" in line)
print("exit code", job.returncode)
print(error[error.index("name:"):])
sys.exit(job.returncode)
"""
    question = Question(
        "torchrun gives up before it has started a single rank. Why?",
        (
            Option(
                "The file train.py does not exist",
                "It does not, but torchrun never came that far: only a rank would read it.",
            ),
            Option(
                "The line names a port, and the earlier run's store listens there",
                "Yes. The agent of node 0 opens the store of its run on --master-port. One port has one listener, so "
                "a line with a fixed port starts once at a time.",
            ),
            Option(
                "Two ranks cannot share one port",
                "They can: the ranks of a run all connect to one store. It is two stores that cannot share a port.",
            ),
            Option(
                "Ports below 1024 are for the system",
                "True, but this is a high port: it was free until the earlier run took it.",
            ),
        ),
        "b",
    )
    stub = '''\
def command(script):
    """Returns the words of a command line that starts script with 2 ranks on this machine: ["torchrun", …, script].

    The line is written once and started often: however many runs of it are alive, and whatever ports they have, the
    next one starts too.
    """
    raise NotImplementedError
'''
    hints = (
        "Who should choose the port: you, when you write the line, or the system, when the line runs?",
        "One option of torchrun stands for: one machine, a rendezvous of its own, any port that is free.",
        "It is the option that the line above each output of this course begins with.",
    )

    def cases(self, pick: random.Random, world: int) -> list[Case]:
        return [{}]

    def expected(self, case: Case, rank: int) -> Any:
        return {}

    def run(self, answer: SimpleNamespace, case: Case, rank: int) -> Any:
        from ddp_course.exercises.ranks import plain

        with tempfile.TemporaryDirectory() as folder:
            script = Path(folder) / "train.sh"
            script.write_text('echo "$WORLD_SIZE" > "$(dirname "$0")/$RANK"\n')
            lines = [plain(answer.command(str(script))) for _ in range(2)]
            if problem := _unusable(lines[1], str(script)):
                return problem
            if problem := _port_taken(lines):
                return problem
            raised = agents.start([[*lines[1][1:-1], "--no-python", "sh", str(script)]])
            started = {path.name: path.read_text().strip() for path in Path(folder).glob("[0-9]*")}
        if raised:
            return f"torchrun did not start it: {raised[0]}"
        if started != {"0": "2", "1": "2"}:
            return f"it started {len(started)} rank{'s' * (len(started) != 1)}, and not 2 on this one machine."
        return "started"

    def judge(self, case: Case, expected: Any, seen: list[Any], calls: list[list[Call]]) -> str | None:
        return None if seen[0] == "started" else str(seen[0])


def _unusable(line: Any, script: str) -> str | None:
    """Why these words start no run here at all."""
    if not isinstance(line, list) or not line or not all(isinstance(word, str) for word in line):
        return f"you returned {show(line)}, and not a list of words."
    if line[0] != "torchrun" or line[-1] != script:
        return f"the first word is torchrun and the last one script; yours are {line[0]} and {Path(line[-1]).name}."
    try:
        parsed = agents.parse([*line[1:-1], script])
    except ValueError as error:
        return f"torchrun says: {error}"
    if parsed.nnodes not in ("1", "1:1"):
        return f"--nnodes={parsed.nnodes}: it would wait for another machine, for ever."
    return None


def _port_taken(lines: list[list[str]]) -> str | None:
    """Why the second run of a line does not start beside the first."""
    first, second = (_port(line[1:]) for line in lines)
    if not second:
        return None
    if first != second:
        return (
            f"port {second} is chosen when the line is written. When it runs, another run may have that port.\n"
            "Who knows then which ports are free?"
        )
    if agents.parse(lines[1][1:]).rdzv_backend == "c10d":
        return (
            f"the second run finds port {second} taken and asks to join the first one, as if it were its second node."
        )
    return f"the second run of your line fails: port {second} is in use, by the first."


def _port(words: list[str]) -> int:
    """The port that a line insists on; 0 where it takes any."""
    parsed = agents.parse(words)
    if parsed.standalone:
        return 0
    if given := re.search(r":(\d+)$", parsed.rdzv_endpoint):
        return int(given[1])
    if parsed.rdzv_backend == "c10d":
        return C10D_PORT
    return STATIC_PORT if parsed.rdzv_endpoint else int(parsed.master_port or 0)


class LocalRankArgument(Lab):
    """A script for the launcher of old."""

    name = "local_rank_argument"
    lesson, section = "04", 1
    title = "a script that wants --local-rank"
    minutes, difficulty = 5, 1
    tested = "under torchrun and under the old launcher, on the first and on a second node"
    worlds = (2, 3)
    options = "--nproc-per-node 2 --lab"
    broken = """\
import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=1)
parser.add_argument("--local-rank", type=int, required=True)
options = parser.parse_args()
print(f"local rank {options.local_rank}: {options.epochs} epoch")
"""
    question = Question(
        "The script is as it always was, and torchrun starts two ranks that refuse to run. Why?",
        (
            Option(
                "torchrun puts the local rank into the environment and adds no argument",
                "Yes. python -m torch.distributed.launch added --local-rank to the arguments of each process. torchrun "
                "leaves the arguments alone and sets LOCAL_RANK.",
            ),
            Option(
                "--local-rank has to come before the script on torchrun's line",
                "There it would be an option of torchrun, which has none of that name: it chooses the local ranks.",
            ),
            Option(
                "The argument must be spelt --local_rank",
                "The old launcher spelt it so before PyTorch 2.0. Spelt either way, torchrun does not pass it.",
            ),
            Option(
                "The default of --epochs hides the local rank",
                "Each option has a value of its own, and only one of them is missing.",
            ),
        ),
        "a",
    )
    stub = '''\
import argparse
import os


def read_options(words):
    """words: the script's arguments, such as ["--epochs", "3"]. The old launcher adds "--local-rank=1"
    to them, before PyTorch 2.0 "--local_rank=1".

    Returns an argparse.Namespace with the numbers epochs (1 where it is not given) and local_rank, this
    process's own under either launcher. Other arguments are refused, as argparse refuses them.
    """
    raise NotImplementedError
'''
    hints = (
        "Where do both launchers put the local rank, the old one too?",
        "LOCAL_RANK is in the environment under both. The argument has to be accepted, but nobody has to trust it.",
        'add_argument takes several spellings at once, and a default: type=int, default=int(os.environ["…"]).',
    )

    def cases(self, pick: random.Random, world: int) -> list[Case]:
        epochs = pick.randint(2, 9)
        given = ["--epochs", str(epochs)]
        return [
            {"words": given, "epochs": epochs, "what": "under torchrun"},
            {"words": [], "epochs": 1, "what": "under torchrun, without arguments"},
            {"words": ["--local-rank={}", *given], "epochs": epochs, "what": "under the old launcher"},
            {"words": ["--local_rank={}"], "epochs": 1, "what": "under the launcher before PyTorch 2.0"},
            {"words": given, "epochs": epochs, "node": 1, "what": "under torchrun, on a second node"},
            {"words": ["--epoch-count", "3"], "epochs": None, "what": "with a misspelt argument"},
        ]

    def expected(self, case: Case, rank: int) -> Any:
        if case["epochs"] is None:
            return {"value": "refused", "known": []}
        ranks = range(case["world"])
        value = {"epochs": case["epochs"], "local_rank": per_rank(list(ranks))}
        over_all = per_rank([r + case["world"] * case.get("node", 0) for r in ranks])
        known = [
            [{"epochs": 1}, "That is the default. parse_args() reads sys.argv, unless it is given the words."],
            [{"local_rank": 0}, "That is a default, the same on every rank. Who tells each process its own number?"],
            [{"local_rank": over_all}, "That is the rank over all nodes. On a second node LOCAL_RANK starts at 0."],
            [{"local_rank": per_rank([str(r) for r in ranks])}, "A number, not its text: what is in the environment?"],
        ]
        return {"value": value, "known": known}

    def run(self, answer: SimpleNamespace, case: Case, rank: int) -> Any:
        from ddp_course.exercises.ranks import plain

        with _second_node(case.get("node", 0) * case["world"]):
            words = [word.format(os.environ["LOCAL_RANK"]) for word in case["words"]]
            try:
                options = answer.read_options(words)
            except SystemExit as error:
                return "refused" if error.code else None
            return {name: plain(getattr(options, name, None)) for name in ("epochs", "local_rank")}

    def judge(self, case: Case, expected: Any, seen: list[Any], calls: list[list[Call]]) -> str | None:
        refused = [one == "refused" for one in seen]
        if expected["value"] == "refused":
            return (
                None if all(refused) else "an argument that nobody knows was accepted: a misspelt one would go unseen."
            )
        if any(refused):
            arguments = " ".join(case["words"]).format(refused.index(True)) or "(none)"
            return f"the parser refused the arguments {arguments}"
        return super().judge(case, expected, seen, calls)


@contextmanager
def _second_node(ranks_before: int) -> Iterator[None]:
    """As if so many ranks were on nodes before this one."""
    kept = {name: os.environ[name] for name in ("RANK", "WORLD_SIZE")}
    os.environ.update({name: str(int(value) + ranks_before) for name, value in kept.items()})
    try:
        yield
    finally:
        os.environ.update(kept)


class MoreRanksThanGpus(Lab):
    """A GPU for each rank, where there are fewer."""

    name = "more_ranks_than_gpus"
    lesson, section = "04", 2
    title = "more ranks than GPUs"
    minutes, difficulty = 5, 1
    tested = "no GPU, too few, as many and more, on the first and on a second node"
    worlds = (2, 4)
    options = "--nproc-per-node 2 --lab"
    broken = """\
import os

gpus = ["cuda:0"]  # a machine with one GPU: its name stands for it, so that the lab runs anywhere
local_rank = int(os.environ["LOCAL_RANK"])
print(f"local rank {local_rank} takes", gpus[local_rank])
"""
    question = Question(
        "The program works with one rank and fails with two. Why?",
        (
            Option(
                "The ranks must take RANK here, not LOCAL_RANK",
                "On one machine the two are equal. On a second one, RANK would reach past the last GPU even sooner.",
            ),
            Option(
                "A GPU's number is a rank's local rank, and here there are more local ranks than GPUs",
                "Yes. Local rank 1 has no GPU to take. On a real one, set_device says: invalid device ordinal.",
            ),
            Option(
                "Both ranks should share cuda:0, by local_rank % 1",
                "Then NCCL refuses: Duplicate GPU detected. It wants one GPU for each rank.",
            ),
            Option(
                "torchrun starts too many processes by itself",
                "It starts what it is told: --nproc-per-node. With gpu instead of a number it counts them.",
            ),
        ),
        "b",
    )
    stub = '''\
import os


def place(gpus):
    """gpus: how many GPUs this machine has, as torch.cuda.device_count() says.

    Returns (device, backend) for this process: ("cuda:0", "nccl"), ("cuda:1", "nccl") … where each rank of this
    machine can have a GPU of its own, and ("cpu", "gloo") on all of them where not.
    """
    raise NotImplementedError
'''
    hints = (
        "Each rank must come to the same decision. What do all ranks of a machine know alike?",
        "Compare the number of GPUs with the number of ranks on this machine, not with this rank's own number.",
        "LOCAL_WORLD_SIZE is the number of ranks on this machine, and LOCAL_RANK is the GPU to take.",
    )

    def cases(self, pick: random.Random, world: int) -> list[Case]:
        numbers = [(world + pick.randint(1, 4), 0), (world, 0), (0, 0), (1, 0), (world - 1, 0), (world, 1), (1, 1)]
        places = ("", ", on a second node")
        return [
            {"gpus": gpus, "node": node, "what": f"on {gpus} GPU{'s' * (gpus != 1)}{places[node]}"}
            for gpus, node in numbers
        ]

    def expected(self, case: Case, rank: int) -> Any:
        gpus, world, node = case["gpus"], case["world"], case["node"]
        ranks = range(world)

        def each(device: Any, backend: Any = lambda r: "nccl") -> Any:
            return per_rank([[device(r), backend(r)] for r in ranks])

        own = each(lambda r: f"cuda:{r}")
        some = each(lambda r: f"cuda:{r}" if r < gpus else "cpu", lambda r: "nccl" if r < gpus else "gloo")
        none = "`gpus` says how many GPUs there are, and each rank of this machine can have one."
        if gpus == world:
            none = "WORLD_SIZE counts the ranks of all machines." if node else "As many GPUs as ranks are enough."
        known = [
            [["cpu", "gloo"], none],
            [own, "There are not so many GPUs."],
            [some, "Ranks on different backends never meet: they have to decide alike."],
            [each(lambda r: f"cuda:{r % max(1, gpus)}"), "Two ranks would share a GPU, which NCCL refuses."],
            [each(lambda r: f"cuda:{r + node * world}"), "That is RANK. This machine counts its GPUs from 0."],
            [each(lambda r: "cuda:0"), "All ranks would take the same GPU."],
        ]
        return {"value": own if gpus >= world else ["cpu", "gloo"], "known": known}

    def run(self, answer: SimpleNamespace, case: Case, rank: int) -> Any:
        from ddp_course.exercises.ranks import plain

        with _second_node(case["node"] * case["world"]):
            return plain(answer.place(case["gpus"]))

    def judge(self, case: Case, expected: Any, seen: list[Any], calls: list[list[Call]]) -> str | None:
        wrong = super().judge(case, expected, seen, calls)
        return wrong and wrong.replace("[", "(").replace("]", ")")  # tuples come back as lists
