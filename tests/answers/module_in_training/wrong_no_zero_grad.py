# feedback: after 3 steps
import torch
import torch.distributed as dist
import torch.nn.functional as F


def train_step(model, optimizer, inputs, targets):
    loss = F.mse_loss(model(inputs), targets)
    loss.backward()
    optimizer.step()
    return loss
