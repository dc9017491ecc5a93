# feedback: 1 left out
import os

import torch
import torch.distributed as dist


def train(path, steps, take_step):
    state = {"step": 0, "weight": torch.zeros(3)}
    if os.path.exists(path):
        state = torch.load(path)
        state["step"] += 1
    while state["step"] < steps:
        take_step(state)
        if dist.get_rank() == 0:
            torch.save(state, path + ".tmp")
            os.replace(path + ".tmp", path)
    return state
