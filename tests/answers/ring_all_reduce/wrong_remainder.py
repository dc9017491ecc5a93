# feedback: elements were left out
import torch
import torch.distributed as dist


def ring_all_reduce(tensor):
    rank, world = dist.get_rank(), dist.get_world_size()
    size = len(tensor) // world
    chunks = [tensor[i * size : (i + 1) * size] for i in range(world)]
    received = torch.empty_like(chunks[0])
    for step in range(2 * (world - 1)):
        out, into = chunks[(rank - step) % world], chunks[(rank - step - 1) % world]
        sending = dist.isend(out.clone(), (rank + 1) % world)
        dist.recv(received, (rank - 1) % world)
        sending.wait()
        into.copy_(received + into if step < world - 1 else received)
