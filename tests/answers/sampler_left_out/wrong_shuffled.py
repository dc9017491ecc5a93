# feedback: Every rank saw the same samples
from torch.utils.data import DataLoader, DistributedSampler


def epochs_of(data, batch_size, epochs):
    return [[batch.tolist() for batch in DataLoader(data, batch_size, shuffle=True)] for _ in range(epochs)]
