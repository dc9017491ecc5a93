"""Lesson 3, first half: its trainings, its own SyncBatchNorm, the bytes of the stages, its pictures."""

from __future__ import annotations

import inspect
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ddp_course import launch, sync_batch_norm
from ddp_course.controls import sharding_calculator
from ddp_course.exercises import bookkeeping, check, find
from ddp_course.memory import GB, State, fp32_adamw, mixed_adam
from ddp_course.pictures.lesson_03 import drift, image_shards, stage_bytes

ROOT = Path(__file__).parent.parent
SOURCE = (ROOT / "solutions" / "03_syncbatchnorm_and_sharded_state.md").read_text()
PSI = 8 * (256 * 256 + 256)


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def script(name: str) -> str:
    """The lesson's own script of this name, saved here."""
    (cell,) = re.findall(rf"^%%torchrun [^\n]*--file {name}[^\n]*\n(.*?)^```$", SOURCE, re.M | re.S)
    Path(name).write_text(cell)
    return name


def train(norm: str, each: int, buffers: str, ranks: int) -> tuple[list[float], list[Any]]:
    """The accuracy of every rank and what every rank saved."""
    import torch

    run = launch(script("train_digits.py"), norm, each, buffers, nproc_per_node=ranks)
    files = [f"{norm}_{each}_{buffers}_{rank}_of_{ranks}.pt" for rank in range(ranks)]
    saved = [torch.load(file, weights_only=True) for file in files]
    return [rank.reports[-1]["accuracy"] for rank in run.ranks], saved


# BatchNorm


@pytest.mark.parametrize(("each", "loss"), [(2, 0.2), (4, 0.08)])
def test_sorted_shards_cost_batchnorm_its_accuracy_and_synchronising_brings_it_back(each: int, loss: float) -> None:
    (one,), (state,) = train("batch", each, "kept", ranks=1)
    apart, _ = train("batch", each, "kept", ranks=4)
    together, saved = train("sync", each, "kept", ranks=4)
    assert one > 0.85 and max(apart) < one - loss
    assert together == [one] * 4
    for mine in saved:
        assert all((mine[name] - state[name]).abs().max() < 1e-8 for name in state)


def test_another_kind_of_processor_gets_the_same_accuracies() -> None:
    """Other instructions round otherwise: as if the weights had been a little different at the beginning."""
    import torch

    accuracies, saved = train("batch", 2, "kept", ranks=4)
    path = Path("train_digits.py")
    nudge = "for weight in net.parameters():\n    weight.data *= 1 + 1e-13\n"
    path.write_text(path.read_text().replace("model = DDP(", nudge + "model = DDP("))
    run = launch(path.name, "batch", 2, "kept", nproc_per_node=4)
    assert [rank.reports[-1]["accuracy"] for rank in run.ranks] == accuracies
    nudged = torch.load("batch_2_kept_0_of_4.pt", weights_only=True)
    assert 0 < max((nudged[name] - saved[0][name]).abs().max() for name in nudged) < 1e-6


def test_rank_0s_file_is_the_same_with_synchronised_buffers_and_the_others_is_not() -> None:
    _, kept = train("batch", 2, "kept", ranks=2)
    _, synced = train("batch", 2, "synced", ranks=2)
    assert all(kept[0][name].equal(synced[0][name]) for name in kept[0])
    assert not kept[1]["4.running_mean"].equal(synced[1]["4.running_mean"])


def test_a_step_has_the_same_images_on_any_number_of_ranks() -> None:
    import torch

    from ddp_course.small_cnn import sorted_batch, sorted_shards

    whole, labels = sorted_batch(3, 2, 0, 1)
    for world in (2, 4):
        parts = [sorted_batch(3, 2, rank, world)[0] for rank in range(world)]
        assert sorted(map(str, torch.cat(parts))) == sorted(map(str, whole))
    assert len(labels) == 8 and sorted_shards().unique().numel() == sorted_shards().numel()


def test_the_courses_own_layer_passes_the_check() -> None:
    Path("own.py").write_text(inspect.getsource(sync_batch_norm))
    result = check.check(find("sync_batch_norm"), Path("own.py"), [11])
    assert result.state == "passed", result.text


def test_the_learners_layer_is_used_once_it_has_passed() -> None:
    answer = Path(".ddp_course/answers/sync_batch_norm/0001.py")
    answer.parent.mkdir(parents=True)
    shutil.copy(ROOT / "tests" / "answers" / "sync_batch_norm" / "right_by_formula.py", answer)
    assert sync_batch_norm.own() is sync_batch_norm.SyncBatchNorm, "not before it has passed"
    bookkeeping.record("sync_batch_norm", "done")
    assert sync_batch_norm.own() is not sync_batch_norm.SyncBatchNorm
    assert sync_batch_norm.own().__name__ == "SyncBatchNorm"


def test_convert_does_what_torchs_does() -> None:
    from torch import nn

    for convert in (sync_batch_norm.convert, nn.SyncBatchNorm.convert_sync_batchnorm):
        net = nn.Sequential(nn.Conv2d(1, 2, 1), nn.Sequential(nn.BatchNorm2d(2, eps=0.1, momentum=None))).eval()
        inner = net[1][0]
        converted = convert(net)
        assert converted is net and type(net[1][0]).__name__ == "SyncBatchNorm"
        assert net[1][0].weight is inner.weight and net[1][0].running_mean is inner.running_mean
        assert (net[1][0].eps, net[1][0].momentum, net[1][0].training) == (0.1, None, False)
        layer = nn.BatchNorm2d(2)
        assert convert(layer) is not layer


