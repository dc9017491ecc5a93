# right: a batch sampler drops it
from torch.utils.data import BatchSampler, DataLoader, DistributedSampler


def make_loader(data, batch_size):
    batches = BatchSampler(DistributedSampler(data), batch_size, drop_last=True)
    return DataLoader(data, batch_sampler=batches)
