# right: one shuffle for all ranks, sliced
from torch.utils.data import DataLoader, DistributedSampler


def epochs_of(data, batch_size, epochs):
    import random

    import torch.distributed as dist

    result = []
    for epoch in range(epochs):
        order = list(data)
        random.Random(epoch).shuffle(order)
        mine = order[dist.get_rank() :: dist.get_world_size()]
        result.append([mine[i : i + batch_size] for i in range(0, len(mine), batch_size)])
    return result
