# feedback: returned 1 epochs
from torch.utils.data import DataLoader, DistributedSampler


def epochs_of(data, batch_size, epochs):
    sampler = DistributedSampler(data)
    return [[batch.tolist() for batch in DataLoader(data, batch_size, sampler=sampler)]]
