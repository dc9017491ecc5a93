# feedback: Send one chunk in a step
import torch
import torch.distributed as dist


def ring_all_reduce(tensor):
    rank, world = dist.get_rank(), dist.get_world_size()
    passing = tensor.clone()
    for _ in range(world - 1):
        sending = dist.isend(passing.clone(), (rank + 1) % world)
        dist.recv(passing, (rank - 1) % world)
        sending.wait()
        tensor += passing
