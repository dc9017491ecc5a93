# feedback: WORLD_SIZE counts the ranks of all machines.
import os


def place(gpus):
    if gpus >= int(os.environ["WORLD_SIZE"]):
        return f"cuda:{os.environ['LOCAL_RANK']}", "nccl"
    return "cpu", "gloo"
