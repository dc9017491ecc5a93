# right: everybody gets everything and leaves out what is not there
import torch
import torch.distributed as dist


def mean_gradient(gradient, parameter):
    everything = [None] * dist.get_world_size()
    dist.all_gather_object(everything, gradient)
    there = [one for one in everything if one is not None]
    return torch.stack(there).mean(0) if there else None
