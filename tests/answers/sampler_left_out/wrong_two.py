# feedback: 3 ranks
from torch.utils.data import DataLoader, DistributedSampler


def epochs_of(data, batch_size, epochs):
    import torch.distributed as dist

    result = []
    for epoch in range(epochs):
        sampler = DistributedSampler(data, 2, dist.get_rank() % 2, seed=epoch)
        result.append([batch.tolist() for batch in DataLoader(data, batch_size, sampler=sampler)])
    return result
