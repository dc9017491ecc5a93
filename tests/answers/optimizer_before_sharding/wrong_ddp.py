# feedback: of 4 parameters are sharded
import torch
from torch.distributed._composable.replicate import replicate


def build(model, lr):
    replicate(model)
    return torch.optim.AdamW(model.parameters(), lr=lr)
