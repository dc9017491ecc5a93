"""The take-home script: the same training on any number of ranks, nodes and starts."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch

from ddp_course import LaunchError, Run, launch

LESSONS = Path(__file__).parent.parent / "lessons"
SCRIPT = LESSONS / "train_ddp.py"
SHORT = ["--steps", "6", "--batch-size", "16", "--log-every", "1", "--precision", "fp32", "--deterministic"]


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs and checkpoints go to a folder of the test. One thread a rank, as torchrun sets it for several."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("PYTHONPATH", str(LESSONS))


@pytest.fixture
def small_text(tmp_path: Path) -> list[str]:
    """A text of 72 training windows, the last one short: an epoch of four steps at a batch of 16."""
    path = tmp_path / "text.txt"
    path.write_bytes(bytes(32 + (7 * i * i + i // 3) % 90 for i in range(71 * 64 * 10 // 9 + 30)))
    return ["--text", str(path)]


def test_the_lesson_shows_this_very_script() -> None:
    source = (LESSONS.parent / "solutions" / "02_ddp_basics.md").read_text(encoding="utf-8")
    cell = re.search(r"^%%torchrun --file train_ddp\.py[^\n]*\n(.*?)^```", source, re.DOTALL | re.MULTILINE)
    assert cell and cell[1] == SCRIPT.read_text(encoding="utf-8"), "copy the cell to lessons/train_ddp.py"


def losses(run: Run, rank: int = 0) -> list[float]:
    return [values["loss"] for values in run.ranks[rank].reports if "loss" in values]


def validation(run: Run) -> float:
    return float(run.ranks[0].reports[-1]["validation"])


def bits(checkpoint: str) -> list[bytes]:
    """Weights and optimizer state, to the last bit."""
    saved = torch.load(checkpoint, weights_only=True)
    states = saved["optimizer"]["state"].values()
    tensors = [*saved["model"].values(), *(t for state in states for t in state.values())]
    return [tensor.numpy().tobytes() for tensor in tensors]


def test_one_rank_two_ranks_and_accumulation_train_alike() -> None:
    twenty = ["--steps", "20", "--log-every", "1", "--precision", "fp32"]
    one = launch(SCRIPT, *twenty)
    two = launch(SCRIPT, *twenty, nproc_per_node=2)
    pieces = launch(SCRIPT, *twenty, "--accumulate", "4", nproc_per_node=2)
    assert len(losses(one)) == 20
    assert losses(one) == pytest.approx(losses(two), abs=1e-4)
    assert losses(one) == pytest.approx(losses(pieces), abs=1e-4)
    assert validation(one) == pytest.approx(validation(two), abs=1e-4)
    assert losses(two) == losses(two, rank=1), "every rank must report the same reduced loss"
    assert losses(one)[0] == pytest.approx(5.55, abs=0.5), "untrained: near ln 256"
    assert losses(one)[-1] < 4.5


def test_a_resumed_run_equals_the_uninterrupted_one_to_the_last_bit(small_text: list[str]) -> None:
    # Dropout uses the random state, 6 steps at 4 an epoch cross an epoch, and 3 steps stop inside one.
    arguments = [*SHORT, *small_text, "--dropout", "0.1", "--accumulate", "2"]
    whole = launch(SCRIPT, *arguments, "--checkpoint", "whole.pt", nproc_per_node=2)
    launch(SCRIPT, *arguments, "--steps", 3, "--checkpoint", "parts.pt", nproc_per_node=2)
    stopped = bits("parts.pt")
    rest = launch(SCRIPT, *arguments, "--checkpoint", "parts.pt", "--resume", nproc_per_node=2)
    assert losses(rest) == losses(whole)[3:]
    assert stopped != bits("whole.pt")
    assert bits("parts.pt") == bits("whole.pt")


def test_a_checkpoint_of_two_ranks_goes_on_with_one(small_text: list[str]) -> None:
    arguments = [*SHORT, *small_text, "--checkpoint", "gpt.pt"]
    whole = launch(SCRIPT, *SHORT, *small_text)
    launch(SCRIPT, *arguments, "--steps", 3, nproc_per_node=2)
    rest = launch(SCRIPT, *arguments, "--resume")
    assert losses(rest) == pytest.approx(losses(whole)[3:], abs=1e-4)


def test_resume_without_a_file_starts_at_the_beginning(small_text: list[str]) -> None:
    run = launch(SCRIPT, *SHORT, *small_text, "--steps", 1, "--checkpoint", "gpt.pt", "--resume")
    assert len(losses(run)) == 1


def test_no_half_written_checkpoint_is_left(small_text: list[str], tmp_path: Path) -> None:
    launch(SCRIPT, *SHORT, *small_text, "--save-every", 1, "--steps", 2, "--checkpoint", "gpt.pt")
    assert [path.name for path in tmp_path.glob("gpt.pt*")] == ["gpt.pt"]
    saved = torch.load("gpt.pt", weights_only=True)
    assert saved["step"] == 2
    assert not any(name.startswith("module.") for name in saved["model"])


def test_a_batch_that_does_not_split_is_refused() -> None:
    with pytest.raises(LaunchError):
        launch(SCRIPT, "--steps", 1, "--batch-size", 15, nproc_per_node=2)


def test_resuming_with_another_batch_size_is_refused(small_text: list[str]) -> None:
    arguments = [*small_text, "--steps", 1, "--checkpoint", "gpt.pt", "--resume"]
    launch(SCRIPT, *arguments)
    run = launch(SCRIPT, *arguments, "--batch-size", 4, check=False)
    assert "gpt.pt was saved with --batch-size 8" in run.ranks[0].stderr


UNEVEN = """
import contextlib, torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from ddp_course import report
import train_ddp as t

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(rank)                     # unequal weights: DDP has to make them equal
model = DDP(t.GPT().double())
before = {n: p.detach().clone() for n, p in model.module.named_parameters()}
t.CLIP = float("inf")
tokens = torch.arange(4 * 64).view(4, 64) * 7 % 256
targets = tokens.roll(-1)
for row, real in enumerate([64, 1, 30, 5]):  # targets that are not padding
    targets[row, real:] = t.PADDING
