# right: only what has parameters is sharded; groups given to AdamW
import torch
from torch.distributed.fsdp import fully_shard


def build(model, lr):
    layers = [layer for layer in model if list(layer.parameters())]
    for layer in layers:
        fully_shard(layer)
    model = fully_shard(model)
    groups = [{"params": list(layer.parameters())} for layer in layers]
    return torch.optim.AdamW(groups, lr=lr)
