# feedback: The padding is still on it
import torch
import torch.distributed as dist


def sum_over_ranks(tensor):
    world = dist.get_world_size()
    piece = -(-len(tensor) // world)
    padded = tensor.new_zeros(world * piece)
    padded[: len(tensor)] = tensor
    mine = tensor.new_empty(piece)
    dist.reduce_scatter_single(mine, padded)
    dist.all_gather_single(padded, mine)
    return padded
