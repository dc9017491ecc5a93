import torch

if torch.ones(1)
    print("one")
