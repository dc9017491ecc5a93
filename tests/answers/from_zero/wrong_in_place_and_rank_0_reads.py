# feedback: rank 0 returned, but rank 1 still waits
import os

import torch
import torch.distributed as dist


def train(path, steps, take_step):
    state = {"step": 0, "weight": torch.zeros(3)}
    if dist.get_rank() == 0 and os.path.exists(path):
        state = torch.load(path, weights_only=True)
    while state["step"] < steps:
        take_step(state)
        if dist.get_rank() == 0:
            torch.save(state, path)
    return state
