"""`ddp-course doctor`: can the course be taken on this machine, and what to do where it cannot.

Each check is one function that returns a `Check`; `CHECKS` lists them in the order they are shown.
None of them initialises CUDA: GPUs are counted through NVML.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import sysconfig
import tempfile
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Literal

import psutil

from ddp_course import two_ranks
from ddp_course.launcher import gpus

GIB = 2**30
Status = Literal["ok", "warning", "problem"]

# What to do, word for word as README.md has it under Troubleshooting (tests/test_house.py compares).
ADVICE = {
    "python": "Use Python 3.10 to 3.13, for instance: PYTHON=python3.11 make lab",
    "torch": "Install the course again in this Python: pip install -c constraints.txt -e .",
    "gloo": "This build of PyTorch cannot run ranks on CPUs: install PyTorch's own wheel, from pip.",
    "nccl": "There are GPUs, but this build of PyTorch cannot use them, so ranks run on the CPUs: "
    "install the CUDA build of torch 2.13 for your driver.",
    "driver": "The NVIDIA driver does not answer, so ranks run on the CPUs: look at what nvidia-smi says; "
    "after a driver update, restart the machine.",
    "old driver": "The NVIDIA driver is older than the CUDA that this PyTorch was built with: "
    "update the driver, or install the build of torch 2.13 for your CUDA.",
    "cores": "Ranks take turns on one core: every cell works, each takes longer.",
    "memory": "Close other programs or give the container more memory; stay at 2 ranks until then.",
    "shared-memory": "Start the container with --shm-size=1g (or --ipc=host): NCCL and data loader workers "
    "pass data through /dev/shm.",
    "torchrun": "The course starts its own torchrun and is not affected. In a terminal, type "
    "`python -m torch.distributed.run`, or first put this Python on your PATH: source .venv/bin/activate",
    "jupyterlab": "Install the course again, in the Python that JupyterLab runs in: "
    "pip install -c constraints.txt -e .",
    "folder": "Move the course to a folder you may write to: each run keeps its files under .ddp_course/.",
    "disk": "Free some disk space: runs and checkpoints take up to 1 GiB.",
    "all-reduce": "Two processes could not reach each other on this machine. Look for a firewall or VPN that "
    "blocks 127.0.0.1, and for a full disk; then run ddp-course doctor again.",
    "broken": "This check itself failed. Install the course again, and if that does not help, report the line.",
}


@dataclass(frozen=True)
class Check:
    """One line of the report: what was looked at, how it is, what was found, what to do about it."""

    name: str
    status: Status
    value: str
    advice: str = ""


def check_python() -> Check:
    supported = (3, 10) <= sys.version_info[:2] <= (3, 13)
    value = f"{sys.version.split()[0]} ({sys.executable})"
    return Check("python", "ok", value) if supported else Check("python", "problem", value, ADVICE["python"])


def check_torch() -> Check:
    try:
        import torch
    except ImportError as error:
        return Check("torch", "problem", str(error), ADVICE["torch"])
    if tuple(int(part) for part in torch.__version__.split(".")[:2]) < (2, 13):
        return Check("torch", "problem", f"{torch.__version__}, older than 2.13", ADVICE["torch"])
    return Check("torch", "ok", torch.__version__)


def check_backends() -> Check:
    import torch.distributed as dist

    there = dist.is_available()
    backends = [name for name in ("gloo", "nccl") if there and getattr(dist, f"is_{name}_available")()]
    value = ", ".join(backends) or "none"
    if "gloo" not in backends:
        return Check("backends", "problem", value, ADVICE["gloo"])
    if "nccl" not in backends and gpus.find().devices:
        return Check("backends", "warning", value, ADVICE["nccl"])
    return Check("backends", "ok", value)


def check_gpus() -> Check:
    import torch

    found = gpus.find()
    if found.error:
        return Check("gpus", "warning", found.error, ADVICE["driver"])
    if not found.devices:
        return Check("gpus", "ok", "none: ranks run on the CPUs, over gloo")
    if torch.version.cuda and found.cuda < tuple(int(part) for part in torch.version.cuda.split(".")[:1]):
        value = f"{found}; driver for CUDA {'.'.join(map(str, found.cuda))}, torch for {torch.version.cuda}"
        return Check("gpus", "warning", value, ADVICE["old driver"])
    return Check("gpus", "ok", str(found))


def check_cores(enough: int = 2) -> Check:
    cores: float = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota, _, period = _cgroup("cpu.max").partition(" ")
    if quota.isdigit():
        cores = min(cores, int(quota) / int(period))
    return Check("cores", *(("ok", f"{cores:g}") if cores >= enough else ("warning", f"{cores:g}", ADVICE["cores"])))


def check_memory(enough: float = 4 * GIB) -> Check:
    memory = psutil.virtual_memory()
    total, free = memory.total, memory.available
    limit, used = _cgroup("memory.max"), _cgroup("memory.current")
    if limit.isdigit() and used.isdigit():
        total, free = min(total, int(limit)), min(free, int(limit) - int(used))
    value = f"{free / GIB:.1f} GiB free of {total / GIB:.1f}"
    return Check("memory", "ok", value) if free >= enough else Check("memory", "warning", value, ADVICE["memory"])


def check_shared_memory(folder: Path = Path("/dev/shm"), enough: int = 256 * 2**20) -> Check:
    if not folder.is_dir():
        return Check("shared-memory", "ok", f"no {folder} on this system, none needed")
    usage = shutil.disk_usage(folder)
    value = f"{usage.free / 2**20:.0f} MiB free in {folder}"
    if usage.free >= enough:
        return Check("shared-memory", "ok", value)
    return Check("shared-memory", "warning", value, ADVICE["shared-memory"])


def check_torchrun() -> Check:
    found, own = shutil.which("torchrun"), Path(sysconfig.get_path("scripts"))
    if found and Path(found).parent.resolve() == own.resolve():
        return Check("torchrun", "ok", found)
    value = f"{found}, of another Python" if found else "not on PATH"
    return Check("torchrun", "warning", value, ADVICE["torchrun"])


def check_jupyterlab() -> Check:
    lab, widgets = version("jupyterlab"), version("ipywidgets")
    value = f"{lab}, ipywidgets {widgets}"
    fits = tuple(int(part) for part in lab.split(".")[:2]) >= (4, 4) and int(widgets.split(".")[0]) >= 8
    return Check("jupyterlab", "ok", value) if fits else Check("jupyterlab", "problem", value, ADVICE["jupyterlab"])


def check_folder(folder: Path = Path("."), enough: float = GIB) -> Check:
    folder = folder.resolve()
    if (folder / ".ddp_course").exists() and not (folder / ".ddp_course").is_dir():
        return Check("folder", "problem", f"{folder}: .ddp_course is a file", ADVICE["folder"])
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".ddp_course-"):
            free = shutil.disk_usage(folder).free
    except OSError as error:
        return Check("folder", "problem", f"{folder}: {error.strerror}", ADVICE["folder"])
    value = f"{folder}, {free / GIB:.1f} GiB free"
    return Check("folder", "ok", value) if free >= enough else Check("folder", "warning", value, ADVICE["disk"])


def check_all_reduce(timeout: float = 120) -> Check:
    try:
        result = two_ranks.all_reduce(timeout)
    except two_ranks.Failed as error:
        return Check("all-reduce", "problem", str(error), ADVICE["all-reduce"])
    return Check("all-reduce", "ok", str(result))


CHECKS: list[Callable[[], Check]] = [
    check_python,
    check_torch,
    check_backends,
    check_gpus,
    check_cores,
    check_memory,
    check_shared_memory,
    check_torchrun,
    check_jupyterlab,
    check_folder,
    check_all_reduce,
]


def examine(check: Callable[[], Check]) -> Check:
    """Run one check; one that raises is itself a problem, not a traceback."""
    try:
        return check()
    except Exception as error:
        name = check.__name__.removeprefix("check_").replace("_", "-")
        return Check(name, "problem", f"{type(error).__name__}: {error}", ADVICE["broken"])


def main(argv: Sequence[str]) -> int:
    """Examine this machine and print the report. Returns 0 when the course can be taken here, else 1.

    With `--json` the report is one object, the same in every release with the same `version`:

        {"version": 1, "ok": true, "checks": [
            {"name": "python", "status": "ok", "value": "3.11.7 (/usr/bin/python3)", "advice": ""}, ...]}

    `ok` is false where a check's `status` is "problem"; "warning" leaves it true. `name` is stable,
    `value` and `advice` are for people to read; `advice` is empty where there is nothing to do.
    """
    parser = argparse.ArgumentParser(prog="ddp-course doctor", description="Can the course be taken here?")
    parser.add_argument("--json", action="store_true", help="print the report as one JSON object")
    as_json = parser.parse_args(argv).json
    checks = []
    for check in CHECKS:
        checks.append(examine(check))
        if not as_json:
            _show(checks[-1])
    problems = sum(check.status == "problem" for check in checks)
    if as_json:
        report = {"version": 1, "ok": not problems, "checks": [asdict(check) for check in checks]}
        print(json.dumps(report, indent=2, ensure_ascii=False))
    elif problems:
        print("\nThe course cannot be taken here yet: see to each problem above, then run the doctor again.")
    else:
        print("\nThe course can be taken here.")
    return 1 if problems else 0


def _show(check: Check) -> None:
    print(f"{check.status:<8} {check.name:<14} {check.value}", flush=True)
    if check.advice:
        print(textwrap.fill(check.advice, 110, initial_indent=f"{'':24}→ ", subsequent_indent=" " * 26), flush=True)


def _cgroup(name: str) -> str:
    """What the container's own limit file says (cgroup v2), or nothing where there is none."""
    try:
        return Path("/sys/fs/cgroup", name).read_text().strip()
    except OSError:
        return ""
