# feedback: hang: rank 0 waits in all_gather
import torch
import torch.distributed as dist
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict


def save_for_inference(model, path):
    if dist.get_rank() == 0:
        weights = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
        torch.save(weights, path)
    dist.barrier()
