# feedback: the snapshot was written into the old file.
import os

import torch
import torch.distributed as dist


def train(path, steps, take_step):
    state = torch.load(path) if os.path.exists(path) else {"step": 0, "weight": torch.zeros(3)}
    while state["step"] < steps:
        take_step(state)
        if dist.get_rank() == 0:
            torch.save(state, path)
    return state
