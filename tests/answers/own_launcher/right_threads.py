# right: a thread waits for each rank and puts its code in a queue
import os
import queue
import socket
import subprocess
import sys
import threading


def my_torchrun(script, nproc):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    codes, ranks = queue.Queue(), []
    for rank in map(str, range(nproc)):
        mine = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": str(nproc), "MASTER_ADDR": "127.0.0.1"}
        ranks.append(subprocess.Popen([sys.executable, script], env={**os.environ, **mine, "MASTER_PORT": port}))
    for process in ranks:
        threading.Thread(target=lambda p=process: codes.put(p.wait())).start()
    first = 0
    for _ in ranks:
        code = codes.get()
        if code and not first:
            first = code
            for process in ranks:
                process.kill()
    return first
