"""Lesson 1, break-it labs: messages that wait for each other, tensors that do not match."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

from ddp_course.exercises.base import Call, Case, Lab, Option, Question
from ddp_course.exercises.compare import compare, join, rank_list


class SendRecvOrder(Lab):
    """Everybody sends first."""

    name = "send_recv_order"
    lesson, section = "01", 5
    title = "everybody sends first"
    minutes, difficulty = 4, 1
    tested = "every rank received what its neighbour sent"
    options = "--nproc-per-node 2 --timeout 3 --lab"
    broken = """\
import torch
import torch.distributed as dist

dist.init_process_group()
rank = dist.get_rank()
other = 1 - rank
received = torch.empty(1)
print(f"sending to rank {other}", flush=True)
dist.send(torch.tensor([float(rank)]), dst=other)
dist.recv(received, src=other)
print(f"received {received.item()}")
dist.destroy_process_group()
"""
    question = Question(
        "Both ranks send, and neither ever receives. Why?",
        (
            Option("`received` has to be a list of tensors", "recv fills one tensor, and no rank came that far."),
            Option(
                "send() returns when its partner receives, and both are still in send()",
                "Yes. Each waits for the other to go on, for ever. With small messages some backends hide it.",
            ),
            Option("A rank may only send to a higher rank", "Any rank can send to any other."),
            Option(
                "The message is lost because nobody was receiving when it was sent",
                "Messages are not lost: send() waits until they are taken. That is the trouble here.",
            ),
        ),
        "b",
    )
    stub = '''\
import torch
import torch.distributed as dist


def pass_on(tensor):
    """Send tensor to the next rank, (rank + 1) % world_size, and return what the rank before
    sent."""
    raise NotImplementedError
'''
    hints = (
        "What has to have started before a rank may wait for its own send?",
        "isend starts a send and returns at once, with a handle. The waiting can come later.",
        "Start with isend, then recv into a new tensor, then wait() on the handle.",
    )

    def cases(self, pick: random.Random, world: int) -> list[Case]:
        return [{"length": pick.randint(2, 6)}, {"length": 1 << 16, "what": "and 65,536 elements"}]

    def expected(self, case: Case, rank: int) -> Any:
        ranks = range(case["world"])
        world = case["world"]

        def each(which: Any) -> Any:
            return {"per rank": [self._tensor(case, which(r) % world)[:6].tolist() for r in ranks]}

        return {
            "value": each(lambda r: r - 1),
            "known": [
                [each(lambda r: r), "That is what the rank itself sent."],
                [each(lambda r: r + 1), "That came from the next rank; it should come from the one before."],
                [each(lambda r: 0), "Every rank has rank 0's tensor: that is a broadcast."],
            ],
        }

    def run(self, answer: SimpleNamespace, case: Case, rank: int) -> Any:
        from ddp_course.exercises.ranks import plain

        result = answer.pass_on(self._tensor(case, rank))
        return plain(result[:6]) if hasattr(result, "dim") and result.dim() == 1 else plain(result)

    def judge(self, case: Case, expected: Any, seen: list[Any], calls: list[list[Call]]) -> str | None:
        if wrong := super().judge(case, expected, seen, calls):
            return wrong
        if calls[0]:
            return f"the values are right, but you called {calls[0][0][0]}: all ranks got what only one has to get."
        return None

    def _tensor(self, case: Case, rank: int) -> Any:
        from ddp_course.exercises.ranks import randn

        return randn(case["seed"] + rank, case["length"])


class MismatchedLengths(Lab):
    """4 elements on one rank, 3 on the other, and a result."""

    name = "mismatched_lengths"
    lesson, section = "01", 3
    title = "4 elements against 3"
    minutes, difficulty = 5, 2
    tested = "equal and unequal lengths; the ranks that differ are named"
    options = "--nproc-per-node 2 --lab"
    broken = """\
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
values = torch.arange(1.0, 5.0 - rank)  # 1, 2, 3, 4 on rank 0, and 1, 2, 3 on rank 1
dist.all_reduce(values)
print(f"the sum: {values.tolist()}")
dist.destroy_process_group()
"""
    question = Question(
        "Rank 1 got no error, and went on with 4, 2, 6. The sums of its three places are 2, 4, 6. Why?",
        (
            Option(
                "gloo compares no lengths: each rank cuts its own tensor into pieces, and the pieces do not match",
                "Yes. Rank 1 added numbers of other places, and rank 0 still waited for bytes when rank 1 had left. "
                "Under NCCL the same program hangs, or worse.",
            ),
            Option(
                "An all-reduce may return the elements in any order",
                "Every element keeps its place: that is what makes gradients add up.",
            ),
            Option(
                "The shorter tensor is filled up with zeros",
                "Then its first three places would be right. Nothing is filled up.",
            ),
            Option(
                "float32 is too inexact for these sums",
                "Small whole numbers are exact in float32.",
            ),
        ),
        "a",
    )
    stub = '''\
import torch
import torch.distributed as dist


def checked_all_reduce(tensor):
    """tensor: 1-D. Replaces it by the sum over ranks, in place, and returns None, where all ranks
    have one length.

    Otherwise leaves it as it is and returns, on every rank, the list of the ranks whose length is
    not rank 0's.
    """
    raise NotImplementedError
'''
    hints = (
        "Before the tensors themselves, something else can be exchanged that has the same shape on every rank.",
        "Let every rank know all lengths: all_gather one number each, or all_gather_object.",
        "Every rank now has the same list of lengths, so all come to the same decision: all reduce, or none does.",
    )

    def cases(self, pick: random.Random, world: int) -> list[Case]:
        n = pick.randint(2, 6)
        odd = pick.randrange(1, world)
        lengths = [[n] * world, [n + (r == odd) for r in range(world)], [n + (r > 0) for r in range(world)]]
        return [{"lengths": one, "what": f"with {join(one)} elements"} for one in lengths]

    def expected(self, case: Case, rank: int) -> Any:
        lengths, world = case["lengths"], case["world"]
        each = [self._tensor(case, r) for r in range(world)]
        odd = [r for r in range(world) if lengths[r] != lengths[0]]
        own = {"per rank": [tensor.tolist() for tensor in each]}
        tensor = own if odd else sum(each).tolist()
        known = [
            [{"tensor": own}, "That is the rank's own tensor, and all have the same length: nothing was exchanged."],
            [{"returned": {"per rank": [[] for _ in each]}}, "Where all is well the function returns None."],
        ]
        if odd:
            missing = "No rank is named; some have another length than rank 0."
            only = {"per rank": [None if lengths[r] == lengths[0] else odd for r in range(world)]}
            flags = [[{"returned": True}, "Name the ranks, in a list."], [{"returned": None}, missing]]
            known = [*flags, [{"returned": only}, "Only the odd ranks know. Every rank has to."]]
        return {"value": {"tensor": tensor, "returned": odd or None}, "known": known, "odd": odd}

    def run(self, answer: SimpleNamespace, case: Case, rank: int) -> Any:
        from ddp_course.exercises.ranks import plain

        tensor = self._tensor(case, rank)
        returned = plain(answer.checked_all_reduce(tensor))
        return {"tensor": plain(tensor), "returned": returned}

    def judge(self, case: Case, expected: Any, seen: list[Any], calls: list[list[Call]]) -> str | None:
        changed = [
            rank
            for rank in expected["odd"] and range(case["world"])
            if compare({"per rank": expected["value"]["tensor"]["per rank"]}, [s["tensor"] for s in seen])
        ]
        if changed:
            return f"tensor has changed on {rank_list(changed)}, though the lengths differ. Look before you reduce."
        return super().judge(case, expected, seen, calls)

    def _tensor(self, case: Case, rank: int) -> Any:
        from ddp_course.exercises.ranks import randn

        return randn(case["seed"] + rank, case["lengths"][rank])
