# feedback: rank 1 wrote too
import os

import torch
import torch.distributed as dist


def save_for_inference(model, path):
    weights = {name: tensor.full_tensor() for name, tensor in model.state_dict().items()}
    torch.save(weights, f"{path}.{dist.get_rank()}")
    os.replace(f"{path}.{dist.get_rank()}", path)
    dist.barrier()
