# feedback: The ranks started from different parameters
import torch
import torch.distributed as dist
import torch.nn.functional as F


def start_alike(model):
    torch.manual_seed(0)


def step(model, inputs, targets, reduction, lr):
    F.mse_loss(model(inputs), targets, reduction="sum").backward()
    count = torch.tensor(float(targets.numel()), dtype=torch.float64)
    dist.all_reduce(count)
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
        if reduction == "mean":
            parameter.grad /= count
        parameter.data -= lr * parameter.grad
        parameter.grad = None
