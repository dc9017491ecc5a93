# feedback: 3 ranks
import torch
import torch.distributed as dist


def ring_all_reduce(tensor):
    rank, world = dist.get_rank(), dist.get_world_size()
    half = len(tensor) // 2
    mine, other = (tensor[:half], tensor[half:]) if rank % 2 else (tensor[half:], tensor[:half])
    received = torch.empty_like(mine)
    right, left = (rank + 1) % world, (rank - 1) % world
    sending = dist.isend(other.clone(), right)
    dist.recv(received, left)
    sending.wait()
    mine += received
    sending = dist.isend(mine.clone(), right)
    dist.recv(other, left)
    sending.wait()
