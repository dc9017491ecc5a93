# right: the wrapped model itself
import torch
import torch.nn.functional as F


def validate(model, inputs, targets):
    net = model.module
    net.eval()
    with torch.no_grad():
        loss = F.mse_loss(net(inputs), targets).item()
    net.train()
    return loss
