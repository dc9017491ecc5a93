# feedback: Name the ranks, in a list
import torch
import torch.distributed as dist


def checked_all_reduce(tensor):
    lengths = [None] * dist.get_world_size()
    dist.all_gather_object(lengths, len(tensor))
    odd = [rank for rank, length in enumerate(lengths) if length != lengths[0]]
    if odd:
        return True
    dist.all_reduce(tensor)
