# feedback: wrote too. One writer is enough
import os

import torch
import torch.distributed as dist


def train(path, steps, take_step):
    state = torch.load(path) if os.path.exists(path) else {"step": 0, "weight": torch.zeros(3)}
    while state["step"] < steps:
        take_step(state)
        mine = f"{path}.{dist.get_rank()}"
        torch.save(state, mine)
        os.replace(mine, path)
    return state
