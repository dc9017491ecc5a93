# feedback: Your gradients are the sum over ranks
import torch
import torch.distributed as dist
import torch.nn.functional as F


def start_alike(model):
    for parameter in model.parameters():
        dist.broadcast(parameter.data, src=0)


def step(model, inputs, targets, reduction, lr):
    F.mse_loss(model(inputs), targets, reduction=reduction).backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
        parameter.data -= lr * parameter.grad
        parameter.grad = None
