# feedback: expected
import torch
import torch.distributed as dist


def save_for_inference(model, path):
    weights = {name: torch.zeros(tensor.shape, dtype=tensor.dtype) for name, tensor in model.state_dict().items()}
    if dist.get_rank() == 0:
        torch.save(weights, path)
    dist.barrier()
