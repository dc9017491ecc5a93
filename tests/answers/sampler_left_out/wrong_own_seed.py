# feedback: some samples come twice
from torch.utils.data import DataLoader, DistributedSampler


def epochs_of(data, batch_size, epochs):
    import torch.distributed as dist

    sampler = DistributedSampler(data, seed=dist.get_rank())
    loader = DataLoader(data, batch_size, sampler=sampler)
    result = []
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        result.append([batch.tolist() for batch in loader])
    return result
