# feedback: Nothing was trained: the parameters are those of rank 0
import torch
import torch.distributed as dist
import torch.nn.functional as F


def start_alike(model):
    for parameter in model.parameters():
        dist.broadcast(parameter.data, src=0)


def step(model, inputs, targets, reduction, lr):
    F.mse_loss(model(inputs), targets, reduction="sum").backward()
    model.zero_grad()
