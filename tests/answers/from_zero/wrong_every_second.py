# feedback: made twice
import os

import torch
import torch.distributed as dist


def train(path, steps, take_step):
    state = torch.load(path) if os.path.exists(path) else {"step": 0, "weight": torch.zeros(3)}
    for step in range(state["step"], steps):
        take_step(state)
        if dist.get_rank() == 0 and step == 1:
            torch.save(state, path + ".tmp")
            os.replace(path + ".tmp", path)
    return state
