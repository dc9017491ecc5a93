# right: one all-reduce of sum and count together
import torch
import torch.distributed as dist


def average_gradient(grad, tokens_here):
    packed = torch.cat([(grad * tokens_here).flatten(), grad.new_tensor([tokens_here])])
    dist.all_reduce(packed)
    return (packed[:-1] / packed[-1]).view_as(grad)
