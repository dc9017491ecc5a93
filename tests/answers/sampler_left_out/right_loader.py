# right: one sampler, told the epoch
from torch.utils.data import DataLoader, DistributedSampler


def epochs_of(data, batch_size, epochs):
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size, sampler=sampler)
    result = []
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        result.append([batch.tolist() for batch in loader])
    return result
