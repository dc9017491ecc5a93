"""Jobs and cells on a real SLURM of two nodes, which these tests start and stop."""

from __future__ import annotations

import os
import re
import resource
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
import slurm_cluster
from kernels import Kernel
from slurm_cluster import USER, said

from ddp_course import LaunchError, cli, launch
from ddp_course.cluster import srun
from ddp_course.cluster.job import Job
from ddp_course.cluster.sbatch import sbatch_file
from ddp_course.launcher.nodes import Host, Nodes
from ddp_course.launcher.options import Options

ROOT = Path(__file__).parent.parent
RUN = [sys.executable, "-m", "ddp_course.cli", "run"]
LESSONS, LESSON = ROOT / "lessons", ROOT / "solutions" / "04_launching_with_torchrun.md"

ALL_REDUCE = """\
import torch
import torch.distributed as dist

dist.init_process_group()
total = torch.tensor([float(dist.get_rank() + 1)])
dist.all_reduce(total)
print(f"rank {dist.get_rank()} of {dist.get_world_size()}: {total.item()}\\n", end="")  # all in one write
dist.destroy_process_group()
"""


@pytest.fixture(scope="module")
def slurm() -> Iterator[Path]:
    """A running cluster. Where SLURM is not installed the test is skipped, or fails where it is required, as in CI."""
    if missing := slurm_cluster.missing():
        if os.environ.get("DDP_COURSE_REQUIRE_SLURM"):
            pytest.fail(missing)
        pytest.skip(missing)
    with slurm_cluster.cluster() as folder:
        yield folder


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test in a folder of its own, with this Python's torchrun on PATH, as a learner's terminal has it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")


def submit(job: Job) -> str:
    """Submit a job's file. Returns the job's number."""
    return submit_text(sbatch_file(job, time="5"))


