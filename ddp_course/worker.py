"""What runs in every rank before the learner's script: `python worker.py SCRIPT [ARGS]`.

The script then runs as `python SCRIPT [ARGS]` would run it: as `__main__`, with its own argv and sys.path[0].
The bootstrap adds a file for each of stdout and stderr, a record of the exception and of the collectives,
and a signal that makes the rank write down every thread's stack. Standard library only: a rank that is
started cold must not wait for anything else.
"""

from __future__ import annotations

import _thread
import atexit
import builtins
import ctypes
import faulthandler
import io
import json
import os
import signal
import sys
import threading
import time
import traceback
import types
from pathlib import Path
from typing import Any, NoReturn

FOLDER_VARIABLE = "DDP_COURSE_RUN_FOLDER"
_PR_SET_PDEATHSIG = 1
_RESERVE, _RESERVE_BYTES = ".reserve", 1 << 15


def stack_signal() -> int:
    """The signal that makes a rank write its Python stacks to its `.stacks` file."""
    return signal.SIGRTMAX - 7 if hasattr(signal, "SIGRTMAX") else signal.SIGUSR2


def main(argv: list[str]) -> NoReturn:
    """Run the script `argv[0]` with the arguments `argv[1:]` and end the process with its exit code."""
    files = RankFiles(Path(os.environ.pop(FOLDER_VARIABLE)))
    die_with_parent()
    _redirect(files)
    sys.modules["__main__"] = module = _main_module(argv)
    code = _run(module, files)
    _finish(code, files)


class RankFiles:
    """The files of one rank of one attempt, in the run's folder."""

    def __init__(self, folder: Path) -> None:
        rank, attempt = os.environ.get("RANK", "0"), os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        self._base = folder / f"attempt-{attempt}" / f"rank-{rank}"
        self._base.parent.mkdir(mode=0o700, exist_ok=True)

    def __call__(self, kind: str) -> Path:
        return self._base.with_suffix(f".{kind}")


