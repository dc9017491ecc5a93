"""Lesson 2, section 6: a stopped training goes on as if nothing had happened."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from ddp_course.exercises.base import Call, Case, Exercise
from ddp_course.exercises.compare import compare, rank_list


class Resume(Exercise):
    """A checkpoint of everything the next step depends on, replaced as a whole."""

    name = "resume"
    lesson, section = "02", 6
    title = "save and resume exactly"
    minutes, difficulty = 15, 3
    tested = "weights after stop and resume equal to an uninterrupted run; dropout, AdamW; one writer, no half file"
    worlds = (2, 3)
    oracle_needs_all_ranks = True
    stub = '''\
import os

import torch
import torch.distributed as dist


def save(path, model, optimizer, step):
    """Called on every rank; model is wrapped in DDP. Writes one file, path, from which load can go
    on exactly: model (names without "module."), optimizer, step, and the random state of each rank
    (torch.get_rng_state()).

    A crash at any moment leaves the old file or the new one, whole. When save returns, every rank
    can read it.
    """
    raise NotImplementedError


def load(path, model, optimizer):
    """Called on every rank, in new processes. Puts everything back and returns the step."""
    raise NotImplementedError
'''
    hints = (
        "Write down what the next training step depends on. Which of these things are the same on every rank, and "
        "which one is not? The latter has to be collected before one rank can write it.",
        "dist.all_gather_object collects the random states; every rank calls it. Rank 0 alone writes, to a second "
        "name in the same folder; os.replace then swaps the names in one go. model.module has the names you want.",
        "What keeps rank 1 from reading before rank 0 has written? dist.barrier() at the end of save. In load each "
        "rank reads the file, and takes its own entry out of the list of random states.",
    )

    def cases(self, pick: random.Random, world: int) -> list[Case]:
        stop = pick.randint(2, 4)
        return [{"stop": stop, "end": stop + 3, "what": f"stopped after step {stop}"}]

    def expected(self, case: Case, rank: int) -> Any:
        import torch.distributed as dist

        def resumed(optimizer_kept: bool = True, random_of: int | None = rank) -> dict[str, Any]:
            import torch

            run = Training(case, rank)
            run.train(0, case["stop"])
            states: list[Any] = [None] * case["world"]
            dist.all_gather_object(states, torch.get_rng_state())
            if random_of is None:
                torch.manual_seed(_after_restart(case, rank))
            else:
                torch.set_rng_state(states[random_of])
            if not optimizer_kept:
                run.new_optimizer()
            run.train(case["stop"], case["end"])
            return {"step": case["stop"], **run.values()}

        late = {"step": {"per rank": [case["stop"], *[case["stop"] - 1] * (case["world"] - 1)]}}
        return {
            "value": resumed(),
            "known": [
                [late, "Only rank 0 has the new file: the others read before it was written."],
                [resumed(optimizer_kept=False), "The weights are back, but the optimizer has forgotten its moments."],
                [resumed(random_of=None), "The random states are not back: dropout draws other masks now."],
                [
                    resumed(random_of=0),
                    "Every rank draws rank 0's dropout masks now. Whose random state did each load?",
                ],
            ],
        }

    def run(self, answer: SimpleNamespace, case: Case, rank: int) -> Any:
        import torch

        folder = case["folder"]
        path = os.path.join(folder, f"checkpoint-{case['index']}.pt")
        new = Training(case, rank, seed=1)  # now: its constructor makes the ranks wait for each other
        run = Training(case, rank)
        run.train(0, case["stop"] - 1)
        with slow_save(rank) as saved, _removals(path) as removed:
            answer.save(path, run.model, run.optimizer, case["stop"] - 1)
            old = open(path, "rb") if rank == 0 else None
            before = old.read() if old else b""
            run.train(case["stop"] - 1, case["stop"])
            answer.save(path, run.model, run.optimizer, case["stop"])
        whole, prefixed = True, False
        if old:
            old.seek(0)
            whole = old.read() == before  # the old file lives on under its handle only where it was replaced
            prefixed = _holds_prefix(torch.load(path, weights_only=True))
            old.close()
        torch.manual_seed(_after_restart(case, rank))
        step = answer.load(path, new.model, new.optimizer)
        new.train(case["stop"], case["end"])
        elsewhere = any(os.path.dirname(os.path.abspath(target)) != folder for target in saved)
        return {
            "value": {"step": step, **new.values()},
            "saved": len(saved),
            "whole": whole and not removed,
            "elsewhere": elsewhere,
            "prefixed": prefixed,
        }

    def judge(self, case: Case, expected: Any, seen: list[Any], calls: list[list[Call]]) -> str | None:
        if wrong := compare(expected["value"], [one["value"] for one in seen], expected["known"]):
            return f"3 steps after resuming, {wrong}"
        if writers := [rank for rank, one in enumerate(seen) if one["saved"] and rank]:
            return f"it resumes exactly, but {rank_list(writers)} wrote too. One writer is enough, and two can collide."
        if not seen[0]["whole"]:
            return (
                "it resumes exactly, but save wrote into the old file, or took it away before the new one had its "
                "name.\n"
                "A crash in the middle leaves half a checkpoint or none, and the last good one is gone."
            )
        if seen[0]["elsewhere"]:
            return (
                "it resumes exactly, but save wrote in another folder first. That can be another disk:\n"
                "moving a file between disks copies it, and a crash in the middle leaves half of it."
            )
        if seen[0]["prefixed"]:
            return 'it resumes exactly, but names in the file start with "module.": only a wrapped model could load it.'
        return None


class Training:
    """A small net with dropout under DDP, and AdamW."""

    def __init__(self, case: Case, rank: int, seed: int = 0) -> None:
        import torch
        from torch import nn
        from torch.nn.parallel import DistributedDataParallel

        from ddp_course.exercises.ranks import seeded

        self._case, self._rank = case, rank
        layers = lambda: nn.Sequential(nn.Linear(4, 6), nn.Dropout(0.5), nn.Linear(6, 2))  # noqa: E731
        self.net = seeded(case["seed"] + seed, layers)
        self.model = DistributedDataParallel(self.net)
        self.new_optimizer()
        torch.manual_seed(case["seed"] + rank)

    def new_optimizer(self) -> None:
        import torch

        self.optimizer = torch.optim.AdamW(self.net.parameters(), lr=0.05)

    def train(self, first: int, last: int) -> None:
        from ddp_course.exercises.ranks import mse

        for step in range(first, last):
            self.optimizer.zero_grad()
            mse(self.model, self.batch(step)).backward()
            self.optimizer.step()

    def batch(self, step: int) -> Any:
        """This rank's (inputs, targets) of a step."""
        from ddp_course.exercises.ranks import randn

        seed = self._case["seed"] + 100 * step + self._rank
        return randn(seed, 5, 4), randn(seed + 50, 5, 2)

    def values(self) -> dict[str, Any]:
        from ddp_course.exercises.ranks import values

        return values(self.net)


