# feedback: batches on rank 0: its share makes
from torch.utils.data import DataLoader, DistributedSampler


def make_loader(data, batch_size):
    mine = list(DistributedSampler(data))
    return DataLoader(data, batch_size, sampler=mine[: len(mine) - batch_size], drop_last=True)
