"""A real all-reduce over two ranks, started as the course starts every cell: the doctor's last check."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ddp_course.launcher import gpus
from ddp_course.launcher.launch import launch
from ddp_course.launcher.run import Run

# Each rank gives 1 + its rank in a MiB of float32, so every sum is 3; rank 0 prints the median seconds.
SCRIPT = """\
import os, statistics, sys, time
import torch, torch.distributed as dist

backend, rank = sys.argv[1], int(os.environ["LOCAL_RANK"])
device = torch.device("cuda", rank) if backend == "nccl" else torch.device("cpu")
if backend == "nccl":
    torch.cuda.set_device(device)
dist.init_process_group(backend)
took = []
for _ in range(10):
    values = torch.full((2**18,), 1.0 + rank, device=device)
    dist.barrier()
    start = time.perf_counter()
    dist.all_reduce(values)
    assert values.eq(3).all().item(), f"the sum is {values.unique().tolist()} where it is 3"
    took.append(time.perf_counter() - start)
if rank == 0:
    print(statistics.median(took))
dist.destroy_process_group()
"""


class Failed(RuntimeError):
    """The two ranks did not finish, or did not get the right sum; the message says what was seen."""


@dataclass(frozen=True)
class AllReduce:
    """The backend, the median seconds of an all-reduce of 1 MiB, and the seconds from start to end."""

    backend: str
    seconds: float
    whole: float

    def __str__(self) -> str:
        return (
            f"2 ranks over {self.backend}: 1 MiB in {self.seconds * 1e3:.2f} ms, {self.whole:.1f} s from start to end"
        )


def all_reduce(timeout: float, script: str = SCRIPT) -> AllReduce:
    """Run `script` on two ranks, NCCL where there are two GPUs and gloo elsewhere.

    Raises `Failed` after `timeout` seconds, on an exit code other than 0, and when nothing was printed.
    """
    backend = "nccl" if len(gpus.find().devices) >= 2 else "gloo"
    with tempfile.TemporaryDirectory() as folder, _working_in(folder):
        Path("all_reduce.py").write_text(script)
        run = launch("all_reduce.py", backend, nproc_per_node=2, backend=backend, timeout=timeout, check=False)
        seconds = run.ranks[0].stdout.strip()
        if not run.ok or not seconds:
            raise Failed(f"2 ranks over {backend}: {_complaint(run)}")
    return AllReduce(backend, float(seconds), run.seconds)


@contextmanager
def _working_in(folder: str) -> Iterator[None]:
    """The run's files go where the run is started; these are nobody's to keep."""
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def _complaint(run: Run) -> str:
    last_words = [rank.stderr.strip().splitlines()[-1] for rank in run.ranks if rank.stderr.strip()]
    return "; ".join([f"ended by {run.diagnosis.kind}" if run.diagnosis else "no output", *last_words[:1]])
