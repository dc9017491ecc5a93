"""DDP, ZeRO, tensor or pipeline: which one, from what is known before the first run.

A rule of thumb for dense transformers in mixed precision with Adam, 16 bytes a parameter. Standard library only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ddp_course.memory import GB, GIB, mixed_adam

STATE_SHARE = 0.7  # of a GPU for parameters, gradients and optimizer; the rest is for activations and buffers
TOKENS = 8192  # on each GPU in a step
FLOPS = 200e12  # that a GPU does in a second, half of an A100's or H100's data sheet, roughly
FAST = 100.0  # GB/s inside a node from which on tensor parallelism pays: NVLink has that, PCIe has not


@dataclass(frozen=True)
class Decision:
    """`choice` in a few words, `reason` in a sentence, and the `numbers` that decide: name → value with unit."""

    choice: str
    reason: str
    numbers: dict[str, str]

    def __str__(self) -> str:
        width = max(map(len, self.numbers))
        lines = [f"{name:<{width}}  {value}" for name, value in self.numbers.items()]
        return "\n".join([f"→ {self.choice}: {self.reason}", *lines])


def choose(
    parameters: float,
    gpu_gib: float,
    gpus: int,
    gpus_per_node: int = 8,
    inside_gb_s: float = 450.0,
    between_gb_s: float = 50.0,
) -> Decision:
    """How to train a model of `parameters` on `gpus` GPUs of `gpu_gib` GiB.

    `inside_gb_s` and `between_gb_s` are GB/s for each GPU, inside a node and between nodes. Raises ValueError
    where one of them is not positive.
    """
    if min(parameters, gpu_gib, gpus, gpus_per_node, inside_gb_s, between_gb_s) <= 0:
        raise ValueError("every number has to be positive")
    room = STATE_SHARE * gpu_gib * GIB
    stages = [mixed_adam(int(parameters), stage, gpus).total for stage in range(4)]
    link = inside_gb_s if gpus <= gpus_per_node else between_gb_s
    sharded = 3 * 2 * parameters * (gpus - 1) / gpus / (link * GB)
    compute = 6 * parameters * TOKENS / FLOPS
    numbers = {
        "room for the state on a GPU": f"{room / GB:.1f} GB",
        "state, whole": f"{stages[0] / GB:.1f} GB",
        "state under ZeRO-1, 2, 3": ", ".join(f"{stage / GB:.1f}" for stage in stages[1:]) + " GB",
        "a step's computing": f"{compute:.2f} s",
        "a step's messages under ZeRO-3": f"{sharded:.2f} s",
    }
    choice, reason = _rule(stages, room, gpus, min(gpus, gpus_per_node), inside_gb_s, sharded, compute)
    return Decision(choice, reason, numbers)


def _rule(
    stages: list[float], room: float, gpus: int, node: int, inside: float, sharded: float, compute: float
) -> tuple[str, str]:
    whole = stages[0]
    if whole <= room:
        if gpus == 1:
            return "one GPU", "the whole state fits, and there is nobody to share the work with."
        return "DDP", "the whole state fits on each GPU, and DDP sends the least."
    for stage in (1, 2):
        if stages[stage] <= room:
            what = ("the optimizer's state", "the optimizer's state and the gradients")[stage - 1]
            return f"ZeRO-{stage}", f"it fits once the GPUs share {what}, at the traffic of DDP."
    if stages[3] > room:
        return "more GPUs", f"even with everything shared it needs {math.ceil(whole / room)} GPUs or more."
    if sharded <= compute:
        return "ZeRO-3", "it fits with everything shared, and the messages hide under the computing."
    return _model_parallel(whole, room, gpus, node, inside)


def _model_parallel(whole: float, room: float, gpus: int, node: int, inside: float) -> tuple[str, str]:
    slow = "ZeRO-3 would fit, but its messages take longer than the computing"
    if inside < FAST:
        parts = math.ceil(whole / room)
        return f"pipeline of {parts}", f"{slow}; stages send least, and no link here is fast enough for tensors."
    ways = 2
    while ways < node and whole / ways > room:
        ways *= 2
    ways = min(ways, node)
    if whole / ways <= room:
        return f"tensor, {ways} ways", f"{slow}; {ways} GPUs of a node hold the model over their fast link."
    parts = math.ceil(whole / (ways * room))
    if ways * parts > gpus:
        return "more GPUs", f"{slow}, and {ways} × {parts} GPUs are not there."
    return f"tensor, {ways} ways, and pipeline of {parts}", f"{slow}; a node alone does not hold the model."
