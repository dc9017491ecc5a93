"""The TrainJob manifest: against Kubeflow's published models, and its command with the variables Kubeflow sets."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubeflow_trainer_api import models
from pydantic import ValidationError

from ddp_course import LaunchError, cli
from ddp_course.cluster.job import Job
from ddp_course.cluster.trainjob import trainjob

IMAGE = "registry.example/train:1"


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("print('x')\n")


def read(manifest: dict[str, Any]) -> dict[str, Any] | None:
    """The manifest as the published models understand it: a field that they do not know is not in it."""
    job = models.TrainerV1alpha1TrainJob.from_dict(manifest)
    return job.to_dict() if job else None


def test_the_manifest_is_a_train_job_as_published() -> None:
    job = Job("train.py", ("--note", "it's {x}: #1", "ü"), nodes=2, nproc_per_node=4)
    manifest = yaml.safe_load(trainjob(job, IMAGE))
    assert read(manifest) == manifest
    assert (manifest["apiVersion"], manifest["kind"]) == ("trainer.kubeflow.org/v1alpha1", "TrainJob")
    assert manifest["spec"]["runtimeRef"] == {"name": "torch-distributed"}
    assert manifest["spec"]["trainer"] == {
        "image": IMAGE,
        "command": ["torchrun"],
        "args": ["train.py", "--note", "it's {x}: #1", "ü"],
        "numNodes": 2,
        "numProcPerNode": 4,
        "resourcesPerNode": {"limits": {"nvidia.com/gpu": 4}},
    }


def expanded(word: str, env: dict[str, str]) -> str:
    """A word of `args` as Kubernetes gives it to the container."""
    return re.sub(r"\$\$|\$\((\w+)\)", lambda m: "$" if m[0] == "$$" else env.get(m[1], m[0]), word)


def test_the_script_s_arguments_arrive_as_they_were_given() -> None:
    given = [*map(chr, range(1, 0x300)), "\u2028", "\ufeff", "\ufffe", "\uffff", "😀", "\U0010ffff", "null", "123", ""]
    given += ["$(HOME)", "$$(HOME)", "$", "$$$", "$HOME", "cost: $5", '"\\', "[a, b]", "# no comment", "a: b", "\r\n"]
    text = trainjob(Job("train.py", tuple(given)), IMAGE)
    assert re.search(r"\n    args: [ -~]+\n    numNodes", text)  # printable ASCII: every reader takes that alike
    read = yaml.safe_load(text)["spec"]["trainer"]["args"]
    assert [expanded(word, {"HOME": "wrong"}) for word in read] == ["train.py", *given]


@pytest.mark.parametrize("name", ["null", "true", "no", "on", "off", "y"])
def test_a_name_is_read_as_a_string(name: str) -> None:
    assert yaml.safe_load(trainjob(Job("train.py", job_name=name), IMAGE))["metadata"]["name"] == name
    assert f'name: "{name}"\n' in trainjob(Job("train.py", job_name=name), IMAGE)  # others read y and on as booleans


def test_a_wrong_manifest_does_not_pass_for_one() -> None:
    """So the test above can fail."""
    manifest = yaml.safe_load(trainjob(Job("train.py", nodes=2), IMAGE))
    manifest["spec"]["trainer"]["nnodes"] = manifest["spec"]["trainer"].pop("numNodes")
    assert read(manifest) != manifest
    manifest["spec"]["trainer"]["numNodes"] = "2"
    with pytest.raises(ValidationError, match="numNodes"):
        read(manifest)
    manifest["spec"]["trainer"]["numNodes"] = 2
    del manifest["spec"]["runtimeRef"]
    with pytest.raises(ValidationError, match="runtimeRef"):
        read(manifest)


def test_without_gpus_the_manifest_asks_for_none() -> None:
    manifest = yaml.safe_load(trainjob(Job("train.py", nproc_per_node=4, gpus_per_node=0), IMAGE))
    assert read(manifest) == manifest
    assert "resourcesPerNode" not in manifest["spec"]["trainer"]


@pytest.mark.parametrize(
    ("script", "name"), [("Train_DDP v2.py", "train-ddp-v2"), ("_x.py", "x"), (f"{'a' * 200}.py", "a" * 50)]
)
def test_the_job_has_a_name_that_kubernetes_takes(script: str, name: str) -> None:
    Path(script).write_text("")
    assert yaml.safe_load(trainjob(Job(script), IMAGE))["metadata"]["name"] == name


def test_the_command_runs_with_the_variables_that_kubeflow_sets() -> None:
    """Two pods, played by two processes of this machine."""
    Path("train.py").write_text(
        "import sys, torch, torch.distributed as dist\n"
        "dist.init_process_group('gloo')\n"
        "total = torch.tensor([dist.get_rank() + 1.0])\n"
        "dist.all_reduce(total)\n"
        "print(f'rank {dist.get_rank()} of {dist.get_world_size()}: {total.item()} {sys.argv[1:]}', flush=True)\n"
        "dist.destroy_process_group()\n"
    )
    trainer = yaml.safe_load(trainjob(Job("train.py", ("--steps", "2"), nodes=2), IMAGE))["spec"]["trainer"]
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    pods = [
        subprocess.Popen(
            [f"{Path(sys.executable).parent}/{trainer['command'][0]}", *trainer["args"]],
            env={
                **os.environ,
                "PET_NNODES": str(trainer["numNodes"]),
                "PET_NPROC_PER_NODE": str(trainer["numProcPerNode"]),
                "PET_NODE_RANK": str(node),
                "PET_MASTER_ADDR": "127.0.0.1",
                "PET_MASTER_PORT": str(port),
            },
            stdout=subprocess.PIPE,
            text=True,
        )
        for node in range(trainer["numNodes"])
    ]
    printed = [pod.communicate(timeout=120)[0] for pod in pods]
    assert printed == [f"rank {node} of 2: 3.0 ['--steps', '2']\n" for node in range(2)]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["train.py"], "the following arguments are required: --image"),
        (["train.py", "--image", "a b"], "--image 'a b': give the container image"),
        (["train.py", "--image", "é"], "--image 'é': give the container image"),
        (["train.py", "--image", IMAGE, "--job-name", "My Job"], "--job-name 'My Job': give a letter"),
        (["train.py", "--image", IMAGE, "--nodes", "0"], "--nodes 0: not a number a job can ask for"),
        (["train.py", "--image", IMAGE, "--partition", "x"], "no option --partition."),
        (
            ["train.py", "--image", IMAGE, "--output", "F", "--", "\udcff"],
            "The word '\\udcff' cannot stand in a job file",
        ),
        (["123.py", "--image", IMAGE], "A job is called after its script; of 123.py that leaves '123', but Kubernetes"),
        (["é.py", "--image", IMAGE], "A job is called after its script; of é.py that leaves '', but Kubernetes wants"),
        (
            ["-weird.py", "--image", IMAGE],
            "-weird.py: torchrun would take it for an option. Name the script ./-weird.py",
        ),
    ],
)
def test_a_wrong_command_line_is_refused_in_one_line(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for script in ("123.py", "é.py", "-weird.py"):
        Path(script).write_text("")
    assert cli.main(["kubernetes", *words]) == 2
    shown = capsys.readouterr()
    assert (shown.out, shown.err.count("\n"), Path("F").exists()) == ("", 1, False)
    assert shown.err.startswith(f"ddp-course kubernetes: {said}")


def test_the_command_prints_the_manifest(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["kubernetes", "train.py", "--nodes", "2", "--image", IMAGE]) == 0
    assert capsys.readouterr().out == trainjob(Job("train.py", nodes=2), IMAGE)


def test_a_name_that_is_no_name_is_refused() -> None:
    Path("7.py").write_text("")
    with pytest.raises(LaunchError, match=r"of 7\.py that leaves '7', but .* Give the job such a name with --job-name"):
        trainjob(Job("7.py"), IMAGE)
    with pytest.raises(LaunchError, match="--job-name '7': give a letter"):
        trainjob(Job("7.py", job_name="7"), IMAGE)
