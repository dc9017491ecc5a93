# feedback: the model is still in eval mode
import torch
import torch.nn.functional as F


def validate(model, inputs, targets):
    model.eval()
    with torch.no_grad():
        return F.mse_loss(model.module(inputs), targets).item()
