# right: waits for any child, as a shell would; ends the others in a finally
import os
import signal
import subprocess
import sys
from contextlib import closing
from socket import create_server


def my_torchrun(script, nproc):
    with closing(create_server(("localhost", 0))) as free:
        os.environ.update(MASTER_ADDR="localhost", MASTER_PORT=str(free.getsockname()[1]), WORLD_SIZE=str(nproc))
    alive = {}
    for rank in range(nproc):
        os.environ["RANK"] = os.environ["LOCAL_RANK"] = str(rank)
        process = subprocess.Popen([sys.executable, "-u", script])
        alive[process.pid] = process
    try:
        while alive:
            pid, status = os.wait()
            if alive.pop(pid, None) and (code := os.waitstatus_to_exitcode(status)):
                return 128 - code if code < 0 else code
        return 0
    finally:
        for pid in alive:
            os.kill(pid, signal.SIGKILL)
        for pid in alive:
            os.waitpid(pid, 0)
