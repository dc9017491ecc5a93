# feedback: rank 0 waits in all_reduce
import torch
import torch.distributed as dist
import torch.nn.functional as F


def train(model, optimizer, batches):
    for inputs, targets in batches:
        optimizer.zero_grad()
        F.mse_loss(model(inputs), targets).backward()
        optimizer.step()


def train_common(model, optimizer, batches):
    train(model, optimizer, batches)


def train_all(model, optimizer, batches):
    with model.join():
        train(model, optimizer, batches)
