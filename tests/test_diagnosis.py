"""The diagnosis of real broken runs: who, what kind, which line; and the same text each time."""

from __future__ import annotations

import json
import re
import shutil
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from ddp_course import LaunchError, Run, launch
from ddp_course.diagnosis import Diagnosis, causes, diagnose
from ddp_course.diagnosis.code import main_thread
from ddp_course.diagnosis.collectives import Call, Recorded, first_mismatch

PROGRAMS = Path(__file__).parent / "programs"


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(program: str, *args: str, ranks: int = 3, timeout: float = 30.0) -> Run:
    shutil.copy(PROGRAMS / f"{program}.py", f"{program}.py")
    return launch(f"{program}.py", *args, nproc_per_node=ranks, timeout=timeout, check=False)


def diagnosis(program: str, *args: str, ranks: int = 3, timeout: float = 30.0) -> Diagnosis:
    found = run(program, *args, ranks=ranks, timeout=timeout).diagnosis
    assert found is not None
    return found


def marked(program: str, text: str) -> int:
    """The number of the first line of the program that has the text."""
    lines = (PROGRAMS / f"{program}.py").read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


ALL = [0, 1, 2]
FAILURES = [
    # program, arguments, kind, culprits, victims, text of the line
    ("raise_on_one_rank", (), "exception", [1], [0, 2], "raise ValueError"),
    ("raise_on_all_ranks", (), "exception", ALL, [], "@"),
    ("exit_3", (), "exit_code", [1], [0, 2], "sys.exit(3)"),
    ("exit_3", ("hard",), "exit_code", [1], [0, 2], None),
    ("signal_on_rank_1", ("SIGKILL",), "killed", [1], [0, 2], None),
    ("signal_on_rank_1", ("SIGSEGV",), "native_crash", [1], [0, 2], "ctypes.string_at"),
    ("signal_on_rank_1", ("SIGABRT",), "native_crash", [1], [0, 2], "os.abort"),
    ("unused_parameters", (), "unused_parameters", ALL, [], "loss = model"),
    ("other_model", (), "models_differ", [1, 2], [0], "DistributedDataParallel(torch"),
    ("device_ids_on_cpu", (), "device_ids_on_cpu", ALL, [], "device_ids=[0]"),
    ("cuda_missing", (), "no_gpu", ALL, [], "cuda:"),
    ("sync_batch_norm", (), "sync_batch_norm_on_cpu", ALL, [], "model(torch.randn"),
    ("sync_batch_norm", ("wrapped",), "sync_batch_norm_on_cpu", ALL, [], "model = Distributed"),
    ("batch_of_1", (), "batch_of_one", ALL, [], "model(torch.randn"),
    ("module_prefix", (), "module_prefix", ALL, [], "load_state_dict"),
    ("read_before_written", (), "read_before_written", [1, 2], [0], "torch.load"),
    ("init_twice", (), "initialised_twice", ALL, [], "dist.init_process_group"),
    ("no_environment", (), "not_started_by_torchrun", ALL, [], "dist.init_process_group"),
    ("local_rank_argument", (), "local_rank_argument", ALL, [], "parse_args"),
    ("not_installed", (), "module_not_found", ALL, [], "import no_such"),
    ("port_in_use", (), "port_in_use", ALL, [], "dist.TCPStore"),
    ("rendezvous_nobody", (), "rendezvous_unreachable", None, None, "dist.init_process_group"),
    ("rendezvous_node_missing", (), "rendezvous_node_missing", None, None, "dist.TCPStore"),
    ("wrong_interface", (), "wrong_interface", ALL, [], "dist.init_process_group"),
    ("memory_limit", (), "out_of_memory", ALL, [], "torch.zeros"),
]


