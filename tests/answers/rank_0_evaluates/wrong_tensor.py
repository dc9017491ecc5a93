# feedback: it is a Tensor, not a plain number
import torch
import torch.nn.functional as F


def validate(model, inputs, targets):
    net = model.module
    net.eval()
    with torch.no_grad():
        loss = F.mse_loss(net(inputs), targets)
    net.train()
    return loss
