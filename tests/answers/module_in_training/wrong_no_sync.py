# feedback: their gradients were not averaged
import torch
import torch.distributed as dist
import torch.nn.functional as F


def train_step(model, optimizer, inputs, targets):
    optimizer.zero_grad()
    with model.no_sync():
        loss = F.mse_loss(model(inputs), targets)
        loss.backward()
    optimizer.step()
    return loss
