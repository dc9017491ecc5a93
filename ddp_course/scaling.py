"""How far data-parallel training scales: lesson 1's α–β model with DDP's buckets sent under the backward pass.

Times are seconds, sizes bytes. A step is the computing on one GPU and what is left of the all-reduces when the
backward pass is over. Standard library only.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from ddp_course.cost import ring_seconds, tree_seconds

BUCKET = 25 << 20  # bytes, DDP's usual cap


@dataclass(frozen=True)
class Link:
    """α, the latency of a message in seconds, and β, the seconds a byte takes over the slowest link of the ring."""

    alpha: float
    beta: float

    def all_reduce(self, size: float, ranks: int) -> float:
        """Seconds of an all-reduce: ring or tree, whichever is faster."""
        return min(ring_seconds(size, ranks, self.alpha, self.beta), tree_seconds(size, ranks, self.alpha, self.beta))


@dataclass(frozen=True)
class Cluster:
    """Nodes of `per_node` GPUs. A ring within one node runs over `inside`, a longer one at the pace of `between`.

    `between` is the network of a whole node: as many rings as it has cards share them.
    """

    inside: Link
    between: Link
    per_node: int = 8

    def link(self, ranks: int) -> Link:
        """The link that sets the pace for this many ranks."""
        return self.inside if ranks <= self.per_node else self.between


@dataclass(frozen=True)
class Job:
    """What one GPU does in a step: `compute` seconds for its share of the batch, and a gradient of `gradient` bytes.

    `backward` is the share of `compute` that is the backward pass; two thirds, since it takes two matrix products
    for each one of the forward pass. With `overlap` the buckets travel as they fill up, else all after backward.
    """

    compute: float
    gradient: float
    backward: float = 2 / 3
    bucket: float = BUCKET
    overlap: bool = True

    @property
    def buckets(self) -> int:
        """How many buckets the gradient fills."""
        return max(1, math.ceil(self.gradient / self.bucket))


def after_backward(buckets: Iterable[tuple[float, float]], backward: float) -> float:
    """Seconds from the end of the backward pass to the end of the last all-reduce.

    Each bucket is (when it is full, how long its all-reduce takes), in the order of sending; times count from the
    start of the backward pass. One all-reduce at a time, as NCCL runs those of one communicator.
    """
    end = 0.0
    for full, seconds in buckets:
        end = max(end, full) + seconds
    return max(0.0, end - backward)


def exposed(job: Job, cluster: Cluster, ranks: int) -> float:
    """The communication of a step that does not hide under the backward pass; buckets fill at an even pace."""
    count = job.buckets
    seconds = cluster.link(ranks).all_reduce(job.gradient / count, ranks)
    if not job.overlap:
        return count * seconds
    backward = job.backward * job.compute
    return after_backward([(backward * (i + 1) / count, seconds) for i in range(count)], backward)


def step_seconds(job: Job, cluster: Cluster, ranks: int) -> float:
    """Seconds of one step on this many ranks, each with the batch that `job` has."""
    return job.compute + exposed(job, cluster, ranks)


def weak(job: Job, cluster: Cluster, ranks: int, base: int = 1) -> float:
    """Efficiency where each GPU keeps its batch: the step on `base` ranks over the step on `ranks`."""
    return step_seconds(job, cluster, base) / step_seconds(job, cluster, ranks)


def strong(job: Job, cluster: Cluster, ranks: int, base: int = 1) -> float:
    """Efficiency where the global batch stays that of `base` ranks, and each of `ranks` computes its part of it."""
    part = replace(job, compute=job.compute * base / ranks)
    return step_seconds(job, cluster, base) * base / (step_seconds(part, cluster, ranks) * ranks)


@dataclass(frozen=True)
class Published:
    """One measured efficiency as its source gives it, and the data that a prediction needs, where they are known."""

    model: str
    gpus: int
    efficiency: float
    source: str
    job: Job | None = None
    cluster: Cluster | None = None
    base: int = 1  # the number of GPUs that the source compares with


def _p100(parameters: float, images: int, images_per_second: float) -> Job:
    """Training in fp32 on a P100, whose speed TensorFlow's benchmarks give (tensorflow.org, May 2017)."""
    return Job(compute=images / images_per_second, gradient=4 * parameters)


def nodes(per_node: int, gigabits: float) -> Cluster:
    """Nodes with a network of this many Gb/s each, and inside a P100's four NVLinks of 20 GB/s."""
    return Cluster(Link(5e-6, 1 / 80e9), Link(20e-6, 8 / (gigabits * 1e9)), per_node)


_GOYAL = nodes(8, 50)
_HOROVOD = nodes(4, 25)
_RESNET_50, _INCEPTION, _VGG = _p100(25.6e6, 32, 193), _p100(23.9e6, 64, 142), _p100(138.4e6, 64, 154)
PUBLISHED = (
    Published("ResNet-50", 256, 0.90, "Goyal et al. 2017", _RESNET_50, _GOYAL, base=8),
    Published("Inception V3", 128, 0.90, "Horovod", _INCEPTION, _HOROVOD),
    Published("Inception V3", 512, 0.90, "Horovod", _INCEPTION, _HOROVOD),
    Published("VGG-16", 128, 0.79, "Horovod", _VGG, _HOROVOD),
    Published("VGG-16", 512, 0.68, "Horovod", _VGG, _HOROVOD),
    Published("ResNet-50", 1024, 0.80, "Akiba et al. 2017"),
    Published("ResNet-50", 1088, 0.9162, "Mikami et al. 2018"),
)
