# feedback: the batch size is
from torch.utils.data import DataLoader, DistributedSampler


def epochs_of(data, batch_size, epochs):
    sampler = DistributedSampler(data)
    loader = DataLoader(data, 4, sampler=sampler)
    result = []
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        result.append([batch.tolist() for batch in loader])
    return result
