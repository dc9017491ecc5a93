# feedback: they were sent 4 times for 4 micro-batches
import contextlib

import torch
import torch.nn.functional as F


def accumulate(model, micro_batches):
    for number, (inputs, targets) in enumerate(micro_batches, start=1):
        loss = F.mse_loss(model(inputs), targets)
        with contextlib.nullcontext() if number == len(micro_batches) else model.no_sync():
            loss.backward()
