# right: the loader drops what is left
from torch.utils.data import DataLoader, DistributedSampler


def make_loader(data, batch_size):
    return DataLoader(data, batch_size, sampler=DistributedSampler(data), drop_last=True)
