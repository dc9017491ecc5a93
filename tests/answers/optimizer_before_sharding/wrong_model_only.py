# feedback: the layers are not sharded one by one
import torch
from torch.distributed.fsdp import fully_shard


def build(model, lr):
    fully_shard(model)
    return torch.optim.AdamW(model.parameters(), lr=lr)
