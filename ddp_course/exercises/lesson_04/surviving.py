"""Lesson 4, section 4: a training that is killed twice, and ends as if nothing had happened."""

from __future__ import annotations

import itertools
import os
import random
from types import SimpleNamespace
from typing import Any

from ddp_course.exercises.base import Call, Case, Exercise
from ddp_course.exercises.compare import compare
from ddp_course.exercises.lesson_02.resuming import Training
from ddp_course.exercises.lesson_04.from_zero import IN_PLACE, several_writers, wrong_start
from ddp_course.exercises.lesson_04.kills import Watch

STEPS = 8


class Survive(Exercise):
    """Snapshots in a training loop, so that kills leave no trace in the weights."""

    name = "survive"
    lesson, section = "04", 4
    title = "survive two kills without a trace"
    minutes, difficulty = 20, 3
    tested = "killed between two steps and in the middle of a snapshot; weights equal to a run that was never killed"
    worlds = (2, 3)
    kills = 2
    oracle_needs_all_ranks = True
    stub = '''\
import os

import torch
import torch.distributed as dist
import torch.nn.functional as F


def train(model, optimizer, path, steps, batch):
    """Called on every rank, in each start, with a new model (wrapped in DDP, with dropout) and a new AdamW.

    batch(step) gives this rank's (inputs, targets); call it once as step begins, for 0 … steps − 1. A step:
    optimizer.zero_grad(), F.mse_loss, backward, optimizer.step(). A rank may be killed at any moment, also while a
    snapshot is written; then all ranks are started anew. The model ends with the weights of a run that was never
    killed, and no step that has a whole snapshot is made twice. Only rank 0 writes, to path. Dropout draws from
    torch.get_rng_state().
    """
    raise NotImplementedError
'''
    hints = (
        "Lesson 2's save and load are most of it: weights, AdamW's averages, the step, and the random state of each "
        "rank. What is new is when they are called: in every start, and after every step.",
        "The first thing a start does is to look for the file. After a step all ranks gather their random states, and "
        "rank 0 writes a second file and swaps it in. Which step does it name, the last one done or the next one?",
        "model.module.load_state_dict, optimizer.load_state_dict, torch.set_rng_state of this rank's own entry; then "
        "range from the saved step to steps.",
    )

    def cases(self, pick: random.Random, world: int) -> list[Case]:
        kill = [pick.randrange(world), pick.randint(3, 4)]
        saving = kill[1] + pick.randint(1, 2)
        what = f"of which one was killed as step {kill[1]} began, and one in the snapshot after step {saving}"
        return [{"kill": kill, "saving": saving, "what": what}]

    def expected(self, case: Case, rank: int) -> Any:
        import torch
        import torch.distributed as dist

        if os.environ["TORCHELASTIC_RESTART_COUNT"] != "0":
            return {}  # the first start has told it

        def run(*lost: str, random_of: int = rank) -> dict[str, Any]:
            training = Training(case, rank)
            initial = training.values()
            if "zero_grad" in lost:
                training.optimizer.zero_grad = _nothing  # type: ignore[method-assign]
            parts = [0, case["kill"][1], case["saving"], STEPS]
            for first, last in itertools.pairwise(parts):
                training.train(first, last)
                training.net.zero_grad()  # as in the new processes
                states: list[Any] = [None] * case["world"]
                dist.all_gather_object(states, torch.get_rng_state())
                if "random" in lost:
                    torch.manual_seed(case["seed"] + rank)
                else:
                    torch.set_rng_state(states[random_of])
                if "moments" in lost:
                    training.new_optimizer()
                if "weights" in lost and last < STEPS:
                    training.net.load_state_dict({name: torch.tensor(value) for name, value in initial.items()})
            return training.values()

        return {
            "value": run(),
            "known": [
                [run("moments"), "The weights are back, but the optimizer has forgotten its moments."],
                [run("random"), "The random states are not back: dropout draws its first masks again."],
                [run("moments", "random"), "The weights are back, but neither the moments nor the random states."],
                [run("weights"), "Step, moments and random states are back, but each start has new weights."],
                [run("zero_grad"), "Gradients add up until someone zeroes them: a step begins with zero_grad."],
                [run(random_of=0), "Every rank goes on with rank 0's random state. Whose did each load?"],
                [Training(case, rank).values(), "Those are the weights of step 0: no training took place."],
            ],
        }

    def run(self, answer: SimpleNamespace, case: Case, rank: int) -> Any:
        import torch

        from ddp_course.exercises.ranks import watching

        watch = Watch(case, rank, kill=tuple(case["kill"]), kill_saving=case["saving"])
        training = Training(case, rank)
        if watch.unreadable:
            return {"weights": None, "seeded": False, **watch.seen()}

        def batch(step: int) -> Any:
            watch.step(step)
            return training.batch(step)

        with watch.saving(), watching(torch, "manual_seed") as seeds:
            answer.train(training.model, training.optimizer, watch.path, STEPS, batch)
        return {"weights": training.values(), "seeded": bool(seeds), **watch.seen()}

    def judge(self, case: Case, expected: Any, seen: list[Any], calls: list[list[Call]]) -> str | None:
        # A snapshot that is no file of torch.save is never cut: then there is one kill only.
        cut = max(len(one["starts"]) for one in seen) > 2
        if wrong := several_writers(seen) or wrong_start(seen, [case["kill"][1], *[case["saving"]] * cut]):
            return wrong
        if seen[0]["in_place"]:
            return IN_PLACE
        if wrong := compare(expected["value"], [one["weights"] for one in seen], expected["known"]):
            seeded = "\nA seed starts the random numbers anew. Where they were can be read and put back."
            return f"after {STEPS} steps and the kills, {wrong}{seeded * any(one['seeded'] for one in seen)}"
        return None


def _nothing(set_to_none: bool = True) -> None:
    """In the place of zero_grad: nothing is zeroed."""
