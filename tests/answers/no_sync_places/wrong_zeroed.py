# feedback: Only the last micro-batch is in it.
import contextlib

import torch
import torch.nn.functional as F


def accumulate(model, micro_batches):
    for number, (inputs, targets) in enumerate(micro_batches, start=1):
        with contextlib.nullcontext() if number == len(micro_batches) else model.no_sync():
            model.zero_grad()
            F.mse_loss(model(inputs), targets).backward()
