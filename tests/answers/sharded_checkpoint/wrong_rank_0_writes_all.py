# feedback: wrote nothing: the whole state went through one rank.
import os

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict, set_state_dict

FULL = StateDictOptions(full_state_dict=True, cpu_offload=True)


def save(folder, model, optimizer, step):
    weights, averages = get_state_dict(model, optimizer, options=FULL)
    if dist.get_rank() == 0:
        path = os.path.join(folder, f"{step:06}.pt")
        with open(f"{path}.tmp", "wb") as file:
            torch.save([weights, averages, step], file)
        os.replace(f"{path}.tmp", path)
    dist.barrier()


def load(folder, model, optimizer):
    newest = max(name for name in os.listdir(folder) if name.endswith(".pt"))
    weights, averages, step = torch.load(os.path.join(folder, newest), weights_only=True)
    set_state_dict(model, optimizer, model_state_dict=weights, optim_state_dict=averages, options=FULL)
    return step
