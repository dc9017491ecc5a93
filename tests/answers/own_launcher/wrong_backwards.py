# feedback: While you wait for one rank, who looks at the others?
import os
import socket
import subprocess
import sys
import time


def my_torchrun(script, nproc):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ranks = []
    for rank in range(nproc):
        env = os.environ | {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(nproc)}
        env |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        ranks.append(subprocess.Popen([sys.executable, script], env=env))
    code = 0
    for process in reversed(ranks):
        code = code or process.wait()
        if code:
            for other in ranks:
                other.kill()
                other.wait()
    return code
