# right: gather the shapes as objects
import torch
import torch.distributed as dist


def checked_all_reduce(tensor):
    shapes = [None] * dist.get_world_size()
    dist.all_gather_object(shapes, tensor.shape)
    odd = [rank for rank in range(len(shapes)) if shapes[rank] != shapes[0]]
    if not odd:
        dist.all_reduce(tensor)
    return odd or None
