# feedback: it is not shuffled
from torch.utils.data import DataLoader, DistributedSampler


def epochs_of(data, batch_size, epochs):
    loader = DataLoader(data, batch_size, sampler=DistributedSampler(data, shuffle=False))
    order = [batch.tolist() for batch in loader]
    return [order if epoch % 2 == 0 else order[::-1] for epoch in range(epochs)]
