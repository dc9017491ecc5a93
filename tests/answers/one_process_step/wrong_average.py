# feedback: the average over ranks is 1/2 of the one-process gradient
import torch
import torch.distributed as dist
import torch.nn.functional as F


def start_alike(model):
    for parameter in model.parameters():
        dist.broadcast(parameter.data, src=0)


def step(model, inputs, targets, reduction, lr):
    F.mse_loss(model(inputs), targets, reduction=reduction).backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad, op=dist.ReduceOp.AVG)
        parameter.data -= lr * parameter.grad
        parameter.grad = None
