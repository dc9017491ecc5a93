# feedback: When it runs, another run may have that port.
import random


def command(script):
    return ["torchrun", "--nproc-per-node=2", f"--master-port={random.randint(20000, 60000)}", script]
