# feedback: Each rank has its own sum
import contextlib

import torch
import torch.nn.functional as F


def accumulate(model, micro_batches):
    for number, (inputs, targets) in enumerate(micro_batches, start=1):
        with model.no_sync():
            F.mse_loss(model(inputs), targets).backward()
