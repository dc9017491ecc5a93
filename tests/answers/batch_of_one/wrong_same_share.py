# feedback: samples came twice: the ranks' shares overlap.
import torch.distributed as dist
from torch.utils.data import DataLoader, DistributedSampler


def make_loader(data, batch_size):
    sampler = DistributedSampler(data, dist.get_world_size(), rank=0)
    return DataLoader(data, batch_size, sampler=sampler, drop_last=True)
