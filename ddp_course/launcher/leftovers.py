"""Mistakes that raise nothing, found in the objects that a script leaves: a model changed after it was wrapped,
an optimizer made before its model was sharded. Runs in a rank, at its end."""

from __future__ import annotations

import gc
import sys
from typing import Any


def remarks() -> list[str]:
    """One sentence for each mistake. Objects inside a function that has returned are gone and not looked at."""
    torch = sys.modules.get("torch")
    if torch is None:
        return []
    kinds = (torch.nn.Module, torch.optim.Optimizer)
    objects = [thing for thing in gc.get_objects() if issubclass(type(thing), kinds)]
    return [*_added_after_wrap(objects), *_optimizer_before_sharding(objects)]


def _added_after_wrap(objects: list[Any]) -> list[str]:
    parallel = sys.modules.get("torch.nn.parallel.distributed")
    found = []
    for model in objects:
        if parallel and issubclass(type(model), parallel.DistributedDataParallel):
            known = {id(parameter) for parameter in model._module_parameters}
            ignored = set(model.parameters_to_ignore)
            added = [
                name
                for name, parameter in model.module.named_parameters()
                if parameter.requires_grad and name not in ignored and id(parameter) not in known
            ]
            if added:
                found.append(f"added after wrap: {', '.join(added[:4])}{' …' * (len(added) > 4)}")
    return found


def _optimizer_before_sharding(objects: list[Any]) -> list[str]:
    fsdp = sys.modules.get("torch.distributed.fsdp")
    if fsdp is None:
        return []
    modules = {thing for thing in objects if issubclass(type(thing), sys.modules["torch"].nn.Module)}
    if not any(isinstance(module, fsdp.FSDPModule) for module in modules):
        return []
    of_models = {id(parameter) for module in modules for parameter in module._parameters.values()}
    for optimizer in (thing for thing in objects if thing not in modules):
        held = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        if held and not optimizer.state and not any(id(parameter) in of_models for parameter in held):
            return ["optimizer before sharding: it holds none of the model's parameters"]
    return []
