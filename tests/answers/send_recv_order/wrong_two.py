# feedback: 3 ranks
import torch
import torch.distributed as dist


def pass_on(tensor):
    rank, world = dist.get_rank(), dist.get_world_size()
    received = torch.empty_like(tensor)
    other = rank ^ 1
    if other < world:
        sending = dist.isend(tensor, other)
        dist.recv(received, other)
        sending.wait()
    return received
