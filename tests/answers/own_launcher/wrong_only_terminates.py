# feedback: still ran after 6 seconds: it ignores SIGTERM, which terminate() sends.
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
    code = None
    while code is None:
        ended = [process.poll() for process in ranks]
        if any(ended):
            code = next(one for one in ended if one)
        elif None not in ended:
            code = 0
        time.sleep(0.05)
    for process in ranks:
        process.terminate()
        process.wait()
    return code
