"""Lesson 3, section 7: a sharded checkpoint that is whole whenever the job dies."""

from __future__ import annotations

import os
import random
import shutil
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from ddp_course.exercises.base import Call, Case, Exercise
from ddp_course.exercises.compare import compare, rank_list


class ShardedCheckpoint(Exercise):
    """Saved in pieces, named when complete, read by any number of ranks."""

    name = "sharded_checkpoint"
    lesson, section = "03", 7
    title = "save in pieces, whole or not at all"
    minutes, difficulty = 20, 3
    tested = "exact weights, AdamW state and step on other shards; a crash before any file operation loses nothing"
    worlds = (2, 3)
    patience = 2.0
    stub = '''\
import os
import shutil

import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict


def save(folder, model, optimizer, step):
    """Called on every rank; model is sharded by fully_shard(). Adds a checkpoint of model, optimizer and step to
    folder; each rank writes its own shards. The one before stays.

    A crash at any moment leaves a folder from which load can go on, and into which the same step can be saved again.
    When save returns, every rank can load.
    """
    raise NotImplementedError


def load(folder, model, optimizer):
    """Called on every rank, perhaps in another number of ranks. Puts back the newest whole checkpoint in folder.

    Returns its step.
    """
    raise NotImplementedError
'''
    hints = (
        "dcp.save writes into a folder of its own, one for each step. What tells a complete folder from one that was "
        "still being written? A name that it gets at the very end.",
        "Save into step-000120.tmp; when dcp.save has returned, rank 0 renames it with os.replace. Then all ranks meet "
        "in a barrier. A folder that an earlier crash has left is removed before, by one rank, and all wait for that.",
        "get_state_dict(model, optimizer) gives both parts. In load the same call makes a dict to read into: dcp.load "
        "fills it in place, step included; set_state_dict puts it back. Newest: the largest name without .tmp.",
    )

    def cases(self, pick: random.Random, world: int) -> list[Case]:
        return [{"width": pick.randint(5, 7), "first": 9}]  # then 10, whose name comes before that of 9

    def expected(self, case: Case, rank: int) -> Any:
        return {"value": case["first"] + 1}

    def run(self, answer: SimpleNamespace, case: Case, rank: int) -> Any:
        import torch.distributed as dist

        place = Path(case["folder"]) / f"checkpoints-{case['index']}"
        folder, copies = place / "now", place / "copies"
        copies.mkdir(parents=True, exist_ok=True)
        folder.mkdir(exist_ok=True)
        dist.barrier()
        training = _Training(case)
        watch = _Watch(folder, copies, rank)
        states = {}
        for step in (case["first"], case["first"] + 1):
            training.to(step)
            states[step] = training.values()
            with watch:
                answer.save(str(folder), training.model, training.optimizer, step)
                found = _names(folder)
                dist.barrier()
            early = found != _names(folder)
            watch.begins = True  # from the second save on there is something to lose
        unready = [None] * case["world"]
        dist.all_gather_object(unready, early)
        if any(unready):
            return {"early": early}
        seen = self._load(answer, case, folder, states)
        if seen.get("step") != training.step:
            return seen
        crashes = sorted(path for path in copies.iterdir() if path.is_dir())
        for copy in crashes:
            lost = self._load(answer, case, copy, states)
            if "wrong" in lost:
                return {**lost, "before": copy.with_suffix(".txt").read_text()}
        if crashes:  # the job is started anew, comes to the same step, and saves it once more
            answer.save(str(crashes[-1]), training.model, training.optimizer, training.step)
            again = self._load(answer, case, crashes[-1], {training.step: training.values()})
            if "wrong" in again:
                return {**again, "later": True}
        return {**seen, "writes": watch.writes}

    def _load(self, answer: SimpleNamespace, case: Case, folder: Path, states: dict[int, Any]) -> dict[str, Any]:
        """The step that `load` puts back, or what is wrong."""
        from torch.distributed.checkpoint.api import CheckpointException  # no Exception, but a BaseException

        fresh = _Training({**case, "seed": case["seed"] + 1}, replicated=True)
        try:
            step = answer.load(str(folder), fresh.model, fresh.optimizer)
        except (Exception, CheckpointException) as error:
            said = (str(error).strip().splitlines() or [""])[-1].replace(str(folder), "folder")
            return {"wrong": f"load raises {type(error).__name__}: {said[:120]}"}
        step = step.item() if hasattr(step, "item") else step
        if step not in states:
            return {"wrong": f"load returns {step!r}; the steps that were saved are {', '.join(map(str, states))}"}
        if wrong := compare(states[step], [fresh.values()], tolerance=0.0):
            unset = "\ndcp.load fills tensors in place; only set_state_dict puts back what is no tensor"
            return {"wrong": f"after load, {wrong}{unset * wrong.startswith('the learning rate')}"}
        return {"step": step}

    def judge(self, case: Case, expected: Any, seen: list[Any], calls: list[list[Call]]) -> str | None:
        if early := [rank for rank, one in enumerate(seen) if one.get("early")]:
            return (
                f"when save returned on {rank_list(early)}, another rank was still at work in the folder.\n"
                "A rank that loads now finds the checkpoint before. Let all ranks wait for the last file operation."
            )
        for one in seen:
            if "wrong" not in one:
                continue
            if "before" in one:
                return (
                    f"it saves and loads, but not after a crash in the second save, before {one['before']}:\n"
                    f"{one['wrong']}."
                )
            if "later" in one:
                return f"it saves and loads, but not where an earlier crash has left its traces:\n{one['wrong']}."
            return f"{one['wrong']}."
        if late := [rank for rank, one in enumerate(seen) if one["step"] != expected["value"]]:
            return (
                f"load goes on from step {seen[late[0]]['step']}; the newest checkpoint is of step {expected['value']}."
                "\nIf it compares names: step-9 comes after step-10, because 9 comes after 1. Compare numbers."
            )
        if idle := [rank for rank, one in enumerate(seen) if not one["writes"]]:
            return (
                f"it saves and loads, but {rank_list(idle)} wrote nothing: the whole state went through one rank.\n"
                "dcp.save has every rank write its own shards."
            )
        return None


