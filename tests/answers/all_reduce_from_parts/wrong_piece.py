# feedback: The pieces are to be gathered
import torch
import torch.distributed as dist


def sum_over_ranks(tensor):
    world = dist.get_world_size()
    piece = -(-len(tensor) // world)
    padded = tensor.new_zeros(world * piece)
    padded[: len(tensor)] = tensor
    mine = tensor.new_empty(piece)
    dist.reduce_scatter_single(mine, padded)
    return mine
