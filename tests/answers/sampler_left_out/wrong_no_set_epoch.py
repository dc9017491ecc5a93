# feedback: every epoch has the same order
from torch.utils.data import DataLoader, DistributedSampler


def epochs_of(data, batch_size, epochs):
    loader = DataLoader(data, batch_size, sampler=DistributedSampler(data))
    return [[batch.tolist() for batch in loader] for _ in range(epochs)]
