# feedback: load raises
import os

import torch
import torch.distributed as dist


def save(folder, model, optimizer, step):
    path = os.path.join(folder, f"{step:06}-{dist.get_rank()}")
    shards = [p.to_local() for p in model.parameters()]
    with open(path, "wb") as file:
        torch.save(shards, file)
    dist.barrier()


def load(folder, model, optimizer):
    newest = max(name for name in os.listdir(folder) if name.endswith(f"-{dist.get_rank()}"))
    for p, shard in zip(model.parameters(), torch.load(os.path.join(folder, newest)), strict=True):
        p.to_local().detach().copy_(shard)
    return int(newest[:6])
