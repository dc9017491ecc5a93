# right: counts gathered as objects; Join with the model
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.distributed.algorithms.join import Join


def train(model, optimizer, batches):
    for inputs, targets in batches:
        optimizer.zero_grad()
        F.mse_loss(model(inputs), targets).backward()
        optimizer.step()


def train_common(model, optimizer, batches):
    counts = [None] * dist.get_world_size()
    dist.all_gather_object(counts, len(batches))
    train(model, optimizer, batches[: min(counts)])


def train_all(model, optimizer, batches):
    with Join([model]):
        train(model, optimizer, batches)
