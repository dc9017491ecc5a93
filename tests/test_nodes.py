"""Several nodes: an agent for each, c10d and static rendezvous, nodes that leave and return, two hosts."""

import json
import os
import shlex
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from ddp_course import LaunchError, Run, launch
from ddp_course.launcher import options
from ddp_course.launcher.live import Live
from ddp_course.launcher.nodes import Nodes
from ddp_course.launcher.options import Options
from ddp_course.two_hosts import two_hosts, why_not

NAMES = ("RANK", "LOCAL_RANK", "GROUP_RANK", "LOCAL_WORLD_SIZE", "WORLD_SIZE")
WHO = f"""\
import os
import torch
import torch.distributed as dist

dist.init_process_group()
total = torch.tensor([float(dist.get_rank() + 1)])
dist.all_reduce(total)
words = [*(os.environ[name] for name in {NAMES}), str(total.item())]
print(" ".join(words) + "\\n", end="")  # in one piece: torchrun's ranks share a pipe
assert os.environ.keys().isdisjoint(("DDP_COURSE_ATTEMPT", "DDP_COURSE_RUN_FOLDER"))
dist.destroy_process_group()
"""
AS_ON_TWO_HOSTS = ["0 0 0 2 4 10.0\n", "1 1 0 2 4 10.0\n", "2 0 1 2 4 10.0\n", "3 1 1 2 4 10.0\n"]
FAILS = """\
import os, signal, sys, time
import torch
import torch.distributed as dist

dist.init_process_group()
dist.all_reduce(torch.ones(1))
if dist.get_rank() == 2 and not os.path.exists("failed"):
    open("failed", "w").close()
    {fault}
dist.all_reduce(torch.ones(1))
"""
ELASTIC = """\
import os, signal, time
import torch
import torch.distributed as dist
from ddp_course import report

dist.init_process_group()
step = int(open("step").read()) if os.path.exists("step") else 0
report(world=dist.get_world_size(), begins=step)
while step < 12 or dist.get_world_size() < 4:
    dist.all_reduce(torch.ones(1))
    step += 1
    if dist.get_rank() == 0:
        open("step.part", "w").write(str(step))
        os.replace("step.part", "step")
    if step == 5 and dist.get_rank() == 2:
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(60)
    time.sleep(0.05)
"""
QUICK = "last_call_timeout=1,keep_alive_interval=1,keep_alive_max_attempt=4"


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def script(text: str, name: str = "train.py") -> str:
    Path(name).write_text(text)
    return name


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def at_once(*calls: dict) -> list[Run]:
    """`launch("train.py", **call)` of all calls, at the same time."""
    runs: dict[int, Run] = {}

    def one(index: int) -> None:
        runs[index] = launch("train.py", check=False, **calls[index])

    threads = [threading.Thread(target=one, args=(index,)) for index in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    return [runs[index] for index in range(len(calls))]


@pytest.mark.parametrize("warm", [True, False])
@pytest.mark.parametrize("backend", ["c10d", "static"])
def test_ranks_are_numbered_as_on_two_hosts(backend: str, warm: bool) -> None:
    run = launch(script(WHO), nproc_per_node=2, nnodes=2, rdzv_backend=backend, warm=warm)
    assert [rank.stdout for rank in run.ranks] == AS_ON_TWO_HOSTS
    assert [rank.node for rank in run.ranks] == [0, 0, 1, 1]
    assert run.diagnosis is None


def test_each_nodes_command_and_output_stand_together() -> None:
    run = launch(script(WHO), nproc_per_node=2, nnodes=2)
    command = "torchrun --nnodes=2 --rdzv-backend=c10d --rdzv-endpoint=localhost:29400 --nproc-per-node=2 train.py"
    assert run.transcript.splitlines() == [
        f"node 0 $ {command}",
        "rank 0 │ 0 0 0 2 4 10.0",
        "rank 1 │ 1 1 0 2 4 10.0",
        f"node 1 $ {command}",
        "rank 2 │ 2 0 1 2 4 10.0",
        "rank 3 │ 3 1 1 2 4 10.0",
        "✓ 4 ranks on 2 nodes finished",
    ]
    assert run.command == f"{command}\n{command}"
    assert sorted(p.name for p in run.folder.glob("node-*")) == ["node-0", "node-1"]


@pytest.mark.parametrize(
    "how",
    [
        {"nnodes": 2},
        {"nnodes": 2, "rdzv_backend": "static"},
        {"nnodes": "1:2", "rdzv_id": "mine", "rdzv_conf": "read_timeout=50"},
    ],
    ids=["c10d", "static", "elastic"],
)
def test_the_printed_lines_work_in_two_terminals(how: dict) -> None:
    lines = Options(script(WHO), nproc_per_node=2, nodes=Nodes(**how)).command.splitlines()
    port = str(free_port())
    terminals = []
    for line in lines:
        before, program, after = line.replace("29400", port).replace("29500", port).partition("torchrun ")
        assert program
        env = os.environ | dict(word.split("=") for word in before.split())
        command = [sys.executable, "-m", "torch.distributed.run", *shlex.split(after)]
        terminals.append(
            subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        )
    printed = [sorted(terminal.communicate(timeout=150)[0].splitlines(keepends=True)) for terminal in terminals]
    assert sorted(printed) == [AS_ON_TWO_HOSTS[:2], AS_ON_TWO_HOSTS[2:]]


def test_everything_listens_on_loopback_only() -> None:
    look = "time.sleep(1)\nopen(f'seen-{os.environ[\"RANK\"]}', 'w')\n"
    waits = "import os, time\nimport torch.distributed as dist\ndist.init_process_group()\n" + look
    done = threading.Thread(target=launch, args=(script(waits),), kwargs={"nnodes": 2, "nproc_per_node": 2})
    done.start()
    addresses = set()
    while done.is_alive():
        family = {p.pid for p in psutil.Process().children(recursive=True)}
        addresses |= {
            c.laddr.ip for c in psutil.net_connections("inet") if c.pid in family and c.status == psutil.CONN_LISTEN
        }
    done.join()
    assert addresses == {"127.0.0.1"}


@pytest.mark.parametrize("backend", ["static", "c10d"])
def test_two_launches_join_each_other(backend: str) -> None:
    script(WHO)
    port = free_port()
    both = {"nproc_per_node": 2, "nnodes": 2, "rdzv_backend": backend}
    if backend == "static":
        runs = at_once(*({**both, "node_rank": node, "master_port": port} for node in (0, 1)))
    else:
        runs = at_once(*[{**both, "rdzv_endpoint": f"localhost:{port}"}] * 2)
    printed = sorted([rank.stdout for rank in run.ranks] for run in runs)
    assert printed == [AS_ON_TWO_HOSTS[:2], AS_ON_TWO_HOSTS[2:]]
    assert all(len(run.command.splitlines()) == 1 for run in runs)


def test_it_joins_a_plain_torchrun() -> None:
    port = free_port()
    words = ["--nnodes=2", "--nproc-per-node=2", "--rdzv-backend=c10d", f"--rdzv-endpoint=localhost:{port}"]
    command = [sys.executable, "-m", "torch.distributed.run", *words, "--local-addr=127.0.0.1", script(WHO)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as other:
        run = launch("train.py", nproc_per_node=2, nnodes=2, rdzv_backend="c10d", rdzv_endpoint=f"localhost:{port}")
        theirs = other.communicate(timeout=60)[0].splitlines(keepends=True)
    assert sorted([*theirs, *(rank.stdout for rank in run.ranks)]) == AS_ON_TWO_HOSTS


def test_a_node_that_nobody_joins_is_told() -> None:
    run = launch(script(WHO), nnodes=2, node_rank=0, master_port=free_port(), timeout=3, check=False)
    assert run.diagnosis is not None
    assert run.diagnosis.kind == "rendezvous_node_missing"
    assert "node 0 waited for the others" in run.diagnosis.headline


@pytest.mark.parametrize(
    "where",
    [
        {"node_rank": 1, "master_addr": "no.such.host.invalid"},
        {"rdzv_backend": "c10d", "rdzv_endpoint": "no.such.host.invalid:29400"},
    ],
    ids=["static", "c10d"],
)
def test_a_host_that_has_no_address_is_told(where: dict) -> None:
    found = launch(script(WHO), nnodes=2, timeout=10, check=False, **where).diagnosis
    assert found is not None and found.kind == "rendezvous_unreachable"
    assert "a name that resolves" in found.fix.replace("\n", " ")


def test_a_stopped_agent_is_told_with_its_node() -> None:
    text = (
        "import os, signal\nif os.environ['RANK'] == '1':\n    os.kill(os.getppid(), signal.SIGSTOP)\nprint('done')\n"
    )
    found = launch(script(text), nnodes=2, timeout=4, check=False).diagnosis
    assert found is not None and (found.kind, found.culprits, found.victims) == ("stopped", [], [1])
    assert "the agent of node 1 was stopped (SIGSTOP)" in found.headline


def test_two_nodes_with_the_rank_0_fight_for_the_port() -> None:
    script(WHO)
    port = free_port()
    runs = at_once(*[{"nnodes": 2, "node_rank": 0, "master_port": port, "timeout": 4}] * 2)
    assert sorted(str(run.diagnosis and run.diagnosis.kind) for run in runs) == [
        "port_in_use",
        "rendezvous_node_missing",
    ]


@pytest.mark.parametrize(
    ("fault", "kind", "culprits", "said"),
    [
        ("raise ValueError('no')", "exception", [2], "rank 2 on node 1: ValueError: no"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "killed", [2], "rank 2 on node 1: ended by SIGKILL"),
        (
            "os.kill(os.getppid(), signal.SIGKILL); time.sleep(60)",
            "agent_lost",
            [],
            "node 1 lost its agent, and ranks 2",
        ),
        ("os.kill(os.getppid(), signal.SIGTERM); time.sleep(60)", "terminated", [], "ranks 2 and 3 on node 1: ended"),
        ("time.sleep(60)", "hang", [2], "ranks 0, 1 and 3 wait in all_reduce #2"),
    ],
)
def test_a_fault_on_one_node_is_told_with_its_node(fault: str, kind: str, culprits: list[int], said: str) -> None:
    timeout = 4 if kind == "hang" else 60
    run = launch(script(FAILS.format(fault=fault)), nproc_per_node=2, nnodes=2, timeout=timeout, check=False)
    assert run.diagnosis is not None
    assert (run.diagnosis.kind, run.diagnosis.culprits) == (kind, culprits)
    assert said in run.diagnosis.headline


@pytest.mark.parametrize("backend", ["c10d", "static"])
def test_max_restarts_starts_the_ranks_of_both_nodes_again(backend: str) -> None:
    for _ in range(3):  # a store that two attempts share fails now and then
        Path("failed").unlink(missing_ok=True)
        program = script(FAILS.format(fault="raise ValueError('no')"))
        run = launch(program, nproc_per_node=2, nnodes=2, max_restarts=1, rdzv_backend=backend, timeout=60)
        assert [[attempt.number for attempt in rank.attempts] for rank in run.ranks] == [[0, 1]] * 4


def test_an_elastic_run_goes_on_without_a_node_and_takes_it_back() -> None:
    run = launch(
        script(ELASTIC),
        nproc_per_node=2,
        nnodes="1:2",
        max_restarts=3,
        rdzv_conf=QUICK,
        return_after=9,
        timeout=90,
    )
    assert [report["world"] for report in run.ranks[0].reports] == [4, 2, 4]
    assert [report["begins"] >= 5 for report in run.ranks[0].reports] == [False, True, True]
    assert [[(one.number, one.node) for one in rank.attempts] for rank in run.ranks] == [
        [(0, 0), (1, 0), (2, 0)],
        [(0, 0), (1, 0), (2, 0)],
        [(0, 1), (2, 1)],
        [(0, 1), (2, 1)],
    ]
    assert run.transcript.endswith("✓ 4 ranks on 2 nodes finished")


def test_an_elastic_run_ends_well_without_the_node_that_was_lost() -> None:
    program = script(ELASTIC.replace(" or dist.get_world_size() < 4", ""))
    run = launch(program, nproc_per_node=2, nnodes="1:2", max_restarts=1, rdzv_conf=QUICK, timeout=60)
    assert [report["world"] for report in run.ranks[0].reports] == [4, 2]
    assert run.transcript.endswith("✓ 2 ranks on 1 node finished")
    assert run.agents == {0: 0, 1: -9}


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("shared", [False, True])
def test_torchrun_itself_takes_a_late_node_only_with_a_store_for_each_start(shared: bool) -> None:
    """A canary: where the second case fails, the line of an elastic run no longer needs its variable."""
    script(
        "import os, time\nimport torch.distributed as dist\ndist.init_process_group('gloo')\n"
        "world = dist.get_world_size()\nopen(f'world-{world}', 'w').close()\ntime.sleep(120 * (world == 1))\n"
    )
    words = ["--nnodes=1:2", "--max-restarts=2", "--rdzv-backend=c10d", f"--rdzv-endpoint=localhost:{free_port()}"]
    words += ["--rdzv-conf=last_call_timeout=1,read_timeout=8", "--local-addr=127.0.0.1", "train.py"]
    env = os.environ | ({} if shared else {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"})
    agents = []
    try:
        for world in (1, 2):
            command = [sys.executable, "-m", "torch.distributed.run", *words]
            agents.append(subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
            if world == 1:
                assert appears("world-1", 100)
        assert appears("world-2", 30 if shared else 100) is not shared
    finally:
        for process in [p for one in agents for p in [*psutil.Process(one.pid).children(), one]]:
            process.kill()
        for one in agents:
            one.wait()


def appears(name: str, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not Path(name).exists():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


def test_reports_come_from_the_ranks_of_all_nodes() -> None:
    send = "import os\nfrom ddp_course import report\nreport(node=int(os.environ['GROUP_RANK']))\n"
    run = launch(script(send), nproc_per_node=2, nnodes=2)
    assert run.reports == [{"rank": rank, "node": rank // 2} for rank in range(4)]


def test_the_command_line_starts_two_nodes() -> None:
    command = [sys.executable, "-m", "ddp_course.cli", "run", "--nnodes", "2", "--nproc_per_node=2", script(WHO)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert sorted(done.stdout.splitlines()) == sorted(
        [*(f"rank {r} │ {line.strip()}" for r, line in enumerate(AS_ON_TWO_HOSTS)), "✓ 4 ranks on 2 nodes finished"]
    ), done.stderr


def test_the_panel_names_the_node_of_each_rank(tmp_path: Path) -> None:
    live = Live(Options("train.py", nproc_per_node=2, nodes=Nodes(2)), tmp_path)
    assert [name for name, _ in live.named_ranks] == [f"node {r // 2} rank {r}" for r in range(4)]
    alone = Live(Options("train.py", nproc_per_node=2), tmp_path)
    assert [name for name, _ in alone.named_ranks] == ["rank 0", "rank 1"]


def test_nodes_on_one_machine_divide_its_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(options, "_gpu_count", lambda: 4)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    two = Options("train.py", nproc_per_node=2, nodes=Nodes(2))
    assert [line.split()[0] for line in two.commands.values()] == [
        "CUDA_VISIBLE_DEVICES=0,1",
        "CUDA_VISIBLE_DEVICES=2,3",
    ]
    too_many = Options("train.py", nproc_per_node=3, nodes=Nodes(2))
    assert [line.split()[0] for line in too_many.commands.values()] == ["CUDA_VISIBLE_DEVICES="] * 2
    assert Options("train.py", nproc_per_node=3, nodes=Nodes(2, node_rank=1)).visible_gpus(1) is None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"nnodes": 0}, "MIN is at least 1"),
        ({"nnodes": "two"}, "give a number of nodes"),
        ({"nnodes": "2:1"}, "MAX at least MIN"),
        ({"nnodes": 2, "node_rank": 2}, "with --nnodes=2 it is 0 to 1"),
        ({"nnodes": 2, "rdzv_backend": "etcd"}, "here it is c10d or static"),
        ({"nnodes": "1:2", "rdzv_backend": "static"}, "only --rdzv-backend=c10d lets nodes come and go"),
        ({"nnodes": 2, "rdzv_backend": "c10d", "master_port": 1}, "belong to --rdzv-backend=static"),
        ({"nnodes": 2, "rdzv_endpoint": "localhost"}, "static rendezvous needs a port"),
        ({"nnodes": 2, "return_after": 1}, "it needs --nnodes=MIN:MAX"),
        ({"nnodes": 600, "nproc_per_node": 2}, "on each of 600 nodes: more than 1,024 ranks"),
        ({"nnodes": "1:99999999999999999"}, "more than 10,000 nodes"),
        ({"nnodes": 2, "node_rank": "0"}, "--node-rank='0': give a whole number"),
        ({"node_rank": True}, "--node-rank=True: give a whole number"),
        ({"rdzv_endpoint": 5}, "--rdzv-endpoint=5: give a text"),
        ({"nnodes": "1:2", "return_after": "1"}, "--return-after='1': give a number of seconds"),
        ({"nnodes": 2, "hosts": ["a", "b"]}, "what ddp_course.two_hosts made"),
        ({"hosts": 5}, "what ddp_course.two_hosts made"),
        ({"nnodes": 2, "rdzv_backend": "static", "master_port": 99999}, "--master-port: 99999 is no port"),
        ({"nnodes": 2, "rdzv_endpoint": "localhost:99999"}, "--rdzv-endpoint: 99999 is no port"),
        ({"nnodes": 2, "rdzv_conf": "x"}, "'x' is no KEY=VALUE"),
        ({"nnodes": 2, "rdzv_conf": "rank=7"}, "the rendezvous numbers the nodes itself"),
        ({"nnodes": 2, "master_addr": ""}, "--master-addr is empty"),
        ({"slurm": None}, "give True, or the name of a partition"),
        ({"max_restarts": True}, "give 0 or more"),
    ],
)
def test_options_that_do_not_fit_are_refused(given: dict, message: str) -> None:
    with pytest.raises(LaunchError, match=message) as raised:
        launch(script(WHO), **given)
    assert raised.value.run is None


def namespaces() -> set[str]:
    listed = subprocess.check_output(["ip", "-json", "netns"], text=True)
    return {space["name"] for space in json.loads(listed or "[]")}


def test_where_two_hosts_cannot_be_made_one_sentence_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert why_not() == "Making network namespaces needs root, and this notebook has not."


@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="two hosts need root: network namespaces")
@pytest.mark.parametrize("backend", ["c10d", "static"])
def test_two_hosts_with_addresses_and_names_of_their_own(backend: str) -> None:
    if reason := why_not():
        pytest.skip(f"two hosts: {reason}")
    address = "json.loads(subprocess.check_output(['ip', '-json', '-4', 'address', 'show', 'eth0']))"
    program = script(
        f"{WHO}import json, socket, subprocess\nfrom ddp_course import report\n"
        f"report(host=socket.gethostname(), address={address}[0]['addr_info'][0]['local'])\n"
    )
    with two_hosts() as hosts:
        run = launch(program, nproc_per_node=2, nnodes=2, hosts=hosts, rdzv_backend=backend)
        spaces = namespaces()
    assert [rank.stdout for rank in run.ranks] == AS_ON_TWO_HOSTS
    assert [(report["host"], report["address"]) for report in run.reports] == [
        ("node0", "10.77.0.1"),
        ("node0", "10.77.0.1"),
        ("node1", "10.77.0.2"),
        ("node1", "10.77.0.2"),
    ]
    mine = {name for name in spaces if str(os.getpid()) in name}
    assert len(mine) == 2
    assert not mine & namespaces()


@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="two hosts need root: network namespaces")
def test_hosts_that_a_killed_process_left_are_removed() -> None:
    if reason := why_not():
        pytest.skip(f"two hosts: {reason}")
    code = "import os\nfrom ddp_course.two_hosts import two_hosts\nwith two_hosts(): os.kill(os.getpid(), 9)"
    killed = subprocess.Popen([sys.executable, "-c", code])
    killed.wait(60)
    assert {f"ddp-course-{killed.pid}-{node}" for node in range(2)} <= namespaces()
    with two_hosts():
        assert not [name for name in namespaces() if f"-{killed.pid}-" in name]
