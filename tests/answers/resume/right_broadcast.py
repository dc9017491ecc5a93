# right: rank 0 writes, reads and broadcasts
import os

import torch
import torch.distributed as dist


def save(path, model, optimizer, step):
    own = torch.get_rng_state()
    states = [torch.empty_like(own) for _ in range(dist.get_world_size())]
    dist.all_gather(states, own)
    if dist.get_rank() == 0:
        with open(f"{path}.new", "wb") as file:
            torch.save([model.module.state_dict(), optimizer.state_dict(), step, states], file)
            file.flush()
            os.fsync(file.fileno())
        os.rename(f"{path}.new", path)
    dist.broadcast(torch.zeros(1), src=0)


def load(path, model, optimizer):
    content = [torch.load(path)] if dist.get_rank() == 0 else [None]
    dist.broadcast_object_list(content)
    weights, moments, step, states = content[0]
    model.module.load_state_dict(weights)
    optimizer.load_state_dict(moments)
    torch.set_rng_state(states[dist.get_rank()])
    return step