def _after_restart(case: Case, rank: int) -> int:
    """The random state of a new process: not the one that was stopped."""
    return int(case["seed"]) + 777 + rank


@contextmanager
def slow_save(rank: int) -> Iterator[list[str]]:
    """A slow disk: whoever reads without waiting for the writer finds the old file. Lists the files written."""
    import torch

    original = torch.save
    saved: list[str] = []

    def save(content: Any, target: Any, *args: Any, **kwargs: Any) -> None:
        if isinstance(target, (str, os.PathLike)) or hasattr(target, "name"):  # gathering objects saves to memory
            saved.append(str(getattr(target, "name", target)))
            time.sleep(0.2)
        original(content, target, *args, **kwargs)

    torch.save = save  # type: ignore[assignment]
    try:
        yield saved
    finally:
        torch.save = original


@contextmanager
def _removals(path: str) -> Iterator[list[str]]:
    """The names under which the file at `path` is removed or renamed away meanwhile."""
    names, removed = ("remove", "unlink", "rename"), []
    originals = {name: getattr(os, name) for name in names}

    def watched(name: str) -> Any:
        def call(target: Any, *args: Any, **kwargs: Any) -> Any:
            if os.path.abspath(os.fspath(target)) == path:
                removed.append(name)
            return originals[name](target, *args, **kwargs)

        return call

    for name in names:
        setattr(os, name, watched(name))
    try:
        yield removed
    finally:
        for name in names:
            setattr(os, name, originals[name])


def _holds_prefix(content: Any) -> bool:
    if isinstance(content, dict):
        return any(str(key).startswith("module.") or _holds_prefix(value) for key, value in content.items())
    return isinstance(content, (list, tuple)) and any(map(_holds_prefix, content))
