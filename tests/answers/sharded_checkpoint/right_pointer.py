# right: a small file that names the newest complete folder, replaced as a whole
import os

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.checkpoint.stateful import Stateful


class App(Stateful):
    def __init__(self, model, optimizer, step):
        self.model, self.optimizer, self.step = model, optimizer, torch.tensor(step)

    def state_dict(self):
        weights, averages = get_state_dict(self.model, self.optimizer)
        return {"weights": weights, "averages": averages, "step": self.step}

    def load_state_dict(self, state):
        set_state_dict(
            self.model, self.optimizer, model_state_dict=state["weights"], optim_state_dict=state["averages"]
        )
        self.step = state["step"]


def save(folder, model, optimizer, step):
    dcp.save({"app": App(model, optimizer, step)}, checkpoint_id=os.path.join(folder, str(step)))
    if dist.get_rank() == 0:
        with open(os.path.join(folder, "newest.new"), "w") as file:
            file.write(str(step))
            file.flush()
            os.fsync(file.fileno())
        os.rename(os.path.join(folder, "newest.new"), os.path.join(folder, "newest"))
    dist.all_reduce(torch.zeros(1))


def load(folder, model, optimizer):
    with open(os.path.join(folder, "newest")) as file:
        name = file.read()
    app = App(model, optimizer, 0)
    dcp.load({"app": app}, checkpoint_id=os.path.join(folder, name))
    return int(app.step)
