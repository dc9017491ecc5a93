# feedback: The weights have not changed: whose tensors has the optimizer?
import torch
from torch.distributed.fsdp import fully_shard


def build(model, lr):
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    return optimizer
