# feedback: the file is there, but a plain model cannot load it
import torch
import torch.distributed as dist


def save_for_inference(model, path):
    if dist.get_rank() == 0:
        torch.save({name: tensor.to_local() for name, tensor in model.state_dict().items()}, path)
    dist.barrier()
