# feedback: after 3 steps, 0.weight: expected
import torch
from torch.distributed.fsdp import fully_shard


def build(model, lr):
    fully_shard(model[0])
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    fully_shard(model)
    for p in model[2].parameters():
        optimizer.add_param_group({"params": [p]})
    optimizer.param_groups.pop(0)
    return optimizer