@pytest.mark.parametrize("program, args, kind, culprits, victims, line", FAILURES)
def test_a_failure_is_explained_with_its_rank_and_line(
    program: str,
    args: tuple[str, ...],
    kind: str,
    culprits: list[int] | None,
    victims: list[int] | None,
    line: str | None,
) -> None:
    found = diagnosis(program, *args)
    assert found.kind == kind
    if culprits is not None:
        assert (found.culprits, found.victims) == (culprits, victims)
    if line:
        expected = marked(program, line)
        if program == "init_twice":  # the second of the two
            expected += 1
        assert (found.file, found.line) == (f"{program}.py", expected)
        assert found.source and line in found.source
    else:
        assert found.line is None
    if kind != "exception":
        assert found.explanation and found.section
    assert len(str(found).splitlines()) <= 13


def test_a_syntax_error_is_shown_with_its_line() -> None:
    Path("train.py").write_text("import torch\n\nif torch.ones(1)\n    print(1)\n")
    found = launch("train.py", nproc_per_node=2, check=False).diagnosis
    assert found is not None
    assert (found.kind, found.culprits, found.file, found.line) == ("syntax_error", [0, 1], "train.py", 3)
    assert found.source == "if torch.ones(1)"


def test_nccl_is_explained_where_it_is_not_there() -> None:
    assert diagnosis("nccl_here").kind in ("nccl_unavailable", "gpu_shared_by_ranks")


# What cannot be provoked on one machine without GPUs: the messages as they are reported.
MESSAGES = [
    # pytorch/pytorch issues on NCCL with two ranks on one GPU; the text is NCCL's init.cc
    (
        "DistBackendError: NCCL error in: /pytorch/torch/csrc/distributed/c10d/NCCLUtils.cpp:77, invalid usage (run "
        "with NCCL_DEBUG=WARN for details), NCCL version 2.21.5\nncclInvalidUsage: This usually reflects invalid "
        "usage of NCCL library.\nLast error:\nDuplicate GPU detected : rank 1 and rank 0 both on CUDA device 1b000",
        "gpu_shared_by_ranks",
    ),
    # cudaErrorInvalidDevice as cudaGetErrorString words it, with the hint of c10/cuda/CUDAException.cpp
    (
        "AcceleratorError: CUDA error: invalid device ordinal\nGPU device may be out of range, do you have enough "
        "GPUs?\nCUDA kernel errors might be asynchronously reported at some other API call",
        "no_such_gpu",
    ),
    # torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp
    ("ValueError: ProcessGroupNCCL is only supported with GPUs, no GPUs found!", "nccl_unavailable"),
    # torch/csrc/distributed/c10d/ProcessGroup.hpp, getBackend
    ("RuntimeError: No backend type associated with device type cpu", "tensor_on_wrong_device"),
    # ATen/MapAllocator.cpp
    (
        "RuntimeError: unable to allocate shared memory(shm) for file </torch_29_1187>: No space left on device (28)",
        "shared_memory_full",
    ),
    # torch/csrc/DataLoader.cpp and torch/utils/data/_utils/signal_handling.py
    (
        "RuntimeError: DataLoader worker (pid 61) is killed by signal: Bus error. It is possible that dataloader's "
        "workers are out of shared memory. Please try to raise your shared memory limit.",
        "shared_memory_full",
    ),
    # NCCL's shmutils.cc
    (
        "DistBackendError: NCCL error in: NCCLUtils.cpp:77, unhandled system error\nLast error:\nError while creating "
        "shared memory segment /dev/shm/nccl-Ueq5Kn (size 9637888)",
        "shared_memory_full",
    ),
    # NCCL's bootstrap.cc
    ("DistBackendError: ncclInternalError\nLast error:\nBootstrap : no socket interface found", "wrong_interface"),
    # torch/cuda/memory: OutOfMemoryError
    ("OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has 80 GiB", "gpu_out_of_memory"),
    # torch/distributed/elastic/rendezvous/c10d_rendezvous_backend.py
    (
        "RendezvousConnectionError: The connection to the C10d store has failed. See inner exception for details.",
        "rendezvous_unreachable",
    ),
    # torch/distributed/optim/zero_redundancy_optimizer.py
    (
        "RuntimeError: Optimizer state has not been consolidated on this rank. Please call "
        "`consolidate_state_dict(to=0)` on all ranks beforehand if you meant to save the global state.",
        "unconsolidated_state",
    ),
    # a file torch.py beside the script
    (
        "ModuleNotFoundError: No module named 'torch.distributed'; 'torch' is not a package",
        "module_hidden",
    ),
    ("MemoryError: ", "out_of_memory"),
    ("OSError: [Errno 28] No space left on device: 'model.pt'", "disk_full"),
]


