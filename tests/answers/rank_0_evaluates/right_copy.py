# right: a copy of it
import copy

import torch
import torch.nn.functional as F


def validate(model, inputs, targets):
    net = copy.deepcopy(model.module).eval()
    with torch.no_grad():
        return F.mse_loss(net(inputs), targets).item()