def die_with_parent() -> None:
    """Have the system kill this process when its parent dies, even of SIGKILL (Linux; main threads only)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _redirect(files: RankFiles) -> None:
    for name, fd, kind in (("stdout", 1, "out"), ("stderr", 2, "err")):
        target = os.open(files(kind), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(target, fd)
        os.close(target)
        # What `python -u`, torchrun's way to start a rank, gives: every write goes to the file at once.
        errors = getattr(sys, name).errors
        raw = io.FileIO(fd, "w", closefd=False)
        stream = io.TextIOWrapper(raw, encoding="utf-8", errors=errors, write_through=True)
        stream.mode = "w"  # type: ignore[misc]
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    files("reserve").write_bytes(bytes(_RESERVE_BYTES))
    faulthandler.enable(2)
    stacks = os.open(files("stacks"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    faulthandler.register(stack_signal(), stacks, all_threads=True)
    # Where a rank stood when the agent ended it tells what another rank waited for.
    faulthandler.register(signal.SIGTERM, stacks, all_threads=True, chain=True)
    os.register_at_fork(after_in_child=_forget_stacks)  # the file is the rank's, not its children's
    _answer_requests(files)


def _forget_stacks() -> None:
    faulthandler.unregister(stack_signal())
    faulthandler.unregister(signal.SIGTERM)


def _answer_requests(files: RankFiles) -> None:
    """Have a thread wait for a byte in the `.ask` pipe: it then writes the last collectives, also while the
    main thread is blocked in one. The thread is none of `threading`'s: the script sees the threads it started.
    """
    os.mkfifo(files("ask"), 0o600)
    pipe = os.open(files("ask"), os.O_RDWR)

    def answer() -> None:
        while os.read(pipe, 1):
            write_collectives(files("collectives"))

    _thread.start_new_thread(answer, ())


def _main_module(argv: list[str]) -> types.ModuleType:
    script = os.path.abspath(argv[0])
    sys.argv[:] = argv
    sys.path[0] = os.path.dirname(script)
    module = types.ModuleType("__main__")
    module.__file__ = script
    vars(module)["__builtins__"] = builtins
    vars(module)["__annotations__"] = {}
    vars(module)["__cached__"] = None
    return module


def _run(module: types.ModuleType, files: RankFiles) -> int:
    script = str(module.__file__)
    try:
        with io.open_code(script) as source:
            code = compile(source.read(), script, "exec", dont_inherit=True)
        from ddp_course import reporting  # found as the script would find it: sys.path[0] is the script's

        reporting.open_channel(files("reports"))
        exec(code, vars(module))
    except SystemExit as error:
        write_json(files("error"), _description(error))  # where it left: of interest if the others still waited
        return _exit_code(error)
    except BaseException as error:
        _record(error, files)
        if isinstance(error, KeyboardInterrupt):
            return -signal.SIGINT
        return 1
    return 0


def _exit_code(error: SystemExit) -> int:
    if error.code is None:
        return 0
    if isinstance(error.code, int):
        return error.code & 0xFF
    print(error.code, file=sys.stderr)
    return 1


def _record(error: BaseException, files: RankFiles) -> None:
    write_json(files("error"), _description(error))
    _write_torch_error_file(error)
    try:
        sys.excepthook(type(error), error, error.__traceback__)
    except Exception as failure:
        _say(f"sys.excepthook failed: {failure!r}")


def _description(error: BaseException) -> dict[str, Any]:
    """The exception as data. Its traceback begins in the script: frames of this file are taken off."""
    trace = error.__traceback__
    while trace and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    error.__traceback__ = trace
    lines = traceback.format_exception(type(error), error, trace)
    frames = [{"file": f.filename, "line": f.lineno, "name": f.name} for f in traceback.extract_tb(trace)]
    if isinstance(error, SyntaxError):
        frames.append({"file": error.filename or "", "line": error.lineno or 0, "name": "<module>"})
    return {
        "time_ns": time.time_ns(),
        "type": type(error).__name__,
        "message": str(error),
        "traceback": "".join(lines),
        "frames": frames,
    }


def _write_torch_error_file(error: BaseException) -> None:
    """What `@record` would have written, so that torchrun's own summary is complete too."""
    path = os.environ.get("TORCHELASTIC_ERROR_FILE")
    if not path or os.path.exists(path):
        return
    trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    extra = {"py_callstack": trace, "timestamp": str(int(time.time()))}
    message = {"message": f"{type(error).__name__}: {error}", "extraInfo": extra}
    try:
        Path(path).write_text(json.dumps({"message": message}))
    except OSError as failure:
        _say(f"could not write {path}: {failure}")


def write_json(path: Path, content: Any) -> None:
    """Write `content` to `path` so that a reader sees all of it or nothing; not at all where the disk is full."""
    partial = path.with_suffix(path.suffix + ".part")
    path.with_suffix(_RESERVE).unlink(missing_ok=True)  # room for this, also on a disk that is full
    try:
        partial.write_text(json.dumps(content))
        os.replace(partial, path)
    except OSError as failure:
        _say(f"could not write {path.name}: {failure}")


def _say(message: str) -> None:
    try:
        print(message, file=sys.stderr)
    except OSError:
        pass  # stderr is a file in the same folder


def write_collectives(path: Path, at_end: bool = False) -> None:
    """Write PyTorch's flight recorder (the last collectives of this rank) as JSON, where torch is in use."""
    if "torch._C._distributed_c10d" not in sys.modules:
        return
    try:
        from ddp_course import recorder

        recorder.write(path, at_end)
    except Exception as failure:
        _say(f"could not write {path.name}: {failure}")


def _finish(code: int, files: RankFiles) -> NoReturn:
    """End as the interpreter would: non-daemon threads, atexit, flush. Without its slow teardown of torch."""
    try:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        write_collectives(files("collectives"), at_end=code == 0)
        files("reserve").unlink(missing_ok=True)
    finally:
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (OSError, ValueError, AttributeError):
                code = code or 120  # as the interpreter ends when it cannot flush
        ctypes.CDLL(None).fflush(None)
        if code == -signal.SIGINT:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)
        os._exit(code)


if __name__ == "__main__":
    main(sys.argv[1:])
