# feedback: it began at step 0 again
import os

import torch
import torch.distributed as dist
import torch.nn.functional as F


def train(model, optimizer, path, steps, batch):
    rank, first = dist.get_rank(), 0
    if os.path.exists(path):
        content = torch.load(path, weights_only=True)
        model.module.load_state_dict(content["model"])
        optimizer.load_state_dict(content["optimizer"])
        torch.set_rng_state(content["random"][rank])
    for step in range(first, steps):
        inputs, targets = batch(step)
        optimizer.zero_grad()
        F.mse_loss(model(inputs), targets).backward()
        optimizer.step()
        states = [None] * dist.get_world_size()
        dist.all_gather_object(states, torch.get_rng_state())
        if rank == 0:
            content = {"model": model.module.state_dict(), "optimizer": optimizer.state_dict()}
            torch.save({**content, "step": step + 1, "random": states}, path)
