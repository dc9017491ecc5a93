# feedback: All ranks would take the same GPU.
import os


def place(gpus):
    return ("cuda:0", "nccl") if gpus >= int(os.environ["LOCAL_WORLD_SIZE"]) else ("cpu", "gloo")