@pytest.mark.parametrize("message, kind", MESSAGES)
def test_a_message_of_other_machines_is_known(message: str, kind: str) -> None:
    found = causes.by_text(message)
    assert found is not None and found.kind == kind


def test_an_unknown_error_gets_no_cause() -> None:
    assert causes.by_text("KeyError: 'loss'") is None
    found = diagnosis("raise_on_one_rank")
    assert (found.explanation, found.fix, found.section) == ("", "", None)
    assert str(found).splitlines()[-1] == "  Full logs: .ddp_course/runs/latest"
    assert Path(".ddp_course/runs/latest/attempt-0/rank-1.err").is_file()


WAITS = [
    # program, arguments, kind, cause, culprits, victims, text of the line
    ("leaves_early", (), "left_early", "diverging_collectives", [1], [0, 2], "sys.exit(0)"),
    ("collective_on_rank_0", (), "left_early", "diverging_collectives", [1, 2], [0], "dist.all_reduce"),
    ("uneven_batches", (), "left_early", "uneven_batches", [1, 2], [0], "backward()"),
    ("state_dict_on_rank_0", (), "left_early", "state_dict_on_one_rank", [1, 2], [0], "get_model_state_dict(model"),
    ("consolidate_on_rank_0", (), "left_early", "consolidate_on_one_rank", [1, 2], [0], "optimizer.consolidate"),
    ("times_out", (), "collective_timeout", "elsewhere", [1], [0, 2], "time.sleep"),
    ("monitored_barrier", (), "collective_timeout", "elsewhere", [1], [0, 2], "time.sleep"),
    ("kinds_differ", (), "hang", "other_kinds", [0], [1, 2], "dist.all_reduce"),
    ("both_receive", (), "hang", "send_without_receive", [0, 1], [2], "dist.recv"),
    ("rank_missing", ("asleep",), "hang", "elsewhere", [1], [0, 2], "time.sleep"),
    ("rank_missing", ("loop",), "hang", "elsewhere", [1], [0, 2], None),
    ("rank_missing", ("native",), "hang", "elsewhere", [1], [0, 2], "ctypes.CDLL"),
    ("rank_missing", ("native_with_gil",), "hang", "elsewhere", [1], [0, 2], "ctypes.PyDLL"),
    ("rank_missing", ("stopped",), "hang", "stopped", [1], [0, 2], "signal.SIGSTOP)"),
    ("rank_missing", ("in_barrier",), "hang", "other_kinds", [1], [0, 2], "dist.barrier"),
    ("rank_missing", ("in_recv",), "hang", "send_without_receive", [1], [0, 2], "dist.recv"),
]


@pytest.mark.parametrize("program, args, kind, cause, culprits, victims, line", WAITS)
def test_a_rank_that_did_not_come_is_named(
    program: str,
    args: tuple[str, ...],
    kind: str,
    cause: str,
    culprits: list[int],
    victims: list[int],
    line: str | None,
) -> None:
    found = diagnosis(program, *args, timeout=3 if kind == "hang" else 30)
    assert (found.kind, found.cause) == (kind, cause), found
    assert (found.culprits, found.victims) == (culprits, victims)
    assert found.file == f"{program}.py"
    if line:
        assert found.line == marked(program, line)
    else:  # an endless loop stands on either of its lines
        assert found.line in (marked(program, "while True"), marked(program, "while True") + 1)
    assert found.explanation and found.fix and found.section


def test_a_hang_is_told_as_who_waits_where_for_whom() -> None:
    found = diagnosis("rank_missing", "in_barrier", ranks=4, timeout=3)
    last, barrier = marked("rank_missing", "stay_away(sys") + 1, marked("rank_missing", "dist.barrier")
    assert found.headline == (
        f"hang: ranks 0, 2 and 3 wait in all_reduce #2 (float32, 1,024 elements) at line {last}; "
        f"rank 1 never came: it is at line {barrier}, in barrier #2"
    )


