# feedback: step-9 comes after step-10
import os
import shutil

import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict


def save(folder, model, optimizer, step):
    weights, averages = get_state_dict(model, optimizer)
    final = os.path.join(folder, f"step-{step}")
    if dist.get_rank() == 0:
        shutil.rmtree(f"{final}.tmp", ignore_errors=True)
    dist.barrier()
    dcp.save({"model": weights, "optimizer": averages, "step": step}, checkpoint_id=f"{final}.tmp")
    if dist.get_rank() == 0:
        os.replace(f"{final}.tmp", final)
    dist.barrier()


def load(folder, model, optimizer):
    newest = max(name for name in os.listdir(folder) if name.startswith("step-") and not name.endswith(".tmp"))
    weights, averages = get_state_dict(model, optimizer)
    state = {"model": weights, "optimizer": averages, "step": 0}
    dcp.load(state, checkpoint_id=os.path.join(folder, newest))
    set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
    return state["step"]
