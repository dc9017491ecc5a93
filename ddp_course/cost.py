"""What communication costs: the α–β model, bandwidths as nccl-tests defines them, ring against tree.

Times are seconds, sizes bytes, α the latency of one message in seconds, β the seconds a byte takes.
Standard library and NumPy only.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

import numpy as np

# What busbw multiplies algbw with, for n ranks (nccl-tests, doc/PERFORMANCE.md).
_BUS = {
    "all_reduce": lambda n: 2 * (n - 1) / n,
    "reduce_scatter": lambda n: (n - 1) / n,
    "all_gather": lambda n: (n - 1) / n,
    "all_to_all": lambda n: (n - 1) / n,
    "broadcast": lambda n: 1.0,
    "reduce": lambda n: 1.0,
}


def algbw(size: float, seconds: float) -> float:
    """Bytes per second that the caller sees: the size of the tensor over the time."""
    return size / seconds


def busbw(size: float, ranks: int, seconds: float, collective: str = "all_reduce") -> float:
    """algbw times the factor that makes it comparable with the speed of a link, whatever the number of ranks.

    Raises ValueError for a collective without such a factor.
    """
    if collective not in _BUS:
        raise ValueError(f"{collective}: nccl-tests has factors for {', '.join(_BUS)}")
    return algbw(size, seconds) * _BUS[collective](ranks)


def ring_steps(ranks: int) -> int:
    """Steps of a ring all-reduce: N−1 to sum up, N−1 to hand on."""
    return 2 * (ranks - 1)


def ring_bytes(size: float, ranks: int) -> float:
    """Bytes that each rank sends in a ring all-reduce of `size` bytes, without padding."""
    return ring_steps(ranks) / ranks * size


def ring_seconds(size: float, ranks: int, alpha: float, beta: float) -> float:
    """A ring all-reduce: 2(N−1) steps, each with latency α and the N-th part of the bytes."""
    return ring_steps(ranks) * alpha + ring_bytes(size, ranks) * beta


def tree_seconds(size: float, ranks: int, alpha: float, beta: float) -> float:
    """A pipelined tree all-reduce: ⌈log₂N⌉ levels up and down, and every byte sent twice.

    That is NCCL's double binary tree, in which each rank sends and receives the whole tensor once in each direction.
    """
    if ranks == 1:
        return 0.0
    return 2 * math.ceil(math.log2(ranks)) * alpha + 2 * size * beta


def fit(sizes: Sequence[float], seconds: Sequence[float], ranks: int) -> tuple[float, float]:
    """α and β of a ring all-reduce from measured times, by least squares of the *relative* errors.

    Without the weights the largest sizes alone would decide. A negative α or β becomes 0, the other fitted alone.
    Raises ValueError for fewer than two sizes or one rank.
    """
    if len(set(sizes)) < 2 or ranks < 2:
        raise ValueError("fit() needs two sizes or more, and two ranks or more")
    size, time = np.asarray(sizes, float), np.asarray(seconds, float)
    columns = np.stack([np.full_like(size, ring_steps(ranks)), size * ring_steps(ranks) / ranks], 1) / time[:, None]
    alpha, beta = np.linalg.lstsq(columns, np.ones_like(time), rcond=None)[0]
    if alpha < 0:
        alpha, beta = 0.0, _alone(columns[:, 1])
    elif beta < 0:
        alpha, beta = _alone(columns[:, 0]), 0.0
    return float(alpha), float(beta)


def _alone(column: np.ndarray) -> float:
    return float(column.sum() / (column @ column))


def relative_errors(predicted: Sequence[float], measured: Sequence[float]) -> list[float]:
    """|predicted − measured| / measured, one a size."""
    return [abs(p - m) / m for p, m in zip(predicted, measured, strict=True)]


def median_error(predicted: Sequence[float], measured: Sequence[float]) -> float:
    """The median of the relative errors."""
    return statistics.median(relative_errors(predicted, measured))


def pipeline_bubble(stages: int, micro_batches: int) -> float:
    """The share of a pipeline step in which a stage waits, (p−1)/(m+p−1), for stages that take equally long."""
    return (stages - 1) / (micro_batches + stages - 1)
