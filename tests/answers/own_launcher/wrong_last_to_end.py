# feedback: A rank failed, and whoever started you believes that all went well.
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
    while ranks[0].poll() is None:
        if any(process.poll() for process in ranks):
            break
        time.sleep(0.05)
    code = next((process.returncode for process in ranks if process.poll()), 0)
    for process in ranks:
        process.kill()
        process.wait()
    return code
