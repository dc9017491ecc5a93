# feedback: When it runs, another run may have that port.
import random


def command(script):
    place = f"--rdzv-endpoint=localhost:{random.randint(20000, 60000)}"
    return ["torchrun", "--rdzv-backend=c10d", place, "--nproc-per-node=2", script]
