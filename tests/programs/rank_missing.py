import ctypes
import os
import signal
import sys
import time

import torch
import torch.distributed as dist


def stay_away(how: str) -> None:
    if how == "asleep":
        time.sleep(60)
    elif how == "loop":
        while True:
            pass
    elif how == "native":
        ctypes.CDLL(None).sleep(60)
    elif how == "native_with_gil":
        ctypes.PyDLL(None).sleep(60)
    elif how == "stopped":
        os.kill(os.getpid(), signal.SIGSTOP)
    elif how == "in_barrier":
        dist.barrier()
    elif how == "in_recv":
        dist.recv(torch.ones(2), src=0)


dist.init_process_group("gloo")
values = torch.ones(1024)
dist.all_reduce(values)
if dist.get_rank() == 1:
    stay_away(sys.argv[1])
dist.all_reduce(values)
dist.destroy_process_group()
