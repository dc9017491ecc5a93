# feedback: but you called all_gather
import torch
import torch.distributed as dist


def pass_on(tensor):
    rank, world = dist.get_rank(), dist.get_world_size()
    received = torch.empty_like(tensor)
    everything = [torch.empty_like(tensor) for _ in range(world)]
    dist.all_gather(everything, tensor)
    return everything[rank - 1]
