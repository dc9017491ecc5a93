# feedback: you returned ['cpu', 'gloo']
import os


def place(gpus):
    if gpus > int(os.environ["LOCAL_WORLD_SIZE"]):
        return f"cuda:{os.environ['LOCAL_RANK']}", "nccl"
    return "cpu", "gloo"
