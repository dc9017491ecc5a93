"""Lesson 1, section 5: all-reduce as a ring."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

from ddp_course.exercises.base import Call, Case, Exercise
from ddp_course.exercises.compare import rank_list

_BYTES = 8  # of a float64


class RingAllReduce(Exercise):
    """2(N−1) steps of one chunk each, to the next rank only."""

    name = "ring_all_reduce"
    lesson, section = "01", 5
    title = "ring all-reduce"
    minutes, difficulty = 20, 3
    tested = "any length, 0 and 1 too; steps and bytes counted"
    worlds = (2, 3, 4, 5, 6, 7, 8, 1)
    stub = '''\
import torch
import torch.distributed as dist


def ring_all_reduce(tensor):
    """Replace tensor, 1-D and of the same length on every rank, by the sum over all ranks, in
    place.

    A rank sends to (rank + 1) % world_size and receives from (rank - 1) % world_size, one chunk
    in each of 2 × (world_size - 1) steps. Allowed are send, recv, isend, irecv and
    batch_isend_irecv.
    """
    raise NotImplementedError
'''
    hints = (
        "Cut the tensor into as many chunks as there are ranks; torch.tensor_split does it for every length. Go "
        "around twice: N−1 steps in which chunks are added up, N−1 in which finished chunks are handed on.",
        "In step s of the first round, rank r sends chunk (r − s) % N, and adds what it receives to chunk "
        "(r − s − 1) % N. After N−1 steps rank r holds the whole sum of chunk (r + 1) % N.",
        "In step s of the second round, rank r sends chunk (r + 1 − s) % N and overwrites chunk (r − s) % N. Start the "
        "send with isend, receive, and only then wait for the send: if all ranks send first, nobody receives.",
    )

    def cases(self, pick: random.Random, world: int) -> list[Case]:
        uneven = world * pick.randint(2, 5) + (pick.randint(1, world - 1) if world > 1 else 0)
        lengths = [world * pick.randint(2, 5), uneven, 1, 0]
        return [{"length": n, "what": f"and {n} element{'s' * (n != 1)}"} for n in lengths]

    def expected(self, case: Case, rank: int) -> Any:
        import torch

        world, length = case["world"], case["length"]
        each = torch.stack([self._tensor(case, r) for r in range(world)])
        total = each.sum(0)
        known: list[list[Any]] = []
        if world > 1 and length:
            known = [
                [(total / world).tolist(), f"That is the mean. An all-reduce as asked for here sums: {world}× that."],
                [
                    {"per rank": each.tolist()},
                    "That is the rank's own tensor as it was. Write the result into tensor itself, as tensor[:] = …",
                ],
                [
                    {"per rank": _after_first_round(each).tolist()},
                    "That is the state after the first round: each rank has the whole sum of one chunk. The second "
                    "round hands the finished chunks on.",
                ],
            ]
            if left := length % world if length > world else 0:
                short = each.clone()
                short[:, : length - left] = total[: length - left]
                why = f"The last {left} of {length} elements were left out: {world} chunks of {length // world} hold"
                known.append([{"per rank": short.tolist()}, f"{why} only {length - left}."])
        return {"value": total.tolist(), "known": known}

    def run(self, answer: SimpleNamespace, case: Case, rank: int) -> Any:
        from ddp_course.exercises.lesson_01.sent import sent
        from ddp_course.exercises.ranks import plain

        tensor = self._tensor(case, rank)
        with sent() as calls:
            answer.ring_all_reduce(tensor)
        return {"value": plain(tensor), "calls": calls}

    def judge(self, case: Case, expected: Any, seen: list[Any], calls: list[list[Call]]) -> str | None:
        if wrong := super().judge(case, expected, [one["value"] for one in seen], calls):
            return wrong
        if others := [name for rank in calls for name, _, _ in rank]:
            return f"the sum is right, but you called {others[0]}. A ring is made of sends and receives only."
        return self._judge_traffic(case, [one["calls"] for one in seen])

    def _judge_traffic(self, case: Case, sends: list[Any]) -> str | None:
        world, length = case["world"], case["length"]
        for rank, messages in enumerate(sends):
            astray = {call["to"] for call in messages} - {(rank + 1) % world}
            if astray:
                return (
                    f"the sum is right, but rank {rank} sent to {rank_list(sorted(astray))}.\n"
                    f"In the ring it sends to rank {(rank + 1) % world} only."
                )
        steps, chunk = 2 * (world - 1), -(-length // world)
        counts, volume = [len(messages) for messages in sends], [sum(c["bytes"] for c in m) for m in sends]
        most, limit = max(volume), steps * chunk * _BYTES
        if most > limit:
            return (
                f"the sum is right, but a rank sent {most} bytes; 2(N−1)/N of {length * _BYTES} bytes are {limit} at "
                f"most.\nSend one chunk in a step, the {world}th part of the tensor, and not all of it."
            )
        if max(counts) > steps or (length >= world and min(counts) < steps):
            return (
                f"the sum is right, but a rank sent {max(counts)} times; {world} ranks need {steps} steps.\n"
                f"Send one chunk in a step, the {world}th part of the tensor, and not all of it."
            )
        if sum(volume) < steps * length * _BYTES:
            return (
                f"the sum is right, but {sum(volume)} bytes cannot carry it: {steps * length * _BYTES} have to travel."
            )
        return None

    def _tensor(self, case: Case, rank: int) -> Any:
        from ddp_course.exercises.ranks import randn

        return randn(case["seed"] + rank, case["length"])


def _after_first_round(each: Any) -> Any:
    """(rank, element) → what the first round of the ring leaves; chunk c starts on rank c and grows from there."""
    result = each.clone()
    world = len(each)
    for rank, row in enumerate(result):
        for start, chunk in enumerate(row.tensor_split(world)):
            on_the_way = [(start + back) % world for back in range((rank - start) % world + 1)]
            chunk.copy_(sum(each[r].tensor_split(world)[start] for r in on_the_way))
    return result
