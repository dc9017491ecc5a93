"""Killed runs: what comes back, to the last bit, and what is shown of the kill."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from ddp_course import Run, launch
from ddp_course.pictures.restarts import starts

ROOT = Path(__file__).parent.parent
EXAM = [
    "--dropout",
    "0.1",
    "--log-every",
    "1",
    "--precision",
    "fp32",
    "--deterministic",
    "--save-every",
    "1",
    "--resume",
]
STEPS, KILLS = 24, 10

# train_ddp.py, in which a rank may be killed in every start: any rank, in any step, at any moment of it. With a pace,
# node 1 is lost after five steps instead, and a step of a single rank takes so many seconds.
CHAOS = """
import os, random, signal, sys, threading, time
import torch.distributed as dist
import train_ddp
from ddp_course import report

seed, kills, pace = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
del sys.argv[1:4]
start = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
draw = random.Random(f"{seed} {start}")  # alike on all ranks
victim, step, moment = draw.randrange(2), draw.randint(1, 3), draw.uniform(0, 0.1)
samples, train_step, began = [], train_ddp.train_step, 0


class NotingSampler(train_ddp.ResumableSampler):
    def __iter__(self):
        for sample in super().__iter__():
            samples.append(sample)
            yield sample


def kill_soon():
    time.sleep(moment)
    os.kill(os.getpid(), signal.SIGKILL)


def deadly_step(*arguments):
    global began
    world, rank = dist.get_world_size(), dist.get_rank()
    report(samples=samples[:])
    samples.clear()
    began += 1
    if start < kills and began == step and rank == victim:
        threading.Thread(target=kill_soon, daemon=True).start()
    if pace and began == 5 and rank == 1 and not os.path.exists("lost"):
        os.mkdir("lost")
        os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(pace if world == 1 else 0)
    return train_step(*arguments)


train_ddp.ResumableSampler, train_ddp.train_step = NotingSampler, deadly_step
train_ddp.main()
"""


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "lessons"))
    Path("chaos.py").write_text(CHAOS)


def train(checkpoint: str, *more: Any, seed: int = 0, kills: int = 0, pace: float = 0.0, **options: Any) -> Run:
    options = {"nproc_per_node": 2, "max_restarts": kills, "timeout": 280, **options}
    return launch("chaos.py", seed, kills, pace, *EXAM, "--steps", STEPS, "--checkpoint", checkpoint, *more, **options)


def steps(run: Run, rank: int = 0) -> dict[int, tuple[float, list[int]]]:
    """{step: (loss, ids of the samples)} of one rank. A step that was made twice has to have come out the same."""
    done: dict[int, tuple[float, list[int]]] = {}
    ids: list[int] = []
    for values in run.ranks[rank].reports:
        if "samples" in values:
            ids = values["samples"]
        elif "loss" in values:
            step = values["step"]
            assert done.setdefault(step, (values["loss"], ids)) == (values["loss"], ids), f"step {step} made twice"
    return done


def shares(run: Run) -> dict[int, tuple[float, list[int]]]:
    """{step: (loss, ids of the samples of all ranks, sorted)}."""
    each = [steps(run, rank.rank) for rank in run.ranks]
    return {
        step: (loss, sorted(sample for rank in each if step in rank for sample in rank[step][1]))
        for step, (loss, _) in each[0].items()
    }


def weights(checkpoint: str) -> list[bytes]:
    """Weights and AdamW's state, to the last bit."""
    saved = torch.load(checkpoint, map_location="cpu", weights_only=True)
    states = saved["optimizer"]["state"].values()
    tensors = [*saved["model"].values(), *(tensor for state in states for tensor in state.values())]
    return [tensor.numpy().tobytes() for tensor in tensors]


def test_ten_kills_leave_no_trace() -> None:
    """A random rank, at a random step, at a random moment of it, ten times in one run of real training."""
    seed = random.randrange(1000)
    print(f"seed {seed}")
    whole, killed = train("whole.pt"), train("killed.pt", seed=seed, kills=KILLS)
    signals = [attempt.signal for rank in killed.ranks for attempt in rank.attempts]
    assert signals.count("SIGKILL") == KILLS, f"seed {seed}: {signals}"
    assert [len(rank.attempts) for rank in killed.ranks] == [KILLS + 1] * 2
    for rank in (0, 1):
        assert sorted(steps(killed, rank)) == list(range(1, STEPS + 1)), f"seed {seed}"
        assert steps(killed, rank) == steps(whole, rank), f"seed {seed}: losses and samples of rank {rank}"
    assert weights("killed.pt") == weights("whole.pt"), f"seed {seed}"
    assert killed.ranks[0].reports[-1]["validation"] == whole.ranks[0].reports[-1]["validation"]


