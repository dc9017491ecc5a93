"""Ten AdamW steps with clipping, under DDP and under FSDP2; reports how far apart weights and norms are."""

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel as DDP

from ddp_course import report
from ddp_course.small_gpt import GPT, loss_sum


def sharded(model):
    for block in model.blocks:
        fully_shard(block)
    return fully_shard(model)


def whole(tensor):
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor.detach()


def train(wrap):
    torch.manual_seed(0)
    model = wrap(GPT())
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    torch.manual_seed(dist.get_rank())
    norms = []
    for tokens in torch.randint(256, (10, 2, 65)):
        optimizer.zero_grad()
        (loss_sum(model, tokens[:, :-1], tokens[:, 1:]) / 128).backward()
        norms.append(whole(torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)).item())
        optimizer.step()
    return [whole(parameter) for parameter in model.parameters()], norms


torch.set_num_threads(1)
dist.init_process_group("gloo")
(ours, our_norms), (theirs, their_norms) = train(sharded), train(DDP)
report(
    apart=max((a - b).abs().max().item() for a, b in zip(ours, theirs, strict=True)),
    norms=max(abs(a - b) for a, b in zip(our_norms, their_norms, strict=True)),
    clipped=min(their_norms) > 0.5,
)
dist.destroy_process_group()
