"""Lesson 4, break-it lab: a restart that begins at step 0, because nothing was saved."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

from ddp_course.exercises.base import Call, Case, Lab, Option, Question
from ddp_course.exercises.compare import compare, rank_list
from ddp_course.exercises.lesson_04.kills import Watch

STEPS = 6


class FromZero(Lab):
    """A restart brings new processes, and nothing of what the old ones knew."""

    name = "from_zero"
    lesson, section = "04", 4
    title = "a restart from zero"
    minutes, difficulty = 10, 2
    tested = "a rank really killed; every finished step kept, none made twice"
    worlds = (2, 3)
    kills = 1
    options = "--nproc-per-node 2 --max-restarts 1 --lab"
    broken = """\
import os
import signal

import torch
import torch.distributed as dist

dist.init_process_group()
rank = dist.get_rank()
start = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
weight = torch.zeros(1)
for step in range(4):
    if start == 0 and rank == 1 and step == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    gradient = torch.ones(1)
    dist.all_reduce(gradient)
    weight += gradient
    print(f"start {start}, step {step}: weight {weight.item():.0f}", flush=True)
dist.destroy_process_group()
"""
    question = Question(
        "Steps 0 to 2 were done, and the second start did them again. Why?",
        (
            Option(
                "torchrun starts the script anew from its first line, in new processes; what the old ones held is gone",
                "Yes. torchrun keeps processes going, not training. What is to outlive a process has to be on a disk.",
            ),
            Option(
                "Only rank 1 was started anew, and rank 0 had to wait for it to catch up",
                "Both were: each rank has a second start. With rank 0 alone still at step 3 the all-reduce would hang.",
            ),
            Option(
                "The weights are back, but the loop variable `step` is not",
                "The weights are not: the second start prints 2 at step 0, as the first one did.",
            ),
            Option(
                "--max-restarts 1 allows one failure, and a second one would go on at step 3",
                "Every start begins with the first line, the hundredth too.",
            ),
        ),
        "a",
    )
    stub = '''\
import os

import torch
import torch.distributed as dist


def train(path, steps, take_step):
    """Called on every rank, in each start. At first, state = {"step": 0, "weight": torch.zeros(3)} on all ranks.

    take_step(state) makes one step, on all ranks together: it changes state["weight"] and counts up state["step"].
    A rank may be killed as any step begins; then all ranks are started anew, and no finished step is made twice.
    Only rank 0 writes, to path, and no kill may find half a file there: a second file is written, then renamed with
    os.replace. Returns the state after `steps` steps.
    """
    raise NotImplementedError
'''
    hints = (
        "What does the new start have to know that only the old one knew? Write it down after each step, not at the "
        "end: nobody announces the kill.",
        "At the beginning, look whether there is a file at path: every rank reads it. After each step rank 0 saves the "
        "state, to a second name which os.replace then swaps in.",
        "Loop while state['step'] < steps, so that the number of steps to go follows from the state itself.",
    )

    def cases(self, pick: random.Random, world: int) -> list[Case]:
        kill = [pick.randrange(1, world), pick.randint(3, STEPS - 1)]
        return [{"kill": kill, "what": f"of which rank {kill[0]} was killed as step {kill[1]} began"}]

    def expected(self, case: Case, rank: int) -> Any:
        return {"step": STEPS, "weight": [float(sum(range(STEPS)) * case["world"])] * 3}

    def run(self, answer: SimpleNamespace, case: Case, rank: int) -> Any:
        import torch
        import torch.distributed as dist

        from ddp_course.exercises.ranks import plain

        watch = Watch(case, rank, kill=tuple(case["kill"]))
        if watch.unreadable:
            return {"state": None, **watch.seen()}

        def take_step(state: dict[str, Any]) -> None:
            number = int(state["step"])
            watch.step(number)
            gradient = torch.full((3,), float(number))
            dist.all_reduce(gradient)
            state["weight"] = state["weight"] + gradient
            state["step"] = number + 1

        with watch.saving():
            state = answer.train(watch.path, STEPS, take_step)
        return {"state": plain(state), **watch.seen()}

    def judge(self, case: Case, expected: Any, seen: list[Any], calls: list[list[Call]]) -> str | None:
        if wrong := several_writers(seen) or wrong_start(seen, [case["kill"][1]]):
            return wrong
        if wrong := compare(expected, [one["state"] for one in seen]):
            return f"the state at the end: {wrong}"
        return IN_PLACE if seen[0]["in_place"] else None


IN_PLACE = (
    "the snapshot was written into the old file. A kill in the middle of that leaves half a file:\n"
    "write to a second name, and let os.replace put it in place."
)


def several_writers(seen: list[dict[str, Any]]) -> str | None:
    """What to say where other ranks than rank 0 saved."""
    if writers := [rank for rank, one in enumerate(seen) if one["saved"] and rank]:
        return f"{rank_list(writers)} wrote too. One writer is enough, and several can collide."
    return None


def wrong_start(seen: list[dict[str, Any]], resumed: list[int]) -> str | None:
    """What is wrong with the steps that the starts after a kill began with; None where they are `resumed`."""
    for number, right in enumerate(resumed, start=1):
        began = {rank: one["starts"][number] for rank, one in enumerate(seen) if number < len(one["starts"])}
        first = next(iter(began.values()), 0)
        if missing := [rank for rank in range(len(seen)) if rank not in began]:
            return f"step {right} was never made, by {rank_list(missing)}."
        if len(set(began.values())) > 1:
            which = ", ".join(f"rank {rank} at step {step}" for rank, step in began.items())
            return f"after the kill the ranks disagreed on where to go on: {which}."
        if first == 0:
            return f"expected to go on at step {right}   it began at step 0 again: all that was done is lost."
        if first < right:
            twice = f"{right - first} finished step{'s' * (right - first > 1)} made twice"
            return f"expected to go on at step {right}   it went on at step {first}: {twice}."
        if first > right:
            return f"expected to go on at step {right}   it went on at step {first}: {first - right} left out."
    return None
