# right: the last micro-batch on its own
import torch
import torch.nn.functional as F


def train_step(model, optimizer, micro_batches, max_norm):
    *first, last = micro_batches
    optimizer.zero_grad()
    with model.no_sync():
        for inputs, targets in first:
            F.mse_loss(model(inputs), targets).backward()
    inputs, targets = last
    F.mse_loss(model(inputs), targets).backward()
    for parameter in model.parameters():
        parameter.grad /= len(micro_batches)
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    return norm.item()
