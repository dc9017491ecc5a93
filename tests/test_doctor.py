"""The doctor: right about this machine, and right about machines on which something is wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from ddp_course import doctor, two_ranks
from ddp_course.launcher import gpus

NAMES = [
    *("python", "torch", "backends", "gpus", "cores", "memory", "shared-memory"),
    *("torchrun", "jupyterlab", "folder", "all-reduce"),
]


def run_doctor(*options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ddp_course.cli", "doctor", *options],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=180,
    )


def test_this_machine_can_take_the_course() -> None:
    own = str(Path(sys.executable).parent)
    done = run_doctor("--json", PATH=own + os.pathsep + os.environ["PATH"])
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert list(report) == ["version", "ok", "checks"]
    assert (report["version"], report["ok"]) == (1, True)
    assert [check["name"] for check in report["checks"]] == NAMES
    assert all(list(check) == ["name", "status", "value", "advice"] for check in report["checks"])
    assert all(bool(check["advice"]) == (check["status"] != "ok") for check in report["checks"])
    values = {check["name"]: check["value"] for check in report["checks"]}
    assert sys.version.split()[0] in values["python"]
    assert "gloo" in values["backends"]
    assert values["torchrun"] == str(Path(own, "torchrun"))
    assert values["all-reduce"].startswith("2 ranks over ")


def test_people_get_a_line_for_each_check_and_a_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    assert doctor.main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in lines if line[:1] not in ("", " ", "T")] == NAMES
    assert lines[-1] == "The course can be taken here."


def test_a_problem_makes_the_exit_code_1_and_a_warning_does_not(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctor, "CHECKS", [lambda: doctor.check_cores(enough=10_000)])
    assert doctor.main([]) == 0
    assert doctor.ADVICE["cores"] in capsys.readouterr().out
    monkeypatch.setattr(doctor, "CHECKS", [lambda: doctor.check_folder(Path("/no/such/folder"))])
    assert doctor.main(["--json"]) == 1
    assert json.loads(capsys.readouterr().out)["ok"] is False


def test_a_check_that_breaks_is_a_problem_line_not_a_traceback() -> None:
    def check_all_reduce() -> doctor.Check:
        raise ZeroDivisionError("of all things")

    found = doctor.examine(check_all_reduce)
    assert (found.name, found.status) == ("all-reduce", "problem")
    assert found.value == "ZeroDivisionError: of all things"


def foreign_torchrun(folder: Path) -> None:
    (folder / "torchrun").write_text("#!/bin/sh\n")
    (folder / "torchrun").chmod(0o755)


def test_another_pythons_torchrun_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    foreign_torchrun(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{Path(sys.executable).parent}")
    found = doctor.check_torchrun()
    assert found.status == "warning"
    assert str(tmp_path / "torchrun") in found.value


def test_no_torchrun_at_all_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert (doctor.check_torchrun().status, doctor.check_torchrun().value) == ("warning", "not on PATH")


def test_small_shared_memory_is_a_warning_and_none_is_not(tmp_path: Path) -> None:
    small = doctor.check_shared_memory(tmp_path, enough=2**62)
    assert (small.status, small.advice) == ("warning", doctor.ADVICE["shared-memory"])
    assert doctor.check_shared_memory(tmp_path / "absent").status == "ok"


def test_little_memory_is_a_warning() -> None:
    assert doctor.check_memory(enough=2**62).status == "warning"
    free = float(doctor.check_memory().value.split()[0])
    assert 0 < free <= psutil.virtual_memory().total / doctor.GIB


def test_a_folder_that_cannot_be_written_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert doctor.check_folder(tmp_path / "file").status == "problem"
    assert doctor.check_folder(tmp_path / "absent").status == "problem"
    assert doctor.check_folder(tmp_path, enough=2**62).advice == doctor.ADVICE["disk"]
    assert doctor.check_folder(tmp_path, enough=0).status == "ok"
    assert [file.name for file in tmp_path.iterdir()] == ["file"], "the check left something behind"
    (tmp_path / ".ddp_course").write_text("")
    assert doctor.check_folder(tmp_path, enough=0).status == "problem"


def test_a_torch_that_does_not_import_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    assert (doctor.check_torch().status, doctor.check_torch().advice) == ("problem", doctor.ADVICE["torch"])


def test_a_rank_that_raises_is_named_by_its_own_error() -> None:
    with pytest.raises(two_ranks.Failed, match=r"2 ranks over \w+: ended by .*RuntimeError: no way out$"):
        two_ranks.all_reduce(60, script='raise RuntimeError("no way out")')


def lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_ranks_that_hang_end_at_the_time_limit_and_leave_no_process(tmp_path: Path) -> None:
    script = f"import os, time; open(f'{tmp_path}/{{os.getpid()}}', 'w'); time.sleep(600)"
    start = time.monotonic()
    with pytest.raises(two_ranks.Failed, match="timeout"):
        two_ranks.all_reduce(15, script=script)
    assert time.monotonic() - start < 25
    pids = [int(file.name) for file in tmp_path.iterdir()]
    assert len(pids) == 2, "the ranks never started, so the test proves nothing"
    assert not [pid for pid in pids if lives(pid)]


class FakeNvml:
    """Two GPUs joined by NVLink and a third behind the other socket. There is no GPU here to ask."""

    NVMLError = type("NVMLError", (Exception,), {})
    NVMLError_LibraryNotFound = type("NVMLError_LibraryNotFound", (NVMLError,), {})
    NVMLError_DriverNotLoaded = type("NVMLError_DriverNotLoaded", (NVMLError,), {})
    NVML_P2P_CAPS_INDEX_NVLINK, NVML_P2P_STATUS_OK = 2, 0
    NVML_TOPOLOGY_MULTIPLE, NVML_TOPOLOGY_HOSTBRIDGE, NVML_TOPOLOGY_NODE = 20, 30, 40

    def __init__(self, fails_with: type[Exception] | None = None) -> None:
        self.fails_with = fails_with

    def nvmlInit(self) -> None:
        if self.fails_with:
            raise self.fails_with("Driver/library version mismatch")

    def nvmlShutdown(self) -> None: ...

    def nvmlDeviceGetCount(self) -> int:
        return 3

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        return index

    def nvmlDeviceGetUUID(self, handle: int) -> str:
        return f"GPU-{'abc'[handle]}0"

    def nvmlDeviceGetName(self, handle: int) -> str:
        return "NVIDIA L4" if handle == 2 else "NVIDIA H200"

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> SimpleNamespace:
        return SimpleNamespace(total=(24 if handle == 2 else 140) * 2**30)

    def nvmlDeviceGetP2PStatus(self, a: int, b: int, _: int) -> int:
        return 0 if 2 not in (a, b) else 5

    def nvmlDeviceGetTopologyCommonAncestor(self, a: int, b: int) -> int:
        return 50

    def nvmlSystemGetCudaDriverVersion(self) -> int:
        return 12080


def test_gpus_with_their_memory_and_links(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    found = gpus.find(FakeNvml())
    assert found.cuda == (12, 8)
    assert str(found) == ("2 × NVIDIA H200, 140 GiB; 1 × NVIDIA L4, 24 GiB; NVLink: 0–1; PCIe across sockets: 0–2, 1–2")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    assert str(gpus.find(FakeNvml())) == "2 × NVIDIA H200, 140 GiB; all connected by NVLink"


@pytest.mark.parametrize(
    ("setting", "left"),
    [(None, [0, 1, 2]), ("", []), ("2,0", [2, 0]), ("GPU-b", [1]), ("0,7,1", [0]), ("-1", []), ("GPU-", [])],
)
def test_cuda_visible_devices_as_cuda_reads_it(setting: str | None, left: list[int]) -> None:
    devices = [gpus.Device(i, f"GPU-{'abc'[i]}0", "", 0) for i in range(3)]
    assert [device.index for device in gpus.visible(devices, setting)] == left


def test_no_driver_is_no_gpu_and_a_broken_driver_is_said() -> None:
    assert gpus.find(FakeNvml(FakeNvml.NVMLError_LibraryNotFound)) == gpus.Gpus()
    assert "mismatch" in gpus.find(FakeNvml(FakeNvml.NVMLError)).error


def test_gpus_that_torch_cannot_use_are_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    there = gpus.find(FakeNvml())
    monkeypatch.setattr(gpus, "find", lambda: there)
    monkeypatch.setattr(torch.distributed, "is_nccl_available", lambda: False)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    assert (doctor.check_backends().status, doctor.check_backends().advice) == ("warning", doctor.ADVICE["nccl"])
    assert (doctor.check_gpus().status, doctor.check_gpus().advice) == ("warning", doctor.ADVICE["old driver"])
    monkeypatch.setattr(torch.version, "cuda", "12.6")
    assert doctor.check_gpus().status == "ok"


@pytest.mark.gpu
def test_the_doctor_initialises_no_cuda() -> None:
    checks = "[doctor.examine(check) for check in doctor.CHECKS[:4]]"
    code = f"from ddp_course import doctor; {checks}; import torch; print(torch.cuda.is_initialized())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "False", done.stderr


@pytest.mark.gpu
def test_the_doctor_sees_what_torch_sees_and_reduces_over_nccl() -> None:
    done = run_doctor("--json")
    values = {check["name"]: check["value"] for check in json.loads(done.stdout)["checks"]}
    code = "import torch; print(torch.cuda.get_device_name(0), torch.cuda.device_count())"
    seen = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    name, _, count = seen.stdout.strip().rpartition(" ")
    assert name in values["gpus"]
    assert len(gpus.find().devices) == int(count)
    assert values["all-reduce"].startswith("2 ranks over nccl")
