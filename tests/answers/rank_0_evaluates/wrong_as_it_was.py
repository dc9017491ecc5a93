# feedback: rank 1 returned, but rank 0 still waits
import torch
import torch.nn.functional as F


def validate(model, inputs, targets):
    model.eval()
    with torch.no_grad():
        loss = F.mse_loss(model(inputs), targets).item()
    model.train()
    return loss
