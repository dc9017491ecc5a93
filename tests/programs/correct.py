"""Correct programs: a rank-dependent call that is right must not be taken for a mismatch."""

import sys

import torch
import torch.distributed as dist
from torch.distributed.algorithms.join import Join
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel


def ddp_with_join() -> None:
    model = DistributedDataParallel(torch.nn.Linear(8, 8))
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW)
    with Join([model]):
        for _ in range(3 + RANK):
            model(torch.ones(2, 8)).sum().backward()
    optimizer.step()
    optimizer.consolidate_state_dict(to=0)


def ddp_with_buffers() -> None:
    layers = [torch.nn.Linear(64, 64), torch.nn.BatchNorm1d(64), torch.nn.Linear(64, 3)]
    model = DistributedDataParallel(torch.nn.Sequential(*layers), bucket_cap_mb=0.01, find_unused_parameters=True)
    for _ in range(3):
        model(torch.ones(2, 64)).sum().backward()


def sharded() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.Linear(7, 3))
    fully_shard(model[0])
    fully_shard(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        model(torch.ones(2, 5)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def roots_and_groups() -> None:
    chunks = [torch.full((2,), float(i)) for i in range(SIZE)]
    dist.scatter(torch.empty(2), chunks if RANK == 0 else None, src=0)
    dist.gather(torch.ones(2), chunks if RANK == 1 else None, dst=1)
    dist.reduce(torch.ones(3), dst=1)
    dist.broadcast(torch.ones(2, 3) if RANK else torch.ones(6), src=0)
    dist.all_to_all_single(
        torch.empty(sum(i + RANK for i in range(SIZE))),
        torch.ones(sum(i + RANK for i in range(SIZE))),
        [i + RANK for i in range(SIZE)],
        [i + RANK for i in range(SIZE)],
    )
    found: list = [None] * SIZE
    dist.all_gather_object(found, "x" * 100 * RANK)
    dist.broadcast_object_list(found if RANK == 0 else [None] * SIZE)
    pairs = [dist.new_group([0, 1]), dist.new_group([1, 2])]
    for which, ranks in enumerate(([0, 1], [1, 2])):
        if RANK in ranks:
            for _ in range(which + 1):
                dist.all_reduce(torch.ones(which + 4), group=pairs[which])
    if RANK == 0:
        dist.send(torch.ones(2), dst=1)
    elif RANK == 1:
        dist.recv(torch.ones(2), src=0)
    works = [dist.all_reduce(torch.ones(n), async_op=True) for n in range(1, 5)]
    for work in works:
        work.wait()


dist.init_process_group()
RANK, SIZE = dist.get_rank(), dist.get_world_size()
globals()[sys.argv[1]]()
dist.destroy_process_group()
