# right: through a DataLoader
from torch.utils.data import DataLoader


def visit(sampler, epochs):
    loader = DataLoader(sampler.dataset, batch_size=None, sampler=sampler)
    result = {}
    for epoch in range(epochs):
        loader.sampler.set_epoch(epoch)
        result[epoch] = [sample for sample in loader]
    return list(result.values())