def test_torch_refuses_its_own_layer_on_the_cpu() -> None:
    """Where it no longer does, the lesson has to say so."""
    Path("cell.py").write_text(
        "import torch, torch.distributed as dist\n"
        "dist.init_process_group('gloo')\n"
        "torch.nn.SyncBatchNorm(3)(torch.ones(2, 3, 1, 1))\n"
    )
    run = launch("cell.py", nproc_per_node=2, check=False)
    assert run.diagnosis is not None and run.diagnosis.kind == "sync_batch_norm_on_cpu"


@pytest.mark.gpu
def test_on_gpus_the_courses_layer_is_torchs() -> None:
    """Started by torchrun itself: the course's launcher hides the GPUs from two ranks that would share one."""
    program = ROOT / "tests" / "programs" / "sync_batch_norm_on_gpu.py"
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", str(program)]
    done = subprocess.run(torchrun, capture_output=True, text=True, timeout=120)
    assert [float(line) < 1e-10 for line in done.stdout.split()] == [True, True], done.stdout + done.stderr


# Bytes


@pytest.mark.parametrize("ranks", [1, 2, 4])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_what_is_alive_on_every_rank_is_the_formula_to_the_byte(dtype: str, ranks: int) -> None:
    run = launch(script("stages_live.py"), dtype, nproc_per_node=ranks)
    for row in run.reports:
        stage = row["stage"]
        promised = fp32_adamw(PSI, stage=stage, ranks=ranks) if dtype == "float32" else mixed_adam(PSI, stage, ranks)
        assert State(*row["live"]) == promised
    assert len(run.reports) == 4 * ranks


STEPS = """\
import torch, torch.distributed as dist
from ddp_course import report
from ddp_course.stages import build, layers

dist.init_process_group("gloo")
rank = dist.get_rank()
for stage in range(4):
    net = layers(16, 3)
    model, optimizer = build(net, stage)
    for step in range(3):
        optimizer.zero_grad()
        model(torch.randn(4, 16, generator=torch.Generator().manual_seed(10 * step + rank))).square().mean().backward()
        optimizer.step()
    report(weights=[getattr(p, "full_tensor", lambda p=p: p)().detach() for p in net.parameters()])
    del model, optimizer
dist.destroy_process_group()
"""


def test_every_stage_takes_the_steps_of_ddp() -> None:
    import torch

    Path("cell.py").write_text(STEPS)
    for rank in launch("cell.py", nproc_per_node=2).ranks:
        ddp, *stages = [[torch.tensor(weight) for weight in row["weights"]] for row in rank.reports]
        for weights in stages:
            assert all((a - b).abs().max() < 1e-6 for a, b in zip(ddp, weights, strict=True))


# Rajbhandari et al. 2020, table 1: GB on a GPU at ZeRO-1, 2 and 3
TABLE_1 = {
    (7.5e9, 4): (52.5, 41.3, 30),
    (7.5e9, 16): (35.6, 21.6, 7.5),
    (7.5e9, 64): (31.4, 16.6, 1.88),
    (7.5e9, 256): (30.4, 15.4, 0.47),
    (7.5e9, 1024): (30.1, 15.1, 0.12),
    (128e9, 4): (896, 704, 512),
    (128e9, 16): (608, 368, 128),
    (128e9, 64): (536, 284, 32),
    (128e9, 256): (518, 263, 8),
    (128e9, 1024): (513, 257, 2),
    (1e12, 4): (7000, 5500, 4000),
    (1e12, 16): (4750, 2875, 1000),
    (1e12, 64): (4187, 2218, 250),
    (1e12, 256): (4046, 2054, 62.5),
    (1e12, 1024): (4011, 2013, 15.6),
}


@pytest.mark.parametrize(("model", "published"), TABLE_1.items(), ids=str)
def test_the_zero_papers_table(model: tuple[float, int], published: tuple[float, ...]) -> None:
    psi, ranks = model
    computed = [mixed_adam(int(psi), stage, ranks).total / GB for stage in (1, 2, 3)]
    assert computed == pytest.approx(published, rel=3e-3, abs=0.05)


def test_the_calculator_says_from_which_stage_on_a_model_fits() -> None:
    said = sharding_calculator().text(parameters="70 B", ranks="64", gpu="80 GiB").splitlines()
    assert [line.endswith(": fits") for line in said] == [False, False, False, True]
    assert "120 GB" in sharding_calculator().text() and "1.875 GB" in sharding_calculator().text()


# Pictures


def test_the_drift_is_drawn_with_the_average_of_the_ranks() -> None:
    left, right = drift([[0.0, 1.0], [2.0, 5.0]], {"one process": 0.9, "rank 0": 0.4}).axes
    lines = {line.get_label(): list(line.get_ydata()) for line in left.lines}
    assert lines == {"rank 0": [0, 1], "rank 1": [2, 5], "all ranks": [1, 3]}
    assert [bar.get_width() for bar in right.patches] == [90, 40]
    assert left.get_xlabel() == "step" and right.get_xlabel() == "accuracy (%)"


def test_the_bytes_are_drawn_as_they_were_measured() -> None:
    live = {("DDP", 1): State(1024, 2048, 4096), ("DDP", 2): State(1024, 1024, 1024)}
    (axes,) = stage_bytes(live, {("DDP", 1): 7168.0, ("DDP", 2): 3072.0}).axes
    assert [bar.get_height() for bar in axes.patches] == [1, 2, 4, 1, 1, 1]
    assert [list(line.get_ydata()) for line in axes.lines] == [[7, 7], [3, 3]]


def test_a_row_of_images_is_drawn_for_each_shard() -> None:
    import numpy as np

    picture = image_shards({"rank 0": np.zeros((3, 8, 8)), "rank 1": np.ones((3, 8, 8))})
    assert [len(axes.images) for axes in picture.axes] == [1] * 6
    assert picture.axes[0].get_ylabel() == "rank 0"
