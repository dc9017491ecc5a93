# feedback: Send one chunk in a step
import torch
import torch.distributed as dist


def ring_all_reduce(tensor):
    rank, world = dist.get_rank(), dist.get_world_size()
    received = torch.empty_like(tensor)
    if rank == 0:
        for other in range(1, world):
            dist.recv(received, other)
            tensor += received
        for other in range(1, world):
            dist.send(tensor, other)
    else:
        dist.send(tensor, 0)
        dist.recv(tensor, 0)
