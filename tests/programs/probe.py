"""Prints, as JSON, everything a script can see of the way it was started."""

import json
import multiprocessing
import os
import random
import signal
import sys
import threading

at_start = {
    "python_random": random.getstate()[1][:3],
    "environment": dict(os.environ),
    "modules_of_main": sorted(vars(sys.modules["__main__"])),
    "threads": len(os.listdir("/proc/self/task")),
    "files": sorted(
        os.readlink(f"/proc/self/fd/{fd}").split(":")[0]
        for fd in os.listdir("/proc/self/fd")
        if os.path.exists(f"/proc/self/fd/{fd}")
    ),
}

import numpy  # noqa: E402
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

print(
    json.dumps(
        {
            **at_start,
            "argv": sys.argv,
            "cwd": os.getcwd(),
            "sys.path": sys.path,
            "__name__": __name__,
            "__file__": __file__,
            "__spec__": __spec__,
            "__package__": __package__,
            "main is this": sys.modules["__main__"].__dict__ is globals(),
            "flags": str(sys.flags),
            "executable": sys.executable,
            "stdout": [
                type(sys.stdout.buffer).__name__,
                sys.stdout.encoding,
                sys.stdout.errors,
                sys.stdout.write_through,
            ],
            "stderr": [type(sys.stderr.buffer).__name__, sys.stderr.encoding, sys.stderr.errors],
            "numpy_random": numpy.random.get_state()[1][:3].tolist(),
            "torch_random": torch.initial_seed(),
            "torch_numbers": torch.rand(3).tolist(),
            "torch_threads": torch.get_num_threads(),
            "torch_interop_threads": torch.get_num_interop_threads(),
            "default_dtype": str(torch.get_default_dtype()),
            "grad_enabled": torch.is_grad_enabled(),
            "debug_level": str(dist.get_debug_level()),
            "python_threads": sorted(t.name for t in threading.enumerate()),
            "start_method": multiprocessing.get_start_method(allow_none=True),
            "signals": {s.name: str(signal.getsignal(s)).split(" at ")[0] for s in signal.Signals},
            "blocked_signals": sorted(map(int, signal.pthread_sigmask(signal.SIG_BLOCK, []))),
            "leads_session": os.getsid(0) == os.getpid(),
            "umask": os.umask(0o022),
            "niceness": os.nice(0),
            "excepthook": sys.excepthook is sys.__excepthook__,
            "recursion_limit": sys.getrecursionlimit(),
            "cuda_initialised": torch.cuda.is_initialized(),
        }
    )
)