def submit_text(text: str) -> str:
    Path("job.sbatch").write_text(text)
    done = subprocess.run(["sbatch", "--parsable", "job.sbatch"], capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def wait_for_end(number: str, seconds: float = 90) -> dict[str, str]:
    """What SLURM says of the job when it has ended, by name."""
    deadline = time.monotonic() + seconds
    while said("squeue", "--noheader", "--jobs", number):
        assert time.monotonic() < deadline, f"job {number} still runs\n{logs()}"
        time.sleep(0.1)
    return dict(re.findall(r"(\S+?)=(\S*)", said("scontrol", "show", "job", number)))


def logs() -> str:
    return "\n".join(f"{log.name}:\n{log.read_text()}" for log in sorted(Path().glob("*.log")))


def of_this_test() -> list[psutil.Process]:
    """The living processes that work in this test's folder."""
    found = []
    for process in psutil.process_iter(["cwd", "status"]):
        if process.info["cwd"] == str(Path.cwd()) and process.pid != os.getpid():
            found.append(process)
    return found


def soon(condition: Callable[[], bool], seconds: float = 30) -> bool:
    """Whether the condition comes true within that time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


def pending() -> str:
    """The jobs that wait in the queue."""
    return said("squeue", "--noheader", "--states=PENDING", "--format=%j")


@contextmanager
def all_nodes_busy() -> Iterator[None]:
    """So that jobs wait in the queue."""
    blocker = subprocess.Popen(["srun", "--nodes=2", "--exclusive", "sleep", "600"], stderr=subprocess.DEVNULL)
    try:
        assert soon(lambda: said("squeue", "--noheader", "--format=%T") == "RUNNING")
        yield
    finally:
        blocker.terminate()
        blocker.wait(30)
        slurm_cluster.end_jobs()


def nothing_is_left(kernel: Kernel | None = None, seconds: float = 15) -> bool:
    """Whether the queue is empty and no process but the notebook's works in this test's folder, soon: SLURM takes two
    seconds to kill what SIGTERM did not end."""
    notebook = [psutil.Process(kernel.pid), *kernel.family()] if kernel else []
    deadline = time.monotonic() + seconds
    while said("squeue", "--noheader") or [process for process in of_this_test() if process not in notebook]:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


def test_a_job_file_runs_one_agent_a_node_and_its_ranks_meet(slurm: Path) -> None:
    Path("my train.py").write_text("import sys\nopen('words', 'w').write(str(sys.argv[1:]))\n" + ALL_REDUCE)
    number = submit(Job("my train.py", ("--note", "it's $HOME {x}", "*"), nodes=2, nproc_per_node=2))
    ended = wait_for_end(number)
    assert ended["JobState"] == "COMPLETED", logs()
    assert (ended["JobName"], ended["NumNodes"], ended["NumTasks"], ended["CPUs/Task"]) == ("my-train", "2", "2", "2")
    assert Path("words").read_text() == "['--note', \"it's $HOME {x}\", '*']"
    assert (ended["TresPerNode"], ended["TimeLimit"]) == ("gres:gpu:2", "00:05:00")
    # c10d gives the agents their ranks in the order of their hosts' names; here they have the same.
    # An agent may complain, in its own lines, that the one with the store left first.
    text = [Path(f"my-train-{number}-node{node}.log").read_text() for node in range(2)]
    printed = [sorted(line for line in one.splitlines() if line.startswith("[default")) for one in text]
    wanted = [[f"[default{local}]:rank {2 * node + local} of 4: 10.0" for local in range(2)] for node in range(2)]
    assert sorted(printed) == wanted, logs()
    assert Path(f"my-train-{number}.log").read_text() == ""


@pytest.mark.slow
def test_the_course_s_own_script_trains_over_two_nodes(slurm: Path) -> None:
    number = submit(Job(str(LESSONS / "train_ddp.py"), ("--steps", "2"), nodes=2, gpus_per_node=0))
    assert wait_for_end(number)["JobState"] == "COMPLETED", logs()
    assert "2 × cpu" in logs() and re.search(r"step    1  loss \d\.\d{3}", logs()), logs()


@pytest.mark.slow
@pytest.mark.parametrize("answer", ["right_hostname", "right_scontrol", "right_static"])
def test_a_right_answer_to_the_exercise_runs_on_the_cluster(answer: str, slurm: Path) -> None:
    Path("train.py").write_text(ALL_REDUCE)
    found: dict[str, Any] = {}
    exec((ROOT / "tests" / "answers" / "sbatch_script" / f"{answer}.py").read_text(), found)
    number = submit_text(found["sbatch_script"](2, 2))
    assert wait_for_end(number)["JobState"] == "COMPLETED", Path(f"slurm-{number}.out").read_text()
    lines = Path(f"slurm-{number}.out").read_text().splitlines()
    assert sorted(line for line in lines if line.startswith("rank ")) == [f"rank {r} of 4: 10.0" for r in range(4)]


def test_a_cancelled_job_lets_its_ranks_save_and_leaves_no_process(slurm: Path) -> None:
    Path("train.py").write_text(
        "import os, signal, sys, time\n"
        "rank = os.environ['RANK']\n"
        "def save(*_):\n"
        "    open(f'saved-{rank}', 'w').close()\n"
        "    sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, save)\n"
        "open(f'started-{rank}', 'w').close()\n"
        "while True: time.sleep(0.1)\n"
    )
    number = submit(Job("train.py", nodes=2, nproc_per_node=2))
    deadline = time.monotonic() + 60
    while len(list(Path().glob("started-*"))) < 4:
        assert time.monotonic() < deadline, logs()
        time.sleep(0.1)
    subprocess.run(["scancel", number], check=True, timeout=30)
    assert wait_for_end(number)["JobState"] == "CANCELLED"
    assert sorted(path.name for path in Path().glob("saved-*")) == [f"saved-{rank}" for rank in range(4)]
    assert nothing_is_left()


def test_a_rank_that_raises_fails_the_job_and_its_node_s_log_says_why(slurm: Path) -> None:
    Path("train.py").write_text(
        ALL_REDUCE.replace("total =", "assert dist.get_rank() != 1, 'rank 1 gives up'\ntotal =")
    )
    number = submit(Job("train.py", nodes=2))
    ended = wait_for_end(number)
    assert (ended["JobState"], ended["ExitCode"]) == ("FAILED", "1:0")
    assert "AssertionError: rank 1 gives up" in logs()


def test_the_job_file_is_valid_bash_and_every_option_has_its_line() -> None:
    Path("train.py").write_text("")
    text = sbatch_file(Job("train.py", nodes=2, nproc_per_node=4, gpus_per_node=0), partition="long,short")
    assert subprocess.run(["bash", "-n"], input=text, text=True, capture_output=True).stderr == ""
    options = re.findall(r"^#SBATCH --([\w-]+)=(\S+)", text, re.M)
    assert dict(options) == {
        "job-name": "train",
        "nodes": "2",
        "ntasks-per-node": "1",
        "cpus-per-task": "4",
        "time": "01:00:00",
        "signal": "TERM@60",
        "partition": "long,short",
        "output": "%x-%j.log",
    }
    assert text.index("#SBATCH --output") < text.index("set -eu")  # sbatch reads options up to the first command
    assert max(map(len, text.splitlines())) <= 92


@pytest.mark.parametrize(
    ("gpus", "time", "option", "why"),
    [
        (None, "1", "--gpus-per-node=4", "a GPU for each rank"),
        (1, "1", "--gpus-per-node=1", "for 4 ranks; NCCL needs one for each"),
        (8, "1", "--gpus-per-node=8", "for 4 ranks"),
        (0, "0", "--time=0", "no limit but the partition's"),
        (0, "0-00:00:00", "--time=0-00:00:00", "no limit but the partition's"),
        (0, "0:10", "--time=0:10", "when it is up, the job is ended"),
    ],
)
def test_what_the_file_says_of_an_option_is_so(gpus: int | None, time: str, option: str, why: str) -> None:
    Path("train.py").write_text("")
    text = sbatch_file(Job("train.py", nproc_per_node=4, gpus_per_node=gpus), time=time)
    assert re.search(rf"^#SBATCH {option} +# {why}$", text, re.M), text


def test_a_job_called_after_its_script_has_a_name_that_log_files_can_carry() -> None:
    script = f"{'é' * 126}.py"  # 255 bytes, as long as a file's name can be
    Path(script).write_text("")
    assert f"#SBATCH --job-name={'é' * 50}\n" in sbatch_file(Job(script))


def test_a_job_file_that_cannot_be_written_whole_is_not_left_behind(capsys: pytest.CaptureFixture[str]) -> None:
    Path("train.py").write_text("")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, before[1]))
    try:
        assert cli.main(["slurm", "train.py", "--output", "job.sbatch"]) == 2
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert "Cannot write job.sbatch (File too large)" in capsys.readouterr().err
    assert not Path("job.sbatch").exists()


def test_the_command_prints_the_file_or_writes_a_new_one(capsys: pytest.CaptureFixture[str]) -> None:
    Path("train.py").write_text("")
    words = ["slurm", "train.py", "--nodes", "2", "--nproc_per_node=4", "--time", "2-12", "--job-name", "night"]
    assert cli.main([*words, "--", "--epochs", "3"]) == 0
    text = capsys.readouterr().out
    assert text.endswith("    train.py --epochs 3\n")
    assert "--time=2-12" in text and "--job-name=night" in text and "--gpus-per-node=4" in text
    assert cli.main([*words, "--output", "job.sbatch", "--", "--epochs", "3"]) == 0
    assert (capsys.readouterr().out, Path("job.sbatch").read_text()) == ("", text)
    assert cli.main([*words, "--output", "job.sbatch"]) == 2
    assert "job.sbatch exists" in capsys.readouterr().err
    assert Path("job.sbatch").read_text() == text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "name the script first"),
        (["trian.py"], "There is no script trian.py in {here}. Did you mean train.py?"),
        (["train.py", "--node", "2"], "no option --node. Did you mean --nodes?"),
        (["train.py", "2"], "unrecognized arguments: 2"),
        (["train.py", "--nodes", "two"], "--nodes two: a job says how much it wants before it sees a machine."),
        (["train.py", "--nodes", "0"], "--nodes 0: not a number a job can ask for. Give 1 or more"),
        (["train.py", "--nproc-per-node", "gpu"], "--nproc-per-node gpu: a job says how much it wants"),
        (["train.py", "--gpus-per-node", "-1"], "--gpus-per-node -1: not a number a job can ask for. Give 0 or more"),
        (["train.py", "--time", "soon"], "--time 'soon': give minutes (90), hours:minutes:seconds"),
        (["train.py", "--partition", "a b"], "--partition 'a b': give a partition's name"),
        (["train.py", "--job-name", "a/b"], "--job-name 'a/b': give letters, digits"),
        (["train.py", "--output", "no/where"], "Cannot write no/where (No such file or directory)"),
        (["train.py", "--output", "F", "--", "\udcff"], "The word '\\udcff' cannot stand in a job file"),
        (["train.py", "--output", "F", "--", "a\r\nb"], "sbatch takes no file with \\r\\n in it"),
        (["train.py", "--time", "٣"], "--time '٣': give minutes (90)"),
        (["train.py", "--time", "99999999"], "--time '99999999': give minutes (90)"),  # SLURM would start again at 0
        (["train.py", "--nodes", "9" * 23], f"--nodes {'9' * 23}: more than a job can ask for. Give 65,536 or less."),
        (["train.py", "--nodes", "4294967297"], "--nodes 4294967297: more than"),  # sbatch takes it for 1
        (["train.py", "--nproc-per-node", "9999"], "--nproc-per-node 9999: more than a job can ask for. Give 1,024"),
        (["train.py", "--gpus-per-node", "9" * 23], f"--gpus-per-node {'9' * 23}: more than"),
        (["train.py", "--job-name", "a" * 300], f"--job-name '{'a' * 300}': give letters, digits, dots"),
        (["-weird.py"], "-weird.py: torchrun would take it for an option. Name the script ./-weird.py"),
    ],
)
def test_a_wrong_command_line_is_refused_in_one_line(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for script in ("train.py", "-weird.py"):
        Path(script).write_text("")
    assert cli.main(["slurm", *words]) == 2
    shown = capsys.readouterr()
    assert (shown.out, Path("F").exists()) == ("", False)
    assert shown.err.startswith(f"ddp-course slurm: {said.format(here=Path.cwd())}")
    assert shown.err.count("\n") == 1 and shown.err.count("ddp-course slurm: ") == 1


@pytest.mark.parametrize("wrong", [{"nodes": 1.5}, {"nproc_per_node": "4"}, {"gpus_per_node": -2}])
def test_a_wrong_job_is_refused(wrong: dict) -> None:
    Path("train.py").write_text("")
    with pytest.raises(LaunchError, match="not a number a job can ask for"):
        sbatch_file(Job("train.py", **wrong))


# Cells and launch() on the cluster

REPORTING = ALL_REDUCE.replace("print(", "report(total=total.item())\nprint(").replace(
    "import torch\n", "import sys\nimport time\nimport torch\nfrom ddp_course import report\n"
)


def test_a_launch_runs_one_agent_a_node_and_brings_everything_back(slurm: Path) -> None:
    Path("train.py").write_text(REPORTING)
    run = launch("train.py", "--note", "epoch", nproc_per_node=2, nnodes=2, slurm=True)
    line, *printed = run.transcript.splitlines()
    assert printed == [*(f"rank {r} │ rank {r} of 4: 10.0" for r in range(4)), "✓ 4 ranks on 2 nodes finished"]
    assert run.reports == [{"rank": rank, "total": 10.0} for rank in range(4)]
    assert [rank.node for rank in run.ranks] == [0, 0, 1, 1]
    assert line == (
        "$ srun --nodes=2 --ntasks-per-node=1 --cpus-per-task=2 --gpus-per-node=2 bash -c 'torchrun --nnodes=2 "
        "--rdzv-backend=c10d --rdzv-endpoint=$(scontrol show hostnames | head -n 1):29400 --nproc-per-node=2 "
        "train.py --note epoch'"
    )
    pasted = subprocess.run(["bash", "-c", line.removeprefix("$ ")], capture_output=True, text=True, timeout=90)
    assert sorted(pasted.stdout.splitlines()) == [f"rank {rank} of 4: 10.0" for rank in range(4)], pasted.stderr


@pytest.mark.parametrize("nodes", [1, 2])
@pytest.mark.parametrize("backend", ["c10d", "static"])
def test_the_line_shown_quotes_what_bash_would_change(nodes: int, backend: str) -> None:
    strange = "x y;$(id)FIRST_NODE--node-rank=0"
    shown = Options(
        "my train.py", ("$HOME",), nodes=Nodes(nodes, rdzv_backend=backend, rdzv_id=strange, rdzv_conf="a=b;c")
    )
    *_, bash, option, line = shlex.split(shown.under_slurm("").command)
    assert (bash, option) == ("bash", "-c")
    line = line.replace("$(scontrol show hostnames | head -n 1)", "FIRST").replace("$SLURM_NODEID", "0")
    assert not re.search(r"[$;]", re.sub(r"'[^']*'", "", line)), line
    words = shlex.split(line)
    assert words[-2:] == ["my train.py", "$HOME"]
    assert f"--rdzv-id={strange}" in words and "--rdzv-conf=a=b;c" in words
    assert ("--master-addr=FIRST" if backend == "static" else "--rdzv-endpoint=FIRST:29400") in words


def test_the_line_shown_for_one_node_can_be_pasted_too_and_a_run_may_have_no_time_limit(slurm: Path) -> None:
    Path("train.py").write_text("import os\nprint(os.environ['TORCHELASTIC_RUN_ID'])\n")
    options = {"rdzv_backend": "c10d", "rdzv_id": "x y;$(id)"}
    run = launch("train.py", slurm=True, timeout=float("inf"), backend="gloo", **options)
    assert run.transcript.splitlines()[1] == "rank 0 │ x y;$(id)"
    pasted = subprocess.run(["bash", "-c", run.command], capture_output=True, text=True, timeout=90)
    assert pasted.stdout == "x y;$(id)\n", pasted.stderr


def test_a_rank_that_raises_is_named_and_a_job_around_the_notebook_does_not_matter(
    slurm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"JOB_ID": "4711", "JOB_NUM_NODES": "1", "NNODES": "1", "NTASKS": "1", "NODELIST": "x"}.items():
        monkeypatch.setenv(f"SLURM_{name}", value)
    Path("train.py").write_text(
        REPORTING.replace("dist.all", "if dist.get_rank() == 1:\n    raise ValueError('no')\ndist.all")
    )
    run = launch("train.py", nnodes=2, slurm="course", check=False)
    assert run.diagnosis and run.diagnosis.culprits == [1] and run.diagnosis.victims == [0]
    assert "rank 1 on node 1: ValueError: no" in str(run.diagnosis)
    assert "train.py, line 10" in str(run.diagnosis)
    assert run.command.startswith(
        "srun --nodes=2 --ntasks-per-node=1 --cpus-per-task=1 --gpus-per-node=1 --partition=course"
    )


def test_a_hang_ends_at_the_time_limit_and_the_missing_rank_is_named(slurm: Path) -> None:
    Path("train.py").write_text(REPORTING.replace("dist.all", "time.sleep(600 * dist.get_rank())\ndist.all"))
    run = launch("train.py", nnodes=2, slurm=True, timeout=10, backend="gloo", check=False)
    assert run.outcome == "timeout"
    assert "rank 0 waits in all_reduce #1" in str(run.diagnosis) and "rank 1 never came" in str(run.diagnosis)
    assert nothing_is_left()


def test_a_job_that_is_cancelled_from_outside_says_so(slurm: Path) -> None:
    Path("train.py").write_text(
        "import subprocess, time\nsubprocess.run(['scancel', '--user', '" + USER + "'])\ntime.sleep(600)\n"
    )
    run = launch("train.py", slurm=True, check=False)
    assert "SLURM ended the job: " in str(run.diagnosis) and "CANCELLED" in str(run.diagnosis), run.diagnosis
    assert nothing_is_left()


WAIT = """\
%%torchrun --slurm --nnodes 2
import os, time
open(f"started-{os.environ['RANK']}", "w").write("x")
time.sleep(600)
"""


def test_the_lesson_s_own_cells_run_on_the_cluster_as_it_says(slurm: Path, tmp_path: Path) -> None:
    """Section 7 of lesson 4: its job file is submitted, its cell runs, and both print what stands in the text."""
    section = LESSON.read_text().partition("## 7 ·")[2].partition("\n## 8 ·")[0]
    cells = re.findall(r"```\{code-cell\} ipython3\n(?::[^\n]*\n)*\n?(.*?)```", section, re.S)
    wanted = ["%%torchrun --file hello.py", "sbatch_file(", 'submit("job.sbatch")', "job.state", 'launch("hello.py"']
    hello, write, submit, state, again = (next(c for c in cells if part in c) for part in wanted)
    promised = section.partition("```text\n")[2].partition("```")[0].splitlines()
    kernel = Kernel(tmp_path)
    try:
        kernel.run(hello)
        kernel.run(write)
        shown = kernel.run(submit, 90)
        job = shown.stdout.partition("\n")[0]
        assert re.fullmatch(r"job \d+: COMPLETED", job) and promised[0] == "job 1: COMPLETED", shown.stdout
        # Which agent becomes node 0 is for the rendezvous to say, on hosts of one name; and a rank's line and its end
        # are two writes, between which another rank's line may come.
        for log, _, text in (line.partition(" │ ") for line in promised[1:]):
            assert text in shown.stdout and log.replace("-1-", f"-{job[4:].partition(':')[0]}-") in shown.stdout
        assert kernel.run(state).stdout.endswith(": True\n")
        run = kernel.run(again, 90)
        assert run.stdout.splitlines() == [line.partition("]:")[2] for line in promised[1:]], run.traceback
        assert "srun" in kernel.run("print(run.command)").stdout
    finally:
        kernel.close()


def test_an_interrupt_cancels_the_job_of_a_cell(slurm: Path, tmp_path: Path) -> None:
    kernel = Kernel(tmp_path)
    try:
        cell = kernel.start(WAIT)
        for rank in range(2):
            kernel.wait_for_file(f"started-{rank}", 60)
        name = said("squeue", "--noheader", "--format=%j %D %C")
        assert re.fullmatch(r"ddp-course-\w{8} 2 2", name)
        kernel.manager.interrupt_kernel()
        stopped = kernel.wait(cell)
        assert (stopped.error, stopped.traceback) == ("LaunchInterrupted", "Stopped. No process of the run is left.")
        assert nothing_is_left(kernel)
        states = said("scontrol", "show", "job")
        assert "CANCELLED" in states.split("JobName=" + name.split()[0])[1].partition("JobId=")[0]
        again = kernel.run("%%torchrun --slurm\nprint('again')\n", 90)
        assert "rank 0 │ again\n✓ 1 rank finished" in again.stdout, again.traceback
    finally:
        kernel.close()


def test_a_job_ends_with_its_notebook(slurm: Path, tmp_path: Path) -> None:
    kernel = Kernel(tmp_path)
    kernel.start(WAIT)
    for rank in range(2):
        kernel.wait_for_file(f"started-{rank}", 60)
    os.kill(kernel.pid, signal.SIGKILL)
    assert nothing_is_left()
    kernel.close()


def test_an_interrupt_in_the_queue_cancels_the_job(slurm: Path, tmp_path: Path) -> None:
    kernel = Kernel(tmp_path)
    with all_nodes_busy():
        agents = srun.Agents(Options("train.py", nodes=Nodes(2)).under_slurm(""), tmp_path)
        while not (told := agents.events(0.1)):
            assert told is not None
        assert told == [{"event": "queue", "reason": "Resources"}]
        agents.close()
        assert not pending()
        cell = kernel.start(WAIT)
        assert soon(lambda: bool(pending()))
        kernel.manager.interrupt_kernel()
        assert kernel.wait(cell).error == "LaunchInterrupted"
        assert not pending()
        kernel.start(WAIT)  # and a kernel that dies takes its job along
        assert soon(lambda: bool(pending()))
        os.kill(kernel.pid, signal.SIGKILL)
        assert soon(lambda: not pending(), 5)
    kernel.close()
    assert nothing_is_left()


def test_a_job_in_the_queue_ends_with_its_command_which_says_that_it_waits(slurm: Path) -> None:
    Path("train.py").write_text("")
    command = [*RUN, "--slurm", "--nnodes", "2", "train.py"]
    with all_nodes_busy():
        owners = []
        for number in range(2):
            with open(f"shown-{number}", "wb") as shown:
                owners.append(subprocess.Popen(command, stdout=shown))
        shown = [Path(f"shown-{number}") for number in range(2)]
        assert soon(lambda: all(re.match(r"in the queue: (Resources|Priority)\n", one.read_text()) for one in shown))
        assert len(pending().splitlines()) == 2
        for owner, number in zip(owners, (signal.SIGKILL, signal.SIGTERM), strict=True):
            owner.send_signal(number)
            owner.wait(30)
        assert soon(lambda: not pending(), 5)
    assert nothing_is_left()


@pytest.mark.parametrize(
    ("change", "back", "message"),
    [
        ("State=DOWN", "State=UP", "partition course is down: .* Give another --partition"),
        ("MaxTime=1", "MaxTime=UNLIMITED", "in partition course a job may last 1:00, and this one asks for 4:00"),
    ],
)
def test_a_job_that_would_wait_without_end_is_refused(change: str, back: str, message: str, slurm: Path) -> None:
    Path("train.py").write_text("")
    said("scontrol", "update", "PartitionName=course", change)
    try:
        refused = subprocess.run([*RUN, "--slurm", "train.py"], capture_output=True, text=True, timeout=60)
        assert re.match(f"ddp-course run: SLURM cannot start the job: {message}", refused.stderr), refused.stderr
        assert refused.returncode == 2
        assert nothing_is_left()
    finally:
        said("scontrol", "update", "PartitionName=course", back)


def test_slurm_s_own_words_are_shown_where_it_starts_nothing(slurm: Path) -> None:
    Path("train.py").write_text("")
    with pytest.raises(LaunchError, match="invalid partition specified: nowhere") as raised:
        launch("train.py", nnodes=2, slurm="nowhere")
    assert str(raised.value).startswith("SLURM does not take the job. It says:\nsrun: error: ")
    assert raised.value.run is None
    for too_much in ({"nnodes": 3}, {"nproc_per_node": 9, "backend": "gloo"}, {"nproc_per_node": 5}):
        with pytest.raises(LaunchError, match="Requested node configuration is not available"):
            launch("train.py", slurm=True, **too_much)


def test_without_slurm_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("train.py").write_text("")
    monkeypatch.setenv("PATH", str(Path.cwd()))
    with pytest.raises(LaunchError, match=r"there is no srun on PATH.*or leave --slurm out"):
        launch("train.py", nnodes=2, slurm=True)


def test_where_slurm_is_installed_but_no_cluster_answers_the_error_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Path("train.py").write_text("")
    for program in ("srun", "sinfo"):
        Path(program).write_text("#!/bin/sh\necho 'fatal: no configuration source' >&2\nexit 1\n")
        Path(program).chmod(0o700)
    monkeypatch.setenv("PATH", f"{Path.cwd()}{os.pathsep}{os.environ['PATH']}")
    with pytest.raises(LaunchError, match=r"SLURM is installed, but no cluster answers.*login node") as raised:
        launch("train.py", slurm=True)
    assert str(raised.value).endswith("It says:\nfatal: no configuration source")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"nnodes": "1:2"}, "give --nnodes one number"),
        ({"nnodes": 2, "node_rank": 0}, "Leave --node-rank out"),
        ({"rdzv_endpoint": "x:1"}, "Leave --rdzv-endpoint out"),
        ({"master_port": 29999}, "at a port that no other job has. Leave --master-port out"),
        ({"master_addr": "127.0.0.1", "master_port": 1}, "Leave --master-addr and --master-port out"),
        ({"nnodes": "1:2", "return_after": 1.0}, "Leave --return-after out"),
        ({"nnodes": 2, "hosts": (Host("a", ()), Host("b", ()))}, "SLURM chooses the hosts"),
        ({"nnodes": 999_999_999}, "--nnodes=999999999: more"),
        ({"nproc_per_node": 4_294_967_297}, "more than 1,024 ranks do not start on one machine"),  # srun takes it for 1
        ({"nproc_per_node": "gpu"}, "--nproc-per-node=gpu with --slurm: a job asks for a number"),
    ],
)
def test_options_that_do_not_go_with_slurm_are_refused(
    options: dict, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("train.py").write_text("")
    Path("srun").touch(0o700)
    monkeypatch.setenv("PATH", str(Path.cwd()))
    with pytest.raises(LaunchError, match=message):
        launch("train.py", slurm=True, **options)


def test_the_cluster_leaves_no_process_and_no_file() -> None:
    if missing := slurm_cluster.missing():
        pytest.skip(missing)
    before, children = os.environ.get("SLURM_CONF"), psutil.Process().children()
    with slurm_cluster.cluster() as folder:
        daemons = [process for process in psutil.Process().children() if process not in children]
        assert sorted(process.name() for process in daemons) == ["munged", "slurmctld", "slurmd", "slurmd"]
    assert not folder.exists() and os.environ.get("SLURM_CONF") == before
    assert not any(p.is_running() and p.status() != psutil.STATUS_ZOMBIE for p in daemons)
