# right: gather the lengths as numbers
import torch
import torch.distributed as dist


def checked_all_reduce(tensor):
    lengths = [torch.zeros(1, dtype=torch.int64) for _ in range(dist.get_world_size())]
    dist.all_gather(lengths, torch.tensor([len(tensor)]))
    odd = [rank for rank, length in enumerate(lengths) if length != lengths[0]]
    if odd:
        return odd
    dist.all_reduce(tensor)