def test_a_run_that_needs_longer_is_told_from_one_that_stands_still() -> None:
    busy = diagnosis("slow", timeout=2)
    assert (busy.kind, busy.culprits) == ("timeout", [])
    assert "--timeout 4" in busy.fix and "still at work" in busy.explanation
    quiet = diagnosis("slow", "quiet", timeout=2)
    assert (quiet.kind, quiet.culprits, quiet.line) == ("timeout", ALL, marked("slow", "time.sleep"))
    assert "still at work" not in quiet.explanation


def test_collectives_that_gloo_lets_pass_are_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copy(PROGRAMS / "silent_mismatch.py", "silent_mismatch.py")
    done = launch("silent_mismatch.py", nproc_per_node=2)
    found = done.diagnosis
    assert done.ok and found is not None and found.warning
    assert (found.kind, found.line) == ("mismatched_collectives", marked("silent_mismatch", "dist.all_reduce"))
    assert "rank 0 calls all_reduce #1 (float32, 2×3) at line 6; rank 1 calls all_reduce #1 (float32, 3×2)" in str(
        found
    ).replace("\n  ", " ")
    assert str(found).startswith("⚠") and str(found) in capsys.readouterr().err


@pytest.mark.parametrize("rank", [0, 1])
def test_a_collective_more_on_one_rank_that_meets_ddps(rank: int) -> None:
    """gloo aborts a rank, and which one says nothing of whose fault it is."""
    found = diagnosis("extra_call", str(rank))
    assert (found.kind, found.culprits, found.victims) == (
        "mismatched_collectives",
        [rank],
        [r for r in ALL if r != rank],
    )
    assert found.line == marked("extra_call", "all_reduce(loss") and "took different ways" in found.explanation
    of_two = diagnosis("extra_call", str(rank), ranks=2)
    assert (of_two.kind, of_two.culprits, of_two.victims) == ("mismatched_collectives", [0, 1], [])
    for line in (marked("extra_call", "all_reduce(loss"), marked("extra_call", "loss.backward()")):
        assert f"at line {line}" in of_two.headline
    assert "nothing wrong" not in str(of_two)


@pytest.mark.parametrize("what", ["elements", "dtype", "model"])
@pytest.mark.parametrize("odd", ALL)
def test_whom_gloo_ends_is_not_the_culprit_for_that(what: str, odd: int) -> None:
    """Three ranks, of which one has another tensor. gloo aborts the one that got it, which leaves no record."""
    found = diagnosis("other_sizes", what, str(odd), timeout=5)
    # A model's first sizes travel in DDP(): the rank that sends them may be a line further when gloo aborts the others.
    assert found.cause == "other_shapes" or (what == "model" and found.cause == "diverging_collectives"), found
    assert found.kind in ("mismatched_collectives", "hang")
    assert odd in found.culprits and odd not in found.victims
    assert found.culprits == [odd] or "nothing wrong" not in str(found)


@pytest.mark.parametrize("call", ["broadcast", "reduce"])
def test_ranks_that_do_not_agree_on_the_root(call: str) -> None:
    found = diagnosis("other_roots", call, timeout=4)
    assert (found.kind, found.cause, found.culprits) == ("hang", "other_roots", ALL)
    assert found.line == marked("other_roots", f"dist.{call}") and "src= (or dst=)" in found.fix


@pytest.mark.parametrize("how", ["world_size", "rank", "address"])
def test_ranks_that_never_leave_init_process_group(how: str) -> None:
    found = diagnosis("all_in_init", how, timeout=6)
    assert found.cause == "all_in_init", found
    assert "MASTER_ADDR" in found.fix and "init_process_group" in found.headline
    assert "only needs longer" not in str(found)


def test_a_receiver_whose_tensor_is_too_small() -> None:
    found = diagnosis("receives_too_much")
    assert (found.kind, found.cause, found.culprits) == ("mismatched_collectives", "received_another_size", [1])
    assert found.line == marked("receives_too_much", "dist.recv") and "different ways" not in str(found)


