# feedback: expected
import torch


def visit(sampler, epochs):
    orders = []
    for epoch in range(epochs):
        torch.manual_seed(epoch)
        order = list(sampler)
        orders.append([order[i] for i in torch.randperm(len(order))])
    return orders
