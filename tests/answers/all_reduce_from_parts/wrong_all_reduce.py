# feedback: you called all_reduce
import torch
import torch.distributed as dist


def sum_over_ranks(tensor):
    result = tensor.clone()
    dist.all_reduce(result)
    return result
