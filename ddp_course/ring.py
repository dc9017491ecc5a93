"""A ring all-reduce that can be watched, and the learner's own one in its place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ddp_course import by_hand


def ring_all_reduce(tensor: Any, log: Callable[..., None] | None = None) -> None:
    """Replace a 1-D `tensor` by its sum over all ranks, in 2(N−1) steps of one chunk each.

    `log`, such as `report`, is called before the first step and after each: the number of steps taken, this rank's
    tensor, and of the message just sent the chunk, its values and the rank it went to.
    """
    import torch
    import torch.distributed as dist

    rank, world = dist.get_rank(), dist.get_world_size()
    right, left = (rank + 1) % world, (rank - 1) % world
    chunks = tensor.tensor_split(world)
    if log:
        log(steps=0, tensor=tensor)
    for step in range(2 * (world - 1)):
        out, into = (rank - step) % world, (rank - step - 1) % world
        message, received = chunks[out].clone(), torch.empty_like(chunks[into])
        sending = dist.isend(message, right)
        dist.recv(received, left)
        sending.wait()  # type: ignore[union-attr]
        if step < world - 1:
            chunks[into].add_(received)
        else:
            chunks[into].copy_(received)
        if log:
            log(steps=step + 1, tensor=tensor, to=right, chunk=out, values=message)


def own_ring() -> Callable[[Any], None]:
    """The learner's `ring_all_reduce` where its check has passed, else the course's."""
    return by_hand.mine("ring_all_reduce").get("ring_all_reduce", ring_all_reduce)
