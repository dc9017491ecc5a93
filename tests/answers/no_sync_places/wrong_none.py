# feedback: they were sent 4 times
import contextlib

import torch
import torch.nn.functional as F


def accumulate(model, micro_batches):
    for number, (inputs, targets) in enumerate(micro_batches, start=1):
        with contextlib.nullcontext():
            F.mse_loss(model(inputs), targets).backward()
