# feedback: it began at step 0 again: all that was done is lost.
import torch


def train(path, steps, take_step):
    state = {"step": 0, "weight": torch.zeros(3)}
    for _ in range(steps):
        take_step(state)
    return state
