# feedback: still wait
import torch
import torch.distributed as dist
import torch.nn.functional as F


def validate(model, inputs, targets):
    net = model.module.eval()
    with torch.no_grad():
        loss = F.mse_loss(net(inputs), targets)
    net.train()
    dist.all_reduce(loss)
    return loss.item() / dist.get_world_size()
