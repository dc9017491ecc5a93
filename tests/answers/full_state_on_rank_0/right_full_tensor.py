# right: full_tensor() of each parameter, one after the other
import os

import torch
import torch.distributed as dist


def save_for_inference(model, path):
    weights = {name: tensor.full_tensor() for name, tensor in model.state_dict().items()}
    if dist.get_rank() == 0:
        torch.save(weights, f"{path}.tmp")
        os.replace(f"{path}.tmp", path)
    dist.all_reduce(torch.zeros(1))
