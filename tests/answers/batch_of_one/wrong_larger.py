# feedback: where each should have
from torch.utils.data import DataLoader, DistributedSampler


def make_loader(data, batch_size):
    return DataLoader(data, batch_size + 1, sampler=DistributedSampler(data), drop_last=True)
