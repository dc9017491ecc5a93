# feedback: Each rank trains alone: nothing is sharded.
import torch


def build(model, lr):
    return torch.optim.AdamW(model.parameters(), lr=lr)
