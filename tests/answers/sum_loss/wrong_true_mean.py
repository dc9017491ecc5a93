# feedback: That is the gradient of a mean loss
import torch
import torch.distributed as dist


def loss_to_average(outputs, targets):
    count = torch.tensor(float(len(outputs)))
    dist.all_reduce(count)
    return (outputs - targets).square().sum() * dist.get_world_size() / count
