import torch

model = torch.nn.BatchNorm1d(4)
model(torch.randn(1, 4))
