# right: rank 0 sends first, all others receive first
import torch
import torch.distributed as dist


def pass_on(tensor):
    rank, world = dist.get_rank(), dist.get_world_size()
    received = torch.empty_like(tensor)
    if rank == 0:
        dist.send(tensor, 1 % world)
        dist.recv(received, world - 1)
    else:
        dist.recv(received, rank - 1)
        dist.send(tensor, (rank + 1) % world)
    return received
