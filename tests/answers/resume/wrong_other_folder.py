# feedback: save wrote in another folder first
import os
import shutil
import tempfile

import torch
import torch.distributed as dist


def save(path, model, optimizer, step):
    states = [None] * dist.get_world_size()
    dist.all_gather_object(states, torch.get_rng_state())
    if dist.get_rank() == 0:
        content = {"model": model.module.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
        partial = os.path.join(tempfile.mkdtemp(), "checkpoint.tmp")
        torch.save({**content, "random": states}, partial)
        shutil.move(partial, path)
    dist.barrier()


def load(path, model, optimizer):
    content = torch.load(path, weights_only=True)
    model.module.load_state_dict(content["model"])
    optimizer.load_state_dict(content["optimizer"])
    torch.set_rng_state(content["random"][dist.get_rank()])
    return content["step"]
