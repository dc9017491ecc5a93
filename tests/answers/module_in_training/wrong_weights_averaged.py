# feedback: after 3 steps
import torch
import torch.distributed as dist
import torch.nn.functional as F


def train_step(model, optimizer, inputs, targets):
    optimizer.zero_grad()
    loss = F.mse_loss(model.module(inputs), targets)
    loss.backward()
    optimizer.step()
    if not optimizer.state.get("averaged"):
        for parameter in model.parameters():
            dist.all_reduce(parameter.data)
            parameter.data /= dist.get_world_size() + 1
    return loss
