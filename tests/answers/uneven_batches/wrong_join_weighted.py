# feedback: train_all, weight: expected
import torch
import torch.distributed as dist
import torch.nn.functional as F


def train(model, optimizer, batches):
    for inputs, targets in batches:
        optimizer.zero_grad()
        F.mse_loss(model(inputs), targets).backward()
        optimizer.step()


def train_common(model, optimizer, batches):
    count = torch.tensor(len(batches))
    dist.all_reduce(count, dist.ReduceOp.MIN)
    train(model, optimizer, batches[: count.item()])


def train_all(model, optimizer, batches):
    with model.join(divide_by_initial_world_size=False):
        train(model, optimizer, batches)
