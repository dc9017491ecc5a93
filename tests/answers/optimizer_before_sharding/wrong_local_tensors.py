# feedback: The weights have not changed: whose tensors has the optimizer?
import torch
from torch.distributed.fsdp import fully_shard


def build(model, lr):
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    return torch.optim.AdamW([p.to_local().detach().clone() for p in model.parameters()], lr=lr)
