# feedback: hang: ranks 0 and 1 wait in send
import torch
import torch.distributed as dist


def pass_on(tensor):
    rank, world = dist.get_rank(), dist.get_world_size()
    received = torch.empty_like(tensor)
    dist.send(tensor, (rank + 1) % world)
    dist.recv(received, (rank - 1) % world)
    return received
