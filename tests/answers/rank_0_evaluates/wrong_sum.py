# feedback: loss: expected
import torch
import torch.nn.functional as F


def validate(model, inputs, targets):
    net = model.module.eval()
    with torch.no_grad():
        loss = F.mse_loss(net(inputs), targets, reduction="sum").item()
    net.train()
    return loss
