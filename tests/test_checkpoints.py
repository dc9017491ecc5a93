"""Lesson 3's own scripts for checkpoints: exact on other numbers of ranks, and whole whenever a rank is killed."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
import torch
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

from ddp_course import launch

LESSON = Path(__file__).parent.parent / "solutions" / "03_syncbatchnorm_and_sharded_state.md"
KILLS = 20


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with the scripts that the lesson's cells save."""
    for name, script in re.findall(r"^%%torchrun .*--file (\S+).*\n((?:.*\n)*?)```", LESSON.read_text(), re.MULTILINE):
        (tmp_path / name).write_text(script)
    monkeypatch.chdir(tmp_path)


def test_a_checkpoint_of_4_ranks_is_exact_on_2_and_on_1() -> None:
    launch("save_small.py", nproc_per_node=4)
    _, optimizer = torch.load("whole.pt", weights_only=True)
    assert optimizer["state"]["0.weight"]["exp_avg"].abs().sum() > 0
    said = [launch("load_small.py", nproc_per_node=ranks).ranks[0].stdout for ranks in (2, 1)]
    assert said[0] == said[1]
    assert "weights: True  optimizer: True" in said[0]
    samples = said[0].partition("after step 3 come")[2]
    assert len(set(re.findall(r"\d+", samples))) == 12


@pytest.mark.parametrize(
    ("part", "said"), [(0, "weights: False  optimizer: True"), (1, "weights: True  optimizer: False")]
)
def test_one_changed_number_would_be_noticed(part: int, said: str) -> None:
    launch("save_small.py", nproc_per_node=4)
    whole = torch.load("whole.pt", weights_only=True)
    changed = whole[0]["0.weight"] if part == 0 else whole[1]["state"]["0.weight"]["exp_avg"]
    changed[0, 0] = changed[0, 0].nextafter(torch.tensor(9.0))
    torch.save(whole, "whole.pt")
    assert said in launch("load_small.py", nproc_per_node=2).ranks[0].stdout


@pytest.mark.timeout(600)
def test_a_kill_at_any_of_20_random_points_leaves_the_newest_checkpoint_whole() -> None:
    launch("save_until_killed.py", "0", nproc_per_node=2)
    for seed in range(1, KILLS + 1):
        run = launch("save_until_killed.py", str(seed), nproc_per_node=2, check=False, timeout=60)
        assert run.ranks[seed % 2].signal == "SIGKILL", run.transcript
        newest = max(name for name in os.listdir("saved") if not name.endswith(".tmp"))
        dcp_to_torch_save(os.path.join("saved", newest), "newest.pt")
        number = int(newest.removeprefix("step-"))
        weights = torch.load("newest.pt", weights_only=True)["model"]
        assert weights and all(tensor.eq(number).all() for tensor in weights.values()), f"{newest} after kill {seed}"
    left = [name for name in os.listdir("saved") if name.endswith(".tmp")]
    assert left, "no kill fell into a save: the test shows nothing"


KILLED_WHILE_THE_OTHER_WRITES = """
write = dcp.FileSystemWriter.write_data


def killed(self, plan, planner):
    if dist.get_rank() == 1 and number == 3:
        time.sleep(1)  # seconds, for the other rank's file
        os.kill(os.getpid(), signal.SIGKILL)
    return write(self, plan, planner)


dcp.FileSystemWriter.write_data = killed
for number in range(5):
"""


def test_saved_in_place_a_kill_spoils_the_only_checkpoint() -> None:
    """So that the test above could fail: the same script without the other name, killed between its two files."""
    script = Path("save_until_killed.py").read_text()
    in_place = script.replace('f"{name}.tmp"', "name").replace("os.replace(name, name)", "pass")
    in_place = re.sub(r'name = f"saved.*"', 'name = "saved/newest"', in_place)
    in_place = re.sub(r"for number in .*\n", KILLED_WHILE_THE_OTHER_WRITES, in_place)
    Path("in_place.py").write_text("import time\n" + in_place)
    run = launch("in_place.py", "0", nproc_per_node=2, check=False, timeout=60)
    assert run.ranks[1].signal == "SIGKILL", run.transcript
    dcp_to_torch_save("saved/newest", "newest.pt")
    weights = torch.load("newest.pt", weights_only=True)["model"]
    assert {number.item() for tensor in weights.values() for number in tensor.unique()} == {2, 3}
