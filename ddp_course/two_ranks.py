"""A real all-reduce over two ranks, started as a learner would start it: the doctor's last check."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

from ddp_course import gpus

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
            f"2 ranks over {self.backend}: 1 MiB in {self.seconds * 1e3:.2f} ms, {self.whole:.1f} s with start and end"
        )


def all_reduce(timeout: float, script: str = SCRIPT) -> AllReduce:
    """Run `script` on two ranks, NCCL where there are two GPUs and gloo elsewhere.

    Raises `Failed` after `timeout` seconds, on an exit code other than 0, and when nothing was printed.
    No process of it is left behind, whichever way it ends.
    """
    backend = "nccl" if len(gpus.find().devices) >= 2 else "gloo"
    environment = dict(os.environ, OMP_NUM_THREADS="1")
    if backend == "gloo":
        environment["CUDA_VISIBLE_DEVICES"] = ""
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "all_reduce.py")
        file.write_text(script)
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--local-addr=127.0.0.1"]
        agent = subprocess.Popen(
            [*torchrun, "--nproc-per-node=2", str(file), backend],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            stdout, stderr = agent.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            raise Failed(f"2 ranks over {backend} were not done after {timeout:g} s") from None
        finally:
            _end(agent)
    if agent.returncode or not stdout.strip():
        raise Failed(f"2 ranks over {backend}: {_complaint(stderr) or f'exit code {agent.returncode}, no output'}")
    return AllReduce(backend, float(stdout), time.monotonic() - start)


def _end(agent: subprocess.Popen[str]) -> None:
    """Kill what still runs. The ranks lead sessions of their own, so a signal to the agent's group misses them."""
    try:
        family = [psutil.Process(agent.pid), *psutil.Process(agent.pid).children(recursive=True)]
    except psutil.NoSuchProcess:
        return
    for process in family:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue
    agent.communicate()
    psutil.wait_procs(family, timeout=5)


def _complaint(stderr: str) -> str:
    """The ranks' own last error line: the agent's report of the failure follows it."""
    errors = [line.split("]:", 1)[-1].strip() for line in stderr.splitlines() if "Error: " in line]
    return next((line for line in errors if "ChildFailedError" not in line), "")
