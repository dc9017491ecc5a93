# feedback: Every micro-batch was clipped; the norm that counts is the whole batch's.
import contextlib

import torch
import torch.nn.functional as F


def train_step(model, optimizer, micro_batches, max_norm):
    optimizer.zero_grad()
    for number, (inputs, targets) in enumerate(micro_batches, start=1):
        last = number == len(micro_batches)
        with contextlib.nullcontext() if last else model.no_sync():
            loss = F.mse_loss(model(inputs), targets)
            (loss / len(micro_batches)).backward()
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    return norm
