# feedback: it began at step 0 again: all that was done is lost.
import os

import torch
import torch.distributed as dist


def train(path, steps, take_step):
    state = torch.load(path) if os.path.exists(path) else {"step": 0, "weight": torch.zeros(3)}
    for _ in range(state["step"], steps):
        take_step(state)
    if dist.get_rank() == 0:
        torch.save(state, path + ".tmp")
        os.replace(path + ".tmp", path)
    return state