class _Training:
    """A small net, sharded, with AdamW. Its state after a step depends on the step alone."""

    def __init__(self, case: Case, replicated: bool = False) -> None:
        import torch
        import torch.distributed as dist
        from torch import nn
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        from ddp_course.exercises.ranks import seeded

        width = case["width"]
        self._replicated = replicated
        self._seed = case["seed"]
        self.model = seeded(case["seed"], lambda: nn.Sequential(nn.Linear(3, width), nn.Tanh(), nn.Linear(width, 2)))
        world = dist.get_world_size()
        # One shard, on every rank: other shards than those that were saved, as on another number of ranks.
        mesh = init_device_mesh("cpu", (world, 1), mesh_dim_names=("replicas", "shards")) if replicated else None
        fully_shard(self.model.get_submodule("2"), mesh=mesh)
        fully_shard(self.model, mesh=mesh)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.5 if replicated else 0.05)
        self.step = 0

    def to(self, step: int) -> None:
        """Train up to a step."""
        from ddp_course.exercises.ranks import mse, randn

        for number in range(self.step, step):
            seed = self._seed + 100 * number
            self.optimizer.zero_grad()
            mse(self.model, (randn(seed, 4, 3), randn(seed + 50, 4, 2))).backward()
            self.optimizer.step()
        self.step = step

    def values(self) -> dict[str, Any]:
        """Weights, AdamW's state and its learning rate, whole, by name."""
        from torch.distributed.tensor import DTensor

        from ddp_course.exercises.ranks import plain

        whole = {"the learning rate": self.optimizer.param_groups[0]["lr"]}
        for name, parameter in self.model.named_parameters():
            state = self.optimizer.state.get(parameter, {})
            for kind, tensor in {"": parameter, **state}.items():
                if isinstance(tensor, DTensor):
                    tensor = tensor.to_local() if self._replicated else tensor.full_tensor()
                whole[f"{name} {kind}".strip()] = plain(tensor)
        return whole


def _names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


class _Watch:
    """Copies the folder before each file operation in it: what a crash at that moment would leave.

    It hears of the operations from Python's audit events, which cannot be unsubscribed from. Rank 0 makes the copies
    of its own operations; what the other ranks have written until then is in them.
    """

    def __init__(self, folder: Path, copies: Path, rank: int) -> None:
        self._folder, self._copies, self._rank = folder, copies, rank
        self._on = self.begins = False
        self.writes = self._count = 0
        sys.addaudithook(self._hear)

    def __enter__(self) -> None:
        self._on = True

    def __exit__(self, *error: object) -> None:
        self._on = False

    def _hear(self, event: str, args: tuple[Any, ...]) -> None:
        if not self._on or event not in ("open", "os.rename", "os.remove", "os.rmdir", "shutil.rmtree"):
            return
        if not isinstance(args[0], (str, os.PathLike)) or str(self._folder) not in os.path.abspath(args[0]):
            return
        if event == "open":
            if not isinstance(args[1], str) or not set(args[1]) & set("wax+"):
                return
            self.writes += 1
        if event == "os.rename" and self._rank == 0:
            time.sleep(0.1)  # a slow disk: whoever does not wait for rank 0 comes too early
        if self._rank == 0 and self.begins:
            self._on = False
            self._copy(f"{'writing' if event == 'open' else event} {Path(args[0]).name}")
            self._on = True

    def _copy(self, what: str) -> None:
        copy = self._copies / f"{self._count:02}"
        try:
            shutil.copytree(self._folder, copy)
        except OSError:  # another rank has just removed a file: no state to judge by
            shutil.rmtree(copy, ignore_errors=True)
            return
        copy.with_suffix(".txt").write_text(what)
        self._count += 1
