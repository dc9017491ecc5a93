# feedback: their gradients were not averaged
import torch
import torch.distributed as dist
import torch.nn.functional as F


def train_step(model, optimizer, inputs, targets):
    optimizer.zero_grad()
    loss = F.mse_loss(model.module(inputs), targets)
    loss.backward()
    optimizer.step()
    return loss
