# feedback: Only the odd ranks know
import torch
import torch.distributed as dist


def checked_all_reduce(tensor):
    lengths = [None] * dist.get_world_size()
    dist.all_gather_object(lengths, len(tensor))
    odd = [rank for rank, length in enumerate(lengths) if length != lengths[0]]
    if odd:
        return odd if dist.get_rank() in odd else None
    dist.all_reduce(tensor)
