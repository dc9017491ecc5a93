# feedback: it began at step 0 again
import os

import torch
import torch.distributed as dist


def train(path, steps, take_step):
    state = {"step": 0, "weight": torch.zeros(3)}
    while state["step"] < steps:
        take_step(state)
        if dist.get_rank() == 0:
            torch.save(state, path)
    return state