mine = range(rank, 4, world)
batches = [(tokens[i : i + 1], targets[i : i + 1]) for i in mine]
optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
total, count, norm = t.train_step(model, optimizer, batches, contextlib.nullcontext())
dist.all_reduce(total)

alone = t.GPT().double()
alone.load_state_dict(before)
loss = torch.nn.functional.cross_entropy(alone(tokens).flatten(0, 1), targets.flatten())
loss.backward()
worst = max((before[n] - p.grad - q).abs().max() for (n, p), q in
            zip(alone.named_parameters(), model.module.parameters()))
report(worst=worst.item(), off=abs((total / count).item() - loss.item()), count=count.item(), norm=norm.item())
del model, optimizer
dist.destroy_process_group()
"""


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_a_step_weighs_every_target_the_same_wherever_it_is(ranks: int, tmp_path: Path) -> None:
    (tmp_path / "uneven.py").write_text(textwrap.dedent(UNEVEN))
    run = launch("uneven.py", nproc_per_node=ranks)
    for rank in run.ranks:
        (values,) = rank.reports
        assert values["count"] == 100
        assert values["worst"] < 1e-12, "one SGD step must equal the one-process step"
        assert values["off"] < 1e-12
        assert values["norm"] > 0


def test_training_and_held_out_text_share_no_paragraph(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(LESSONS))
    import train_ddp

    documents = train_ddp.load_documents()
    parts = [part for text in documents for part in text.split(b"\n\n") if part]
    assert len(parts) == len(set(parts))
    training, held_out = train_ddp.split(documents)
    assert [a + b for a, b in zip(training, held_out, strict=True)] == documents
    windows = train_ddp.make_windows(documents)
    inputs, targets = windows.tensors
    assert (targets != train_ddp.PADDING).sum() == sum(max(0, len(text) - 1) for text in documents)
    assert inputs[0, 1:].equal(targets[0, :-1])


def bare_torchrun(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "torch.distributed.run", *arguments, str(SCRIPT), *SHORT]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def printed_losses(text: str) -> list[str]:
    return re.findall(r"loss (\d\.\d{3})", text)


def test_two_nodes_by_plain_torchrun_print_what_two_ranks_print() -> None:
    expected = printed_losses(launch(SCRIPT, *SHORT, nproc_per_node=2).ranks[0].stdout)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    common = ["--nnodes=2", "--nproc-per-node=1", "--master-addr=127.0.0.1", f"--master-port={port}"]
    nodes = [bare_torchrun(*common, f"--node-rank={rank}", "--local-addr=127.0.0.1") for rank in (0, 1)]
    outputs = [node.communicate(timeout=100) for node in nodes]
    assert [node.returncode for node in nodes] == [0, 0], "\n".join(error for _, error in outputs)
    assert printed_losses(outputs[0][0]) == expected
    assert outputs[1][0] == "", "rank 0 alone prints"
    assert os.listdir() == [".ddp_course"], "no file is written that was not asked for"


def test_without_torchrun_it_says_how_to_start() -> None:
    done = subprocess.run([sys.executable, SCRIPT], capture_output=True, text=True)
    assert done.returncode == 2
    assert "start me with torchrun" in done.stderr
