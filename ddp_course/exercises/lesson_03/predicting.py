"""Lesson 3, section 4: bytes on a rank, predicted, against those that are really there."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

from ddp_course.exercises.base import Call, Case, Exercise
from ddp_course.exercises.compare import show

EVEN = [[8, 8], [8]] * 4
PARTS = ("parameters", "gradients", "optimizer")


class BytesPerRank(Exercise):
    """The bytes of DDP and of ZeRO's stages, held against the live tensors of real runs."""

    name = "bytes_per_rank"
    lesson, section = "03", 4
    title = "predict the bytes on a rank"
    minutes, difficulty = 10, 2
    worlds = (1, 2, 4)
    oracle_needs_all_ranks = True
    tested = "what DDP, ZeRO-1, ZeRO-2 and FSDP2 really keep, fp32 and mixed, to the byte"
    stub = '''\
import math


def bytes_per_rank(shapes, stage, ranks, mixed):
    """shapes: those of the parameters, such as [(8, 8), (8,)]. stage: 0 for DDP, else ZeRO's.

    Returns the bytes of parameters, gradients and optimizer on rank 0, three integers. AdamW, step
    counters left out. mixed: bf16 parameters and gradients, and fp32 for all that AdamW keeps,
    a copy of the parameters included; otherwise everything is fp32. In stages 1 and 2 the shapes
    given here share out evenly. Stage 3 cuts each tensor by rows, its dimension 0: every rank keeps
    as many, the last ones padded.
    """
    raise NotImplementedError
'''
    hints = (
        "Three questions for each stage: are the parameters shared out, the gradients, the optimizer? Stage 1 shares "
        "one of the three, each next stage one more.",
        "Bytes for each number: 4, 4 and 8 in fp32; 2, 2 and 12 in mixed precision. For what is shared out evenly, "
        "divide by the ranks.",
        "In stage 3, 10 rows over 4 ranks are 3 rows on each, two of them padding. Count a tensor's numbers on rank 0 "
        "so: rows on a rank times the numbers in a row, which is 1 where a shape has one dimension.",
    )

    def cases(self, pick: random.Random, world: int) -> list[Case]:
        even = [{"shapes": EVEN, "stage": stage, "mixed": pick.random() < 0.5} for stage in range(4)]
        rows, columns = pick.choice([5, 7, 9]), pick.choice([3, 6])
        odd = [[rows, columns], [rows], [columns, rows], [columns]]
        cases = [*even, {"shapes": odd, "stage": 3, "mixed": not even[3]["mixed"]}]
        for case in cases:
            precision = "mixed precision" if case["mixed"] else "fp32"
            layers = "" if case["shapes"] == EVEN else f", layers of {columns} → {rows} → {columns}"
            scheme = f"ZeRO stage {case['stage']}" if case["stage"] else "DDP"
            case["what"] = f"and {scheme}, {precision}{layers}"
        return cases

    def expected(self, case: Case, rank: int) -> Any:
        import torch
        from torch import nn

        from ddp_course.stages import build, live_bytes

        dtype = torch.bfloat16 if case["mixed"] else torch.float32
        sizes = [shape for shape in case["shapes"] if len(shape) == 2]
        net = nn.Sequential(*[nn.Linear(columns, rows) for rows, columns in sizes]).to(dtype)
        model, optimizer = build(net, case["stage"])
        model(torch.ones(1, sizes[0][1], dtype=dtype)).sum().backward()
        optimizer.step()
        live = live_bytes(net, optimizer)
        right = {name: int(getattr(live, name)) for name in PARTS}
        return {"value": right, "known": _known(case, right)}

    def run(self, answer: SimpleNamespace, case: Case, rank: int) -> Any:
        from ddp_course.exercises.ranks import plain

        shapes = [tuple(shape) for shape in case["shapes"]]
        result = plain(answer.bytes_per_rank(shapes, case["stage"], case["world"], case["mixed"]))
        if not isinstance(result, list) or len(result) != 3:
            return {"not three": str(result)}
        return dict(zip(PARTS, result, strict=True))

    def judge(self, case: Case, expected: Any, seen: list[Any], calls: list[list[Call]]) -> str | None:
        if "not three" in seen[0]:
            return f"return three integers: parameters, gradients, optimizer. Yours: {seen[0]['not three']}."
        for name, there in expected["value"].items():
            if (predicted := seen[0][name]) != there:
                shown = f"{predicted:,}" if isinstance(predicted, (int, float)) else show(predicted)
                whys = [why for wrong, why in expected["known"] if wrong.get(name) == predicted]
                return "\n".join([f"{name}: {there:,} bytes are there, you predicted {shown}", *whys[:1]])
            if not isinstance(predicted, int):
                return f"{name}: {predicted} is right, but not an integer. Bytes are whole: use // or math.ceil."
        return None


def _known(case: Case, right: dict[str, int]) -> list[Any]:
    """What the usual mistakes give."""
    ranks, stage, mixed = case["world"], case["stage"], case["mixed"]
    count = sum(shape[0] * (shape[1] if len(shape) == 2 else 1) for shape in case["shapes"])
    each = dict(zip(PARTS, (2, 2, 12) if mixed else (4, 4, 8), strict=True))
    known = []
    for number, name in enumerate(reversed(PARTS), 1):  # the first stage that shares it out
        whole, shared = each[name] * count, each[name] * count / ranks
        if stage >= number:
            known.append([{name: whole}, f"Stage {stage} shares them out: that is all of them."])
            rounded = (shared, each[name] * (count // ranks))
            known += [
                [{name: size}, "Rows are cut whole: all ranks keep as many, some as padding."] for size in rounded
            ]
        else:
            what = f"Stage {stage}" if stage else "DDP"
            known.append([{name: shared}, f"{what} keeps all of them on every rank."])
    if mixed:
        known.append([{"optimizer": right["optimizer"] * 8 // 12}, "The fp32 copy of the parameters is still missing."])
        known.append([{"parameters": right["parameters"] * 2}, "In mixed precision they are bf16: 2 bytes each."])
        known.append([{"gradients": right["gradients"] * 2}, "In mixed precision they are bf16: 2 bytes each."])
    else:
        known.append([{"optimizer": right["optimizer"] // 2}, "AdamW keeps two averages of each number."])
    return known
