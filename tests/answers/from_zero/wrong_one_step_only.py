# feedback: was never made, by ranks 0 and 1.
import torch


def train(path, steps, take_step):
    state = {"step": 0, "weight": torch.zeros(3)}
    take_step(state)
    return state
