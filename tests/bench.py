"""`make bench`: what the launcher costs, as ratios to plain torchrun measured in the same run.

Every row is a median. Wants a quiet machine; about five minutes. Options: --quick leaves out the long rows,
--json FILE says where the table goes as JSON (default build/bench.json).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import psutil
from kernels import Kernel

from ddp_course import cost, launch
from ddp_course.controls import decision_control, memory_calculator, scaling_model, sharding_calculator
from ddp_course.exercises import every
from ddp_course.exercises.check import check

CONTROLS = (memory_calculator, sharding_calculator, decision_control, scaling_model)
ALL_REDUCE = """\
import torch
import torch.distributed as dist

dist.init_process_group()
dist.all_reduce(torch.ones(4))
dist.destroy_process_group()
"""
DDP = """\
import torch
import torch.distributed as dist
import torch.distributed.nn  # before init: otherwise plain torchrun aborts at exit now and then
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group()
model = DistributedDataParallel(torch.nn.Linear(64, 64))
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(3):
    optimizer.zero_grad()
    model(torch.randn(8, 64)).square().mean().backward()
    optimizer.step()
del model, optimizer
dist.destroy_process_group()
"""
COLLECTIVE_TIMES = """
import time
import torch
import torch.distributed as dist
from ddp_course import report

