# feedback: return a DataLoader; yours is a list.
from torch.utils.data import DataLoader, DistributedSampler


def make_loader(data, batch_size):
    return list(DataLoader(data, batch_size, sampler=DistributedSampler(data), drop_last=True))
