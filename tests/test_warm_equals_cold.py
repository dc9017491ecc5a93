"""A script cannot tell whether its rank was forked from the warm server, started cold, or started by torchrun."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ddp_course import launch

PROBE = Path(__file__).parent / "programs" / "probe.py"

# What differs between any two starts, warm or cold, by nature.
PER_RUN = {"MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_ERROR_FILE"}
RANDOM = {"python_random", "numpy_random", "torch_random", "torch_numbers"}

# What a launch of the course adds to plain torchrun, each with its reason.
ADDED_ENVIRONMENT = {
    "GLOO_SOCKET_IFNAME",  # gloo must listen on the loopback interface only
    "NCCL_SOCKET_IFNAME",  # NCCL likewise
    "PYTORCH_NVML_BASED_CUDA_CHECK",  # the agent must not initialise CUDA before it forks
    "KINETO_LOG_LEVEL",  # the profiler must not write the time of day to stderr
    "MASTER_ADDR",  # 127.0.0.1, not localhost: the store listens on that address alone
}


def _warm_or_cold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nproc: int, warm: bool) -> list[dict[str, Any]]:
    monkeypatch.chdir(tmp_path)
    run = launch(PROBE, "a", "--b=c d", nproc_per_node=nproc, warm=warm)
    return [json.loads(rank.stdout) for rank in run.ranks]


def _bare(tmp_path: Path, nproc: int) -> list[dict[str, Any]]:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={nproc}"]
    command += ["--redirects=3", f"--log-dir={tmp_path / 'logs'}", str(PROBE), "a", "--b=c d"]
    environment = dict(os.environ)  # not the C library's, where readline leaves LINES and COLUMNS
    subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True, timeout=120)
    outputs = sorted((tmp_path / "logs").glob("*/attempt_0/*/stdout.log"))
    return [json.loads(path.read_text()) for path in outputs]


def _comparable(seen: dict[str, Any]) -> dict[str, Any]:
    seen = {key: value for key, value in seen.items() if key not in RANDOM}
    seen["environment"] = {k: v for k, v in seen["environment"].items() if k not in PER_RUN}
    seen["files"] = [Path(name).name for name in seen["files"]]
    return seen


@pytest.mark.parametrize("nproc", [1, 2])
def test_warm_and_cold_give_the_script_the_same_world(
    nproc: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    warm = _warm_or_cold(tmp_path, monkeypatch, nproc, warm=True)
    cold = _warm_or_cold(tmp_path, monkeypatch, nproc, warm=False)
    assert len(warm) == nproc
    for ours, theirs in zip(warm, cold, strict=True):
        assert _comparable(ours) == _comparable(theirs)


def test_cold_and_plain_torchrun_differ_only_where_the_list_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ADDED_ENVIRONMENT:
        monkeypatch.delenv(name, raising=False)
    for cold, bare in zip(_warm_or_cold(tmp_path, monkeypatch, 2, warm=False), _bare(tmp_path, 2), strict=True):
        cold, bare = _comparable(cold), _comparable(bare)
        different = {k for k in cold["environment"] if cold["environment"][k] != bare["environment"].get(k)}
        assert different == ADDED_ENVIRONMENT
        assert bare["environment"].keys() <= cold["environment"].keys()
        assert bare["files"] == ["null", "stderr.log", "stdout.log"]
        rank = cold["environment"]["RANK"]
        kinds = ("ask", "err", "out", "reports", "stacks")
        assert cold["files"] == ["null", *(f"rank-{rank}.{kind}" for kind in kinds)]
        assert cold["threads"] == bare["threads"] + 1  # tells, when asked, where a rank hangs; unknown to `threading`
        for seen in (cold, bare):
            del seen["environment"], seen["files"], seen["threads"]
        assert cold == bare


@pytest.mark.parametrize("warm", [True, False])
def test_random_numbers_differ_between_ranks_and_runs(
    warm: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = [rank for _ in range(2) for rank in _warm_or_cold(tmp_path, monkeypatch, 2, warm)]
    for state in RANDOM:
        assert len({str(rank[state]) for rank in seen}) == 4, f"{state} repeats between ranks or runs"