dist.init_process_group("gloo")
for size in (2**k << 10 for k in (0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14)):
    values, best = torch.ones(size // 4), float("inf")
    for _ in range(20):
        dist.barrier()
        start = time.perf_counter()
        dist.all_reduce(values)
        best = min(best, time.perf_counter() - start)
    report(size=size, seconds=best)
dist.destroy_process_group()
"""
THROUGHPUT = """\
import os
import sys
import time
import torch
import torch.distributed as dist
import torch.distributed.nn  # before init: otherwise plain torchrun aborts at exit now and then
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group()
open(f"pid-{dist.get_rank()}", "w").write(str(os.getpid()))
model = DistributedDataParallel(torch.nn.Sequential(*[torch.nn.Linear(512, 512) for _ in range(4)]))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
began, steps = time.perf_counter(), 0
stop = torch.zeros(1)
while not stop:
    optimizer.zero_grad()
    model(torch.randn(64, 512)).square().mean().backward()
    optimizer.step()
    steps += 1
    if steps % 50 == 0:
        stop.fill_(time.perf_counter() - began > float(sys.argv[1]))
        dist.broadcast(stop, 0)
        print(steps)
if dist.get_rank() == 0:
    open("rate", "w").write(str(steps / (time.perf_counter() - began)))
del model, optimizer
dist.destroy_process_group()
"""
LINES = """\
%%torchrun --nproc-per-node 2
import time
for _ in range(40):
    print(f"<{time.time():.4f}>")
    time.sleep(0.1)
"""


def seconds(action: Callable[[], object]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def bare(script: str, *args: str) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", script, *args]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=300)


def start_costs(name: str, script: str, rounds: int) -> list[dict[str, Any]]:
    """Bare, warm and cold, interleaved so that a change of the machine's mood meets all three."""
    Path(f"{name}.py").write_text(script)
    launch(f"{name}.py", nproc_per_node=2)
    took: dict[str, list[float]] = {"bare": [], "warm": [], "cold": []}
    for _ in range(rounds):
        took["bare"].append(seconds(lambda: bare(f"{name}.py")))
        took["cold"].append(seconds(lambda: launch(f"{name}.py", nproc_per_node=2, warm=False)))
        took["warm"] += [seconds(lambda: launch(f"{name}.py", nproc_per_node=2)) for _ in range(3)]
    median = {kind: statistics.median(values) for kind, values in took.items()}
    limit = {"all_reduce": 1 / 12, "ddp_adamw": 1 / 10}[name]
    return [
        row(f"{name}: warm launch against torchrun", median["warm"], median["bare"], limit),
        row(f"{name}: cold launch against torchrun", median["cold"], median["bare"], 1.05),
    ]


def first_launch(rounds: int) -> dict[str, Any]:
    """A launch right after the package was loaded: the server is still importing torch."""
    imports = "from ddp_course import launch; from ddp_course.launcher import client"
    code = f"{imports}; client.warm_up(); launch('all_reduce.py', nproc_per_node=2)"
    ours = [seconds(lambda: subprocess.run([sys.executable, "-c", code], check=True)) for _ in range(rounds)]
    theirs = [seconds(lambda: bare("all_reduce.py")) for _ in range(rounds)]
    return row("first launch after loading", statistics.median(ours), statistics.median(theirs), 1.1)


def line_latency() -> dict[str, Any]:
    """From print() in a rank to the panel's message at the notebook's side, in seconds."""
    kernel = Kernel(Path.cwd(), panel=True)
    message, seen, delays = kernel.start(LINES), set(), []
    while True:
        reply = kernel.client.get_iopub_msg(timeout=30)
        now = time.time()
        if reply["parent_header"].get("msg_id") == message and reply["content"].get("execution_state") == "idle":
            break
        for stamp in re.findall(r"<(\d+\.\d+)>|&lt;(\d+\.\d+)&gt;", str(reply["content"])):
            stamp = stamp[0] or stamp[1]
            if stamp not in seen:
                seen.add(stamp)
                delays.append(now - float(stamp))
    kernel.close()
    live = [delay for delay in delays if delay < 1.0]  # the transcript at the end repeats the first lines
    return {"what": "a line from print() to the notebook [s]", "value": statistics.median(live), "limit": 0.06}


def many_launches(count: int) -> dict[str, Any]:
    ended = sum(launch("ddp_adamw.py", nproc_per_node=2, timeout=30, check=False).ok for _ in range(count))
    return {"what": f"of {count} warm DDP launches in a row, not ended well", "value": count - ended, "limit": 0}


def throughput(duration: float, rounds: int) -> dict[str, Any]:
    Path("throughput.py").write_text(THROUGHPUT)
    rates: dict[str, list[float]] = {"ours": [], "bare": []}
    for _ in range(rounds):
        launch("throughput.py", duration, nproc_per_node=2, timeout=duration + 60)
        rates["ours"].append(float(Path("rate").read_text()))
        bare("throughput.py", str(duration))
        rates["bare"].append(float(Path("rate").read_text()))
    ours, theirs = statistics.median(rates["ours"]), statistics.median(rates["bare"])
    what = f"training for {duration:g} s: steps a second lost against torchrun"
    return {"what": what, "value": 1 - ours / theirs, "limit": 0.02}


def processor_share(duration: float = 10.0) -> dict[str, Any]:
    """What kernel, server and agent take of two cores while two ranks train: it varies less than throughput does."""
    Path("throughput.py").write_text(THROUGHPUT)
    used: list[dict[psutil.Process, float]] = []

    def look() -> None:
        time.sleep(3)  # the ranks have started
        for pause in (duration, 0.0):
            kernel = psutil.Process()
            processes = [kernel, *kernel.children(recursive=True)]
            ranks = {int(Path(f"pid-{rank}").read_text()) for rank in (0, 1)}
            used.append({p: sum(p.cpu_times()[:2]) for p in processes if p.pid not in ranks})
            time.sleep(pause)

    looking = threading.Thread(target=look)
    looking.start()
    launch("throughput.py", duration + 5, nproc_per_node=2, timeout=duration + 60)
    looking.join()
    before, after = used
    value = sum(after[process] - before[process] for process in before) / duration / 2
    return {"what": "kernel, server and agent while training: share of two cores", "value": value, "limit": 0.02}


def import_time() -> dict[str, Any]:
    code = "import time; began = time.perf_counter(); import ddp_course; print(time.perf_counter() - began)"
    took = [float(subprocess.check_output([sys.executable, "-c", code])) for _ in range(5)]
    return {"what": "import ddp_course [s]", "value": statistics.median(took), "limit": 0.3}


def checks(rounds: int) -> list[dict[str, Any]]:
    """From the end of typing to the feedback of `%%exercise`, for the exercise that takes longest."""
    bank = Path(__file__).resolve().parent / "answers"
    slowest = []
    for kind in ("right", "wrong"):
        took = {}
        for exercise in every():
            path = min(bank.joinpath(exercise.name).glob(f"{kind}_*.py"))
            if exercise.name == "uneven_batches" and kind == "wrong":
                path = path.with_name("wrong_one_less.py")  # the first one hangs, up to the time limit
            took[exercise.name] = statistics.median(seconds(partial(check, exercise, path)) for _ in range(rounds))
        name = max(took, key=lambda name: took[name])
        what = f"a {kind} answer checked, slowest exercise: {name} [s]"
        slowest.append({"what": what, "value": took[name], "limit": 3.0})
    return slowest


def controls_answer() -> dict[str, Any]:
    """From a slider's move to the new text and picture, in the kernel; a browser shows them some 30 ms later."""
    took = {}
    for make in CONTROLS:
        slider = make().widget().children[0]
        options = [option for option in slider.options if option != slider.value]
        took[make.__name__] = statistics.median(seconds(partial(setattr, slider, "value", to)) for to in options)
    name = max(took, key=lambda name: took[name])
    return {"what": f"a slider moved, slowest control: {name} [s]", "value": took[name], "limit": 0.17}


def prediction() -> list[dict[str, Any]]:
    """How far α and β fitted to eight sizes are off on four others, as lesson 1 measures it."""
    Path("collective_times.py").write_text(COLLECTIVE_TIMES)
    rows = []
    for ranks in (2, 4):
        slowest: dict[int, float] = {}
        for report in launch("collective_times.py", nproc_per_node=ranks, timeout=60).reports:
            slowest[report["size"]] = max(slowest.get(report["size"], 0.0), report["seconds"])
        left_out = {size: slowest.pop(size) for size in (2 << 10, 32 << 10, 512 << 10, 8 << 20)}
        line = cost.fit(list(slowest), list(slowest.values()), ranks)
        error = cost.median_error([cost.ring_seconds(s, ranks, *line) for s in left_out], list(left_out.values()))
        rows.append({"what": f"all-reduce on {ranks} ranks, predicted: median error", "value": error, "limit": 0.3})
    return rows


def row(what: str, ours: float, theirs: float, limit: float) -> dict[str, Any]:
    return {"what": what, "seconds": ours, "torchrun_seconds": theirs, "value": ours / theirs, "limit": limit}


def line(entry: dict[str, Any]) -> str:
    mark = "ok  " if entry["value"] <= entry["limit"] else "OVER"
    times = f"  ({entry['seconds']:.3f} s / {entry['torchrun_seconds']:.3f} s)" if "seconds" in entry else ""
    return f"{mark} {entry['what']:<62} {entry['value']:8.4f}  limit {entry['limit']:.4f}{times}"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--quick", action="store_true")
    options.add_argument("--json", type=Path, default=Path("build/bench.json"))
    given = options.parse_args()
    target = given.json.resolve()
    rounds = 3 if given.quick else 7
    measurements: list[Callable[[], list[dict[str, Any]]]] = [
        lambda: start_costs("all_reduce", ALL_REDUCE, rounds),
        lambda: start_costs("ddp_adamw", DDP, rounds),
        lambda: [first_launch(rounds)],
        lambda: [line_latency()],
        lambda: [import_time()],
        lambda: [processor_share()],
        lambda: [throughput(3, 1) if given.quick else throughput(15, 7)],
        lambda: [many_launches(20 if given.quick else 200)],
        lambda: checks(rounds),
        lambda: [controls_answer()],
        prediction,
    ]
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for measure in measurements:
            for entry in measure():
                print(line(entry), flush=True)
                rows.append(entry)
        os.chdir("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
