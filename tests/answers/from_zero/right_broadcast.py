# right: rank 0 reads and tells the others
import os

import torch
import torch.distributed as dist


def train(path, steps, take_step):
    found = [{"step": 0, "weight": torch.zeros(3)}]
    if dist.get_rank() == 0 and os.path.exists(path):
        found = [torch.load(path, weights_only=True)]
    dist.broadcast_object_list(found)
    state = found[0]
    for _ in range(state["step"], steps):
        take_step(state)
        if dist.get_rank() == 0:
            with open(path + ".new", "wb") as file:
                torch.save(state, file)
            os.rename(path + ".new", path)
    return state
