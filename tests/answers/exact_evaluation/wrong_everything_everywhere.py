# feedback: ran the model on 11 samples; 6 would do
import torch
import torch.distributed as dist


def accuracy(model, inputs, targets):
    return (model(inputs).argmax(1) == targets).double().mean().item()
