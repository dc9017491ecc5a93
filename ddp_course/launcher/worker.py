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
import types
from pathlib import Path
from typing import Any, NoReturn

from ddp_course.launcher import (
    raised,
    recorder,
    reporting,  # now: the script's folder may hold a ddp_course.py
)

FOLDER_VARIABLE, ATTEMPT_VARIABLE = "DDP_COURSE_RUN_FOLDER", "DDP_COURSE_ATTEMPT"
_PR_SET_PDEATHSIG = 1
_RESERVE, _RESERVE_BYTES = ".reserve", 1 << 15
_EARLY = {"abc", "codecs", "encodings", "genericpath", "io", "os", "posixpath", "site", "stat", "zipimport"}


def stack_signal() -> int:
    """The signal that makes a rank write its Python stacks to its `.stacks` file."""
    return signal.SIGRTMAX - 7 if hasattr(signal, "SIGRTMAX") else signal.SIGUSR2


def main(argv: list[str]) -> NoReturn:
    """Run the script `argv[0]` with the arguments `argv[1:]` and end the process with its exit code."""
    files = RankFiles(Path(os.environ.pop(FOLDER_VARIABLE)))
    die_with_parent()
    _redirect(files)
    reporting.open_channel(files("reports"))
    sys.modules["__main__"] = module = _main_module(argv)
    code = _run(module, files)
    _finish(code, files)


class RankFiles:
    """The files of one rank of one attempt, in the run's folder."""

    def __init__(self, folder: Path) -> None:
        rank, attempt = os.environ.get("RANK", "0"), os.environ.pop(ATTEMPT_VARIABLE)
        self._base = folder / f"attempt-{attempt}" / f"rank-{rank}"
        self._base.parent.mkdir(mode=0o700, exist_ok=True)
        self._owner = os.getpid()

    @property
    def ours(self) -> bool:
        """Whether this process is the rank: a child that it forked comes to the script's end as well."""
        return os.getpid() == self._owner

    def __call__(self, kind: str) -> Path:
        return self._base.with_suffix(f".{kind}")


def die_with_parent(by: int = signal.SIGKILL) -> None:
    """Have the system send this process a signal when its parent dies, even of SIGKILL (Linux; main threads only)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, by)


def close_files_but(*kept: int) -> None:
    """Close what a forked process has inherited (Linux), but for stdin, stdout, stderr and `kept`."""
    for fd in map(int, os.listdir("/proc/self/fd")):
        if fd > 2 and fd not in kept:
            os.closerange(fd, fd + 1)  # without an error for the one that listed them


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
    if not getattr(sys.flags, "safe_path", False):  # PYTHONSAFEPATH, from Python 3.11 on
        sys.path.insert(0, os.path.dirname(script))
        _yield_names(os.path.dirname(script))
    module = types.ModuleType("__main__")
    module.__file__ = script
    vars(module)["__builtins__"] = builtins
    vars(module)["__annotations__"] = {}
    vars(module)["__cached__"] = None
    return module


def _yield_names(folder: str) -> None:
    """Forget the modules that are in use here and that the script's own folder has too, such as a random.py: the
    script gets its own, as it would in a new process."""
    try:
        entries = os.listdir(folder)
    except OSError:
        return
    for entry in entries:
        name, _, suffix = entry.partition(".")
        if name not in sys.modules or name in _EARLY or name in sys.builtin_module_names:
            continue
        file = os.path.join(folder, entry) if suffix else os.path.join(folder, entry, "__init__.py")
        if suffix in ("", "py") and os.path.isfile(file) and getattr(sys.modules[name], "__file__", None) != file:
            for known in [known for known in sys.modules if known == name or known.startswith(f"{name}.")]:
                del sys.modules[known]


def _run(module: types.ModuleType, files: RankFiles) -> int:
    script = str(module.__file__)
    try:
        with io.open_code(script) as source:
            code = compile(source.read(), script, "exec", dont_inherit=True)
        exec(code, vars(module))
    except SystemExit as error:
        if files.ours:  # where it left: of interest if the others still waited
            write_json(files("error"), raised.describe(error, __file__))
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
    _say(raised.text(error.code))
    return 1


def _record(error: BaseException, files: RankFiles) -> None:
    description = raised.describe(error, __file__)
    if files.ours:
        write_json(files("error"), description)
        _write_torch_error_file(description)
    try:
        sys.excepthook(type(error), error, error.__traceback__)
    except SystemExit:
        pass  # a hook that ends the process: it ends anyway, with 1
    except BaseException as failure:
        _say(f"sys.excepthook failed: {failure!r}")


def _write_torch_error_file(description: dict[str, Any]) -> None:
    """What `@record` would have written, so that torchrun's own summary is complete too."""
    path = os.environ.get("TORCHELASTIC_ERROR_FILE")
    if not path or os.path.exists(path):
        return
    extra = {"py_callstack": description["traceback"], "timestamp": str(int(time.time()))}
    message = {"message": f"{description['type']}: {description['message']}", "extraInfo": extra}
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
        print(message, file=sys.stderr or sys.__stderr__)
    except (OSError, ValueError, AttributeError):
        pass  # the disk is full, or the script has closed or replaced its stderr


def write_collectives(path: Path, at_end: bool = False) -> None:
    """Write PyTorch's flight recorder (the last collectives of this rank) as JSON, where torch is in use."""
    if "torch._C._distributed_c10d" not in sys.modules:
        return
    try:
        recorder.write(path, at_end)
    except Exception as failure:
        _say(f"could not write {path.name}: {failure}")


def _finish(code: int, files: RankFiles) -> NoReturn:
    """End as the interpreter would: non-daemon threads, atexit, flush. Without its slow teardown of torch."""
    try:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        if files.ours:
            write_collectives(files("collectives"), at_end=code == 0)
            files("reserve").unlink(missing_ok=True)
    finally:
        for stream in (sys.stdout, sys.stderr):
            try:
                if stream is not None and not getattr(stream, "closed", False):
                    stream.flush()
            except Exception:
                code = code or 120  # as the interpreter ends when it cannot flush
        ctypes.CDLL(None).fflush(None)
        if code == -signal.SIGINT:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)
        os._exit(code)


if __name__ == "__main__":
    if not getattr(sys.flags, "safe_path", False):
        del sys.path[0]  # the folder of this file
    main(sys.argv[1:])
