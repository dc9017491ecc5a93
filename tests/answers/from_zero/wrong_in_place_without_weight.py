# feedback: the state at the end: weight: expected
import os

import torch
import torch.distributed as dist


def train(path, steps, take_step):
    state = {"step": 0, "weight": torch.zeros(3)}
    if os.path.exists(path):
        state["step"] = torch.load(path, weights_only=True)["step"]
    while state["step"] < steps:
        take_step(state)
        if dist.get_rank() == 0:
            torch.save(state, path)
    return state
