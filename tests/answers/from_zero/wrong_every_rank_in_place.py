# feedback: wrote too. One writer is enough
import os

import torch
import torch.distributed as dist


def train(path, steps, take_step):
    state = {"step": 0, "weight": torch.zeros(3)}
    if os.path.exists(path):
        state = torch.load(path, weights_only=True)
    while state["step"] < steps:
        take_step(state)
        torch.save(state, path)
    return state
