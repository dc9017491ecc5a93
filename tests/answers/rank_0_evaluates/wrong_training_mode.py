# feedback: That is the loss in training mode
import torch
import torch.nn.functional as F


def validate(model, inputs, targets):
    with torch.no_grad():
        return F.mse_loss(model.module(inputs), targets).item()
