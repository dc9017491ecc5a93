# right: the loss is scaled before backward; one flat all-reduce
import torch
import torch.distributed as dist
import torch.nn.functional as F


def start_alike(model):
    with torch.no_grad():
        for parameter in model.parameters():
            if dist.get_rank():
                parameter.zero_()
            dist.all_reduce(parameter)


def step(model, inputs, targets, reduction, lr):
    count = torch.tensor(targets.numel())
    dist.all_reduce(count)
    loss = F.mse_loss(model(inputs), targets, reduction="sum")
    scale = 1 / count.item() if reduction == "mean" else 1.0
    parameters = list(model.parameters())
    grads = torch.autograd.grad(loss * scale, parameters)
    flat = torch.cat([grad.flatten() for grad in grads])
    dist.all_reduce(flat)
    with torch.no_grad():
        for parameter, grad in zip(parameters, flat.split([p.numel() for p in parameters])):
            parameter -= lr * grad.view_as(parameter)
