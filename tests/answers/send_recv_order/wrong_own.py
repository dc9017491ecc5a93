# feedback: That is what the rank itself sent
import torch
import torch.distributed as dist


def pass_on(tensor):
    rank, world = dist.get_rank(), dist.get_world_size()
    received = torch.empty_like(tensor)
    sending = dist.isend(tensor, (rank + 1) % world)
    dist.recv(received, (rank - 1) % world)
    sending.wait()
    return tensor
