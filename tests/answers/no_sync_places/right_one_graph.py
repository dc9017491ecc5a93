# right: one backward over the sum of the losses
import torch.nn.functional as F


def accumulate(model, micro_batches):
    with model.no_sync():
        for inputs, targets in micro_batches[:-1]:
            F.mse_loss(model(inputs), targets).backward()
    inputs, targets = micro_batches[-1]
    F.mse_loss(model(inputs), targets).backward()