def test_an_exit_in_an_except_is_told_with_the_exception() -> None:
    found = diagnosis("caught_and_exited")
    assert (found.kind, found.culprits, found.victims) == ("exit_code", [1], [0, 2])
    raised = marked("caught_and_exited", "raise OSError")
    assert f"ended with exit code 1 after OSError: cannot read shard 7 (line {raised})" in found.headline
    assert "caught this exception" in found.explanation and "no exception was raised" not in str(found)


def test_a_data_loader_worker_s_error_is_told_with_its_own_line() -> None:
    found = diagnosis("worker_raises", ranks=2)
    assert found.headline == "both ranks: IndexError: list index out of range (in DataLoader worker 0)"
    line = marked("worker_raises", "// 13")
    assert f"raised in the worker at worker_raises.py, line {line}: return" in str(found)


def test_a_recursion_shows_its_line() -> None:
    found = diagnosis("recursion", ranks=1)
    assert f"recursion.py, line {marked('recursion', 'deeper(n + 1)')}:  return deeper(n + 1) + 1" in str(found)
    assert "more lines of yours" in str(found)


@pytest.mark.parametrize("how", ["raise", "signal"])
def test_a_rank_that_interrupts_itself_did_it(how: str) -> None:
    found = diagnosis("interrupts_itself", how)
    assert (found.kind, found.culprits, found.victims) == ("exception", [1], [0, 2])
    assert "KeyboardInterrupt" in found.headline
    assert found.line == marked("interrupts_itself", {"raise": "raise Key", "signal": "os.kill"}[how])


@pytest.mark.parametrize(("how", "cause"), [("ddp", "uneven_batches"), ("loops", "other_kinds")])
def test_calls_of_other_lines_are_no_matter_of_shapes(how: str, cause: str) -> None:
    found = diagnosis("other_lines", how, timeout=5)
    assert (found.cause, found.culprits) == (cause, [2]), found
    assert "pad it" not in found.fix
    assert f"at line {marked('other_lines', 'torch.ones(1))')}" in found.headline


def test_a_rank_that_goes_on_after_its_script_is_told_as_such() -> None:
    found = diagnosis("stays_after_its_end", timeout=3)
    assert (found.kind, found.culprits, found.line) == ("timeout", [1], None)
    assert "rank 1 is in none of your lines" in found.headline and "at that line" not in found.fix


def test_other_shapes_that_fail_are_named_as_such() -> None:
    found = diagnosis("shapes_differ")
    assert (found.kind, found.cause, found.culprits) == ("mismatched_collectives", "other_shapes", [1])


@pytest.mark.parametrize("program", ["ddp_with_join", "ddp_with_buffers", "sharded", "roots_and_groups"])
def test_a_correct_program_is_not_warned_about(program: str) -> None:
    done = run("correct", program)
    assert done.ok, done.diagnosis
    assert done.diagnosis is None


@pytest.mark.parametrize(
    "program, kind, words",
    [
        ("added_after_wrap", "parameter_added_after_wrap", "1.weight, 1.bias"),
        ("optimizer_before_sharding", "optimizer_before_sharding", "none of the model's parameters"),
    ],
)
def test_a_silent_mistake_is_a_warning(program: str, kind: str, words: str) -> None:
    done = run(program, ranks=2)
    assert done.ok and done.diagnosis is not None
    assert (done.diagnosis.kind, done.diagnosis.culprits, done.diagnosis.warning) == (kind, [0, 1], True)
    assert words in done.diagnosis.headline


def call(seq: int, op: str = "all_reduce", sizes: tuple[tuple[int, ...], ...] = ((3,),), **other: object) -> Call:
    values: dict[str, object] = {"group": "default", "instance": 0, "dtype": "float32", "done": True, "time_ns": seq}
    values |= {"file": "a.py", "line": seq, **other}
    return Call(seq=seq, op=op, sizes=sizes, **values)  # type: ignore[arg-type]


def mismatch(*ranks: list[Call], ended: bool = True) -> list[int] | None:
    found = first_mismatch({rank: Recorded(calls, {}, []) for rank, calls in enumerate(ranks)}, ended)
    return found.minority if found else None


