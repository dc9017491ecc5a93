# feedback: took it away before the new one had its name
import os

import torch
import torch.distributed as dist


def save(path, model, optimizer, step):
    states = [None] * dist.get_world_size()
    dist.all_gather_object(states, torch.get_rng_state())
    if dist.get_rank() == 0:
        content = {"model": model.module.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
        torch.save({**content, "random": states}, path + ".tmp")
        if os.path.exists(path):
            os.remove(path)
        os.rename(path + ".tmp", path)
    dist.barrier()


def load(path, model, optimizer):
    content = torch.load(path, weights_only=True)
    model.module.load_state_dict(content["model"])
    optimizer.load_state_dict(content["optimizer"])
    torch.set_rng_state(content["random"][dist.get_rank()])
    return content["step"]