@pytest.mark.slow
def test_the_test_sees_a_trace_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the ranks' random states in the snapshot, a killed run must not pass for an undisturbed one."""
    source = (ROOT / "lessons" / "train_ddp.py").read_text()
    forgetful = source.replace('random_state(checkpoint["random"][dist.get_rank()])', "pass")
    assert forgetful != source
    Path("train_ddp.py").write_text(forgetful)
    whole, killed = train("whole.pt", "--steps", 6), train("killed.pt", "--steps", 6, seed=3, kills=1)
    assert steps(killed) != steps(whole) and weights("killed.pt") != weights("whole.pt")


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [1, 4])
def test_another_number_of_ranks_keeps_samples_and_losses(ranks: int) -> None:
    train("whole.pt", "--steps", 4, "--dropout", 0)
    before = weights("whole.pt")
    Path("other.pt").write_bytes(Path("whole.pt").read_bytes())
    whole = train("whole.pt", "--steps", 8, "--dropout", 0)
    other = train("other.pt", "--steps", 8, "--dropout", 0, nproc_per_node=ranks)
    there, here = shares(whole), shares(other)
    assert sorted(here) == [5, 6, 7, 8]
    for step, (loss, ids) in here.items():
        assert ids == there[step][1], f"step {step}"
        assert loss == pytest.approx(there[step][0], abs=1e-5), f"step {step}"
    assert before != weights("other.pt")
    assert weights("other.pt") != weights("whole.pt"), "sums in another order: the lesson says that the bits differ"


@pytest.mark.slow
def test_a_node_is_lost_and_comes_back_and_the_training_goes_on() -> None:
    """World size 2, then 1, then 2: the samples of every step are those of an undisturbed run, its losses almost."""
    plain = ["--dropout", 0, "--steps", 60]
    short = "last_call_timeout=1,keep_alive_interval=1,keep_alive_max_attempt=5"
    whole = train("whole.pt", *plain)
    run = train(
        "elastic.pt", *plain, pace=0.3, nproc_per_node=1, nnodes="1:2", max_restarts=3, return_after=9, rdzv_conf=short
    )
    worlds = [int(number) for number in re.findall(r"windows, (\d) × ", run.ranks[0].stdout)]
    assert worlds == [2, 1, 2], run.transcript
    there, here = shares(whole), shares(run)
    assert sorted(here) == sorted(there) == list(range(1, 61))
    for step, (loss, ids) in here.items():
        assert ids == there[step][1], f"step {step}"
        assert loss == pytest.approx(there[step][0], abs=1e-3), f"step {step}"


KILLED = """
import os, signal
import torch, torch.distributed as dist
dist.init_process_group("gloo")
if dist.get_rank() == 1 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
    os.kill(os.getpid(), signal.SIGKILL)
dist.all_reduce(torch.ones(1))
print("together")
"""


def test_a_kill_is_named_and_its_victims_say_nothing() -> None:
    Path("killed.py").write_text(KILLED)
    run = launch("killed.py", nproc_per_node=2, max_restarts=1)
    assert run.transcript.splitlines()[1:] == [
        "rank 0 ↻ attempt 2",
        "rank 0 │ together",
        "rank 1 ✗ SIGKILL",
        "rank 1 ↻ attempt 2",
        "rank 1 │ together",
        "✓ 2 ranks finished",
    ]


def test_an_error_that_a_restart_got_over_stays_in_the_text() -> None:
    Path("fails.py").write_text(
        "import os\n"
        "if os.environ['TORCHELASTIC_RESTART_COUNT'] == '0':\n"
        "    raise ValueError('bad luck')\n"
        "print('better')\n"
    )
    run = launch("fails.py", max_restarts=1)
    assert "ValueError: bad luck" in run.transcript and "rank 0 │ better" in run.transcript


def test_the_picture_shows_every_start_on_the_whole_run_and_a_cross_for_each_kill() -> None:
    whole = {1: 5.0, 2: 4.0, 3: 3.0}
    (axes,) = starts(whole, {0: {1: 5.0}, 1: {2: 4.0, 3: 3.0}}).axes
    lines = [list(zip(line.get_xdata(), line.get_ydata(), strict=True)) for line in axes.lines]
    assert lines == [list(whole.items()), [(1, 5.0)], [(1.4, 5.0)], [(2, 4.0), (3, 3.0)]]
    assert [line.get_marker() for line in axes.lines].count("x") == 1
    assert "step" in axes.get_xlabel() and "nats" in axes.get_ylabel()
