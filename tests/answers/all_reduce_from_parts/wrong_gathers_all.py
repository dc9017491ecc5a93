# feedback: but they took 1 collectives: all_gather
import torch
import torch.distributed as dist


def sum_over_ranks(tensor):
    everything = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(everything, tensor)
    return sum(everything)
