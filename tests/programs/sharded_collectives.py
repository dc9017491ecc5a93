"""Counts the collectives of a sharded step, and compares their bytes with DDP's; reports both."""

import warnings

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor.debug import CommDebugMode

from ddp_course import report
from ddp_course.small_gpt import GPT, loss_sum
from ddp_course.traffic import Collectives, sent

warnings.filterwarnings("ignore", "FSDP2-wrapped module")
dist.init_process_group("gloo")
x = torch.ones(2, 8, requires_grad=True)
counts = {}
for groups in (5, 1):
    for reshard in (True, False):
        blocks = [nn.Sequential(nn.Linear(8, 8), nn.Tanh()) for _ in range(4)]
        model = nn.Sequential(*blocks, nn.Linear(8, 1))
        for group in [*blocks, model] if groups == 5 else [model]:
            fully_shard(group, reshard_after_forward=reshard)
        with CommDebugMode() as comm:
            model(x).sum().backward()
        count = {op.__name__: number for op, number in comm.get_comm_counts().items()}
        counts[f"{groups} {reshard}"] = [count["_allgather_base_"], count["_reduce_scatter_base_"]]

tokens = torch.randint(256, (2, 64))
ddp = sent([("all_reduce", 4 * sum(p.numel() for p in GPT().parameters()))], 2)
half = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
volume, gathered = {}, 0.0
for name, options in {"resharded": {"reshard_after_forward": True}, "default": {}, "bf16": {"mp_policy": half}}.items():
    model = GPT()
    for group in (*model.blocks, model):
        fully_shard(group, **options)
    with Collectives() as collectives:
        loss_sum(model, tokens, tokens).backward()
    volume[name] = sent(collectives.log, 2) / ddp
    if name == "default":
        gathered = sent([row for row in collectives.log if row[0] == "all_gather"], 2) / ddp
report(counts=counts, volume=volume, gathered=gathered, held=str(model.head.weight.dtype))
del model, group
dist.destroy_process_group()
