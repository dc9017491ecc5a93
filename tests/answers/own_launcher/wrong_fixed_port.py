# feedback: MASTER_PORT is 29500 again, which another launch uses.
import os
import socket
import subprocess
import sys
import time


def my_torchrun(script, nproc):
    port = 29500
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
        process.kill()
        process.wait()
    return code
