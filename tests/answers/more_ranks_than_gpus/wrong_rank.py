# feedback: That is RANK. This machine counts its GPUs from 0.
import os


def place(gpus):
    if gpus >= int(os.environ["LOCAL_WORLD_SIZE"]):
        return f"cuda:{os.environ['RANK']}", "nccl"
    return "cpu", "gloo"
