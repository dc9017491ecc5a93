# feedback: The second round hands the finished chunks on
import torch
import torch.distributed as dist


def ring_all_reduce(tensor):
    rank, world = dist.get_rank(), dist.get_world_size()
    chunks = tensor.tensor_split(world)
    for step in range(world - 1):
        into = chunks[(rank - step - 1) % world]
        received = torch.empty_like(into)
        sending = dist.isend(chunks[(rank - step) % world].clone(), (rank + 1) % world)
        dist.recv(received, (rank - 1) % world)
        sending.wait()
        into += received