def test_records_are_compared_where_they_overlap() -> None:
    full = [call(n) for n in range(1, 9)]
    assert mismatch(full, full[3:]) is None, "a ring that dropped the first calls is no difference"
    assert mismatch(full, full, [*full[:4], call(5, "barrier", ()), *full[5:]]) == [2]
    assert mismatch(full, full[:-1], full[:-1]) == [0], "a call that the others never made"
    assert mismatch(full, full[:-1], ended=False) is None, "it may still come"


def test_groups_are_compared_with_themselves_only() -> None:
    first, second = call(1), call(1, sizes=((7,),), instance=4)
    assert mismatch([first, second], [first, call(1, sizes=((7,),), instance=2)]) is None, "made again"
    assert mismatch([call(1, group="1")], [call(1, group="2", sizes=((9,),))], ended=False) is None
    assert mismatch([call(1, group="1")], [call(1, group="1", sizes=((9,),))], [call(1)], ended=False) == [0, 1]


def test_what_may_differ_between_ranks_is_not_compared() -> None:
    assert mismatch([call(1, "broadcast", ((6,),))], [call(1, "broadcast", ((2, 3),))]) is None
    assert mismatch([call(1, "alltoall_base", ((6,),))], [call(1, "alltoall_base", ((4,),))]) is None
    other = [call(1, "alltoall_base", ((6,),), dtype="int32")]
    assert mismatch([call(1, "alltoall_base", ((6,),))], other) == [0, 1]
    assert mismatch([call(1, dtype="float64")], [call(1)]) == [0, 1]


def test_the_text_is_the_same_on_every_run() -> None:
    for program, args in (("raise_on_one_rank", ()), ("signal_on_rank_1", ("SIGSEGV",)), ("leaves_early", ())):
        texts = set()
        for _ in range(3):
            done = run(program, *args)
            texts.add(done.transcript + str(done.diagnosis))
        assert len(texts) == 1, texts
        assert not re.search(r"0x[0-9a-f]{4}|127\.0\.0\.1:\d|/runs/\d|\d\d:\d\d", texts.pop())


def test_the_block_is_escaped_in_html_and_says_the_same() -> None:
    found = Diagnosis("exception", [0], file="a<b>.py", line=3, source="x < y & z", explanation="because", headline="h")
    page = found._repr_html_()
    assert "a&lt;b&gt;.py, line 3:" in page and "x &lt; y &amp; z" in page and "<b>" not in page
    plain = re.sub(r"<[^>]+>", " ", page)
    assert [word for word in ("h", "line 3", "because") if word not in plain] == []
    assert str(found) == "✗ h\n  a<b>.py, line 3:  x < y & z\n  Why: because"


def test_frames_of_torch_are_counted_not_shown() -> None:
    found = diagnosis("raise_on_all_ranks", ranks=1)
    assert "site-packages" not in str(found)
    Path("deep.py").write_text("import torch\n\ndef step():\n    torch.nn.Linear(2, 2)(torch.ones(3, 3))\n\nstep()\n")
    lines = str(launch("deep.py", check=False).diagnosis).splitlines()
    assert lines[0].startswith("✗ rank 0: RuntimeError: mat1 and mat2 shapes cannot be multiplied")
    assert lines[1:3] == ["  deep.py, line 6:  step()", "  deep.py, line 4:  torch.nn.Linear(2, 2)(torch.ones(3, 3))"]
    assert re.fullmatch(r"  … \d frames in torch", lines[3])


def test_launch_raises_the_block() -> None:
    shutil.copy(PROGRAMS / "batch_of_1.py", "batch_of_1.py")
    with pytest.raises(LaunchError, match="both ranks: ValueError: Expected more than 1 value") as raised:
        launch("batch_of_1.py", nproc_per_node=2)
    assert "See: lesson 3, section 1" in str(raised.value)


