# feedback: that is a broadcast
import torch
import torch.distributed as dist


def pass_on(tensor):
    rank, world = dist.get_rank(), dist.get_world_size()
    received = torch.empty_like(tensor)
    received.copy_(tensor)
    dist.broadcast(received, 0)
    return received
