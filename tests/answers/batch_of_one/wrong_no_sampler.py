# feedback: batches on rank 0: its share makes
from torch.utils.data import DataLoader, DistributedSampler


def make_loader(data, batch_size):
    return DataLoader(data, batch_size, shuffle=True, drop_last=True)
