# feedback: and 1
import torch
import torch.distributed as dist


def sum_over_ranks(tensor):
    world = dist.get_world_size()
    mine = tensor.new_empty(len(tensor) // world)
    padded = tensor.clone()
    dist.reduce_scatter_single(mine, padded)
    dist.all_gather_single(padded, mine)
    return padded