def test_missing_and_damaged_files_fall_back_plainly() -> None:
    done = run("raise_on_one_rank")
    for file in done.folder.glob("attempt-0/*.error"):
        file.write_text('{"type": "Val')
    found = diagnose(done)
    assert found is not None and found.kind in ("exit_code", "exception")
    shutil.rmtree(done.folder)
    found = diagnose(done)
    assert found is not None and str(found)
    done.ranks[0].attempts[0].exit_code = None
    assert diagnose(done) is not None


def test_a_diagnosis_never_raises() -> None:
    broken = SimpleNamespace(ok=False, outcome="failed", ranks=None)
    found = diagnose(broken)  # type: ignore[arg-type]
    assert found is not None and found.kind == "failed" and "diagnosis" in str(found)


def test_the_learners_line_is_found_in_what_faulthandler_writes() -> None:
    dump = (
        'Thread 0x00007f (most recent call first):\n  File "/x/ddp_course/worker.py", line 9 in answer\n\n'
        'Current thread 0x00007e (most recent call first):\n  File "/home/\\xe9t\\u0119/\\U0001f600.py", line 7 in f\n'
    )
    assert [(frame.file, frame.line) for frame in main_thread(dump)] == [("/home/étę/😀.py", 7)]


def test_a_clean_run_is_looked_at_in_no_time() -> None:
    done = run("correct", "ddp_with_buffers", ranks=2)
    diagnose(done)
    began = time.perf_counter()
    for _ in range(10):
        assert diagnose(done) is None
    assert (time.perf_counter() - began) / 10 < 0.02, "5 ms on a quiet machine"
    assert json.loads(done.ranks[0].attempts[0].text("collectives"))["calls"]


@pytest.mark.parametrize(
    ("text", "headline", "details"),
    [
        (
            "class E(Exception):\n    def __str__(self): return 1 / 0\nraise E()",
            "E: <its str() raises ZeroDivisionError>",
            [],
        ),
        (
            "try:\n    1 / 0\nexcept ZeroDivisionError as error:\n    raise RuntimeError('step') from error",
            "RuntimeError: step",
            ["raised from ZeroDivisionError: division by zero (line 2)"],
        ),
        (
            "try:\n    {}['a']\nexcept KeyError:\n    raise RuntimeError('step')",
            "RuntimeError: step",
            ["raised while handling KeyError: 'a' (line 2)"],
        ),
        ("raise ValueError('\\x1b[31mred\\x00 \\udcff')", r"ValueError: red \udcff", []),
        (
            "import os\nopen(os.path.abspath('none.txt'))",
            "FileNotFoundError: [Errno 2] No such file or directory: 'none.txt'",
            [],
        ),
        ("raise KeyboardInterrupt", "KeyboardInterrupt", []),
    ],
)
def test_an_exception_is_told_whole_and_without_what_cannot_be_shown(
    text: str, headline: str, details: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(text + "\n")
    found = launch("train.py", check=False).diagnosis
    assert found is not None
    assert (found.headline, found.culprits, found.kind) == (f"rank 0: {headline}", [0], "exception")
    assert list(found.details[1:]) == details


def test_a_rank_that_ended_itself_with_sigterm_did_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(
        "import os, time\nif os.environ['RANK'] == '1': os.kill(os.getpid(), 15)\ntime.sleep(20)\n"
    )
    found = launch("train.py", nproc_per_node=2, check=False).diagnosis
    assert found is not None and (found.kind, found.culprits, found.victims) == ("killed", [1], [0])


def test_a_child_of_a_rank_is_not_the_rank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(
        "import os\nif os.fork() == 0:\n    raise ValueError('child')\nos.wait()\nos._exit(3)\n"
    )
    found = launch("train.py", check=False).diagnosis
    assert found is not None and (found.kind, found.headline) == ("exit_code", "rank 0: ended with exit code 3")


def test_what_was_said_long_before_the_end_is_no_cause(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = "import os, sys\nprint('Address already in use, trying the next port', file=sys.stderr)\n"
    Path("train.py").write_text(text + "for i in range(50): print(i, file=sys.stderr)\nos._exit(3)\n")
    found = launch("train.py", check=False).diagnosis
    assert found is not None and found.kind == "exit_code"
