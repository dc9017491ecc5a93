"""Train a small GPT on Python's own language reference, data-parallel over any number of ranks.

torchrun --standalone --nproc-per-node 2 train_ddp.py --steps 600
"""

import argparse
import contextlib
import itertools
import os
import sys
from pydoc_data.topics import topics

import torch
import torch.distributed as dist
import torch.distributed.nn  # imported later, it would keep the process group alive past its end
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

try:
    from ddp_course import report  # values for the notebook; elsewhere it does nothing
except ImportError:

    def report(**values):
        """Without the course's package there is nobody to report to."""


VOCABULARY, CONTEXT, LAYERS, HEADS, WIDTH = 256, 64, 2, 6, 192  # bytes; 1.0 M parameters
LEARNING_RATE, BETAS, WARM_UP, CLIP = 3e-4, (0.9, 0.95), 20, 1.0
PADDING = -100  # the target that cross_entropy ignores by default
SEED = 0


# ---------------------------------------------------------------- text


def load_documents(path=None):
    """The text, one bytes object a document: the topics of Python's help(), or a file of yours."""
    if path:
        with open(path, "rb") as file:
            return [file.read()]
    seen, documents = set(), []
    for name in sorted(topics):
        # Topics quote each other: without repeats, no held-out text is in the training text.
        parts = dict.fromkeys(topics[name].split("\n\n"))
        fresh = [part for part in parts if part not in seen]
        seen.update(fresh)
        documents.append("\n\n".join(fresh).encode())
    return documents


def split(documents):
    """Hold out the last tenth of every document. Returns (training, held out)."""
    cuts = [(text, len(text) * 9 // 10) for text in documents]
    return [text[:cut] for text, cut in cuts], [text[cut:] for text, cut in cuts]


def make_windows(documents):
    """A data set of (inputs, targets), each (CONTEXT,) int64: targets are one byte ahead."""
    inputs, targets = [], []
    for text in documents:
        for start in range(0, len(text) - 1, CONTEXT):
            window = list(text[start : start + CONTEXT + 1])
            missing = CONTEXT + 1 - len(window)  # the last window of a document is short
            inputs.append(window[:-1] + [0] * missing)
            targets.append(window[1:] + [PADDING] * missing)
    return TensorDataset(torch.tensor(inputs), torch.tensor(targets))


class ResumableSampler(DistributedSampler):
    """DistributedSampler that can start in the middle of an epoch."""

    skip = 0  # samples of this rank that the epoch has already used

    def __iter__(self):
        return itertools.islice(super().__iter__(), self.skip, None)


# ---------------------------------------------------------------- model


def attention_bias(length, device):
    """ALiBi (Press et al. 2022): distant bytes count less, the future not at all. (heads, l, l)"""
    position = torch.arange(length, device=device)
    distance = position[:, None] - position
    slope = 0.5 ** torch.arange(HEADS, device=device)[:, None, None]  # one for each head
    return torch.where(distance < 0, -torch.inf, -slope * distance)


class Block(nn.Module):
    def __init__(self, dropout):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, bias):
        batch, length, _ = x.shape
        qkv = self.qkv(self.norm1(x)).view(batch, length, 3, HEADS, WIDTH // HEADS)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias.to(q.dtype))
        x = x + self.dropout(self.out(y.transpose(1, 2).flatten(2)))
        return x + self.dropout(self.down(F.gelu(self.up(self.norm2(x)))))


class GPT(nn.Module):
    """Decoder-only transformer: (batch, length) bytes in, (batch, length, 256) logits out."""

    def __init__(self, dropout=0.0):
        super().__init__()
        self.token = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList([Block(dropout) for _ in range(LAYERS)])
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=0.05)

    def forward(self, tokens):
        x, bias = self.token(tokens), attention_bias(tokens.shape[1], tokens.device)
        for block in self.blocks:
            x = block(x, bias)
        return self.head(self.norm(x))


def loss_sum(model, inputs, targets):
    """Cross-entropy in nats, summed over the targets that are no padding."""
    logits = model(inputs).flatten(0, 1)
    return F.cross_entropy(logits, targets.flatten(), reduction="sum")


# ---------------------------------------------------------------- checkpoint


def save_checkpoint(path, model, optimizer, step, batch_size):
    """Save all that the next step depends on. A crash leaves the old file or the new one."""
    states = [None] * dist.get_world_size()
    dist.all_gather_object(states, random_state())  # every rank calls it, rank 0 writes
    if dist.get_rank() != 0:
        return
    checkpoint = {
        "model": model.module.state_dict(),  # .module: names without the prefix "module."
        "optimizer": optimizer.state_dict(),
        "step": step,
        "batch_size": batch_size,  # gives, with the step, the position of the sampler
        "random": states,
    }
    with open(f"{path}.tmp", "wb") as file:
        torch.save(checkpoint, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(f"{path}.tmp", path)  # atomic


def load_checkpoint(path, model, optimizer, batch_size):
    """Put the checkpoint back on every rank. Returns the next step, 0 where there is no file."""
    found = [None]
    if dist.get_rank() == 0 and os.path.exists(path):
        found = [torch.load(path, map_location="cpu", weights_only=True)]
    dist.broadcast_object_list(found)  # rank 0 decides for all; no shared disk is needed
    if found[0] is None:
        return 0
    checkpoint = found[0]
    if checkpoint["batch_size"] != batch_size:
        sys.exit(f"{path} was saved with --batch-size {checkpoint['batch_size']}")
    model.module.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    if len(checkpoint["random"]) == dist.get_world_size():  # else only dropout differs
        random_state(checkpoint["random"][dist.get_rank()])
    return checkpoint["step"]


def random_state(new=None):
    """This rank's random state, on the device it trains on; sets it where one is given."""
    device = torch.cuda if dist.get_backend() == "nccl" else torch.random
    if new is not None:
        device.set_rng_state(new)
    return device.get_rng_state()


# ---------------------------------------------------------------- training


def steps_of_batches(loader, step, steps_per_epoch, accumulate):
    """For each step from `step` on: the list of its micro-batches on this rank. Never ends."""
    while True:
        epoch, done = divmod(step, steps_per_epoch)
        loader.sampler.set_epoch(epoch)
        loader.sampler.skip = done * accumulate * loader.batch_size
        batches = iter(loader)
        for _ in range(done, steps_per_epoch):
            yield [next(batches) for _ in range(accumulate)]
            step += 1


def train_step(model, optimizer, micro_batches, autocast):
    """One step on the global batch. Returns (loss sum here, targets everywhere, gradient norm)."""
    # The loss is the mean over all targets of all ranks. How many, no rank knows alone.
    count = sum((targets != PADDING).sum() for _, targets in micro_batches)
    dist.all_reduce(count)
    world = dist.get_world_size()
    total = 0.0
    for number, (inputs, targets) in enumerate(micro_batches, start=1):
        last = number == len(micro_batches)
        sync = contextlib.nullcontext() if last else model.no_sync()
        with sync:  # around forward and backward
            with autocast:
                loss = loss_sum(model, inputs, targets)
            # DDP divides the sum over ranks by world. This undoes it: sum / count is left.
            (loss * world / count).backward()
        total += loss.detach()
    # After the last backward all ranks hold the same gradient: one norm clips them alike.
    norm = nn.utils.clip_grad_norm_(model.parameters(), CLIP)
    optimizer.step()
    optimizer.zero_grad()
    return total, count, norm


@torch.no_grad()
def evaluate(model, windows, device):
    """Mean loss over the windows. Each is seen by one rank, once; sums and counts are reduced."""
    model.eval()
    result = torch.zeros(2, dtype=torch.float64, device=device)
    mine = slice(dist.get_rank(), None, dist.get_world_size())
    inputs, targets = (tensor[mine].to(device) for tensor in windows.tensors)
    for x, y in zip(inputs.split(64), targets.split(64), strict=True):
        # .module: ranks can have unequal numbers of batches, so no forward may wait for others.
        result[0] += loss_sum(model.module, x, y)
        result[1] += (y != PADDING).sum()
    dist.all_reduce(result)
    model.train()
    return (result[0] / result[1]).item()


def train(args, device):
    rank, world = dist.get_rank(), dist.get_world_size()
    gpu = device.type == "cuda"
    micro_batch, rest = divmod(args.batch_size, world * args.accumulate)
    if rest or not micro_batch:
        sys.exit(f"--batch-size {args.batch_size} is no multiple of {world} × {args.accumulate}")

    training, held_out = map(make_windows, split(load_documents(args.text)))
    loader = DataLoader(
        training,
        batch_size=micro_batch,
        sampler=ResumableSampler(training, seed=SEED, drop_last=True),
        num_workers=2 if gpu else 0,  # on CPUs they would take the cores from the ranks
        persistent_workers=gpu,
        pin_memory=gpu,
        generator=torch.Generator(),  # its own, so that loading takes no number from dropout
    )
    data_steps = len(training) // args.batch_size

    torch.manual_seed(SEED)
    model = DDP(GPT(args.dropout).to(device), device_ids=[device.index] if gpu else None)
    torch.manual_seed(SEED + rank)  # dropout must differ between ranks
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, betas=BETAS)
    # Most CPUs emulate bf16: slower than fp32, and less exact.
    bf16 = gpu and args.precision == "auto" and torch.cuda.is_bf16_supported(False)
    autocast = torch.autocast(device.type, dtype=torch.bfloat16, enabled=bf16)

    start = 0
    if args.checkpoint and args.resume:
        start = load_checkpoint(args.checkpoint, model, optimizer, args.batch_size)
    if rank == 0:
        size = sum(parameter.numel() for parameter in model.parameters())
        print(f"{size:,} parameters, {len(training):,} windows, {world} × {device.type}")

    data = steps_of_batches(loader, start, data_steps, args.accumulate)
    for step in range(start, args.steps):
        # The rate belongs to the global batch. A function of the step alone: nothing to save.
        for group in optimizer.param_groups:
            group["lr"] = LEARNING_RATE * min(1.0, (step + 1) / WARM_UP)
        batches = [[t.to(device, non_blocking=True) for t in pair] for pair in next(data)]
        total, count, norm = train_step(model, optimizer, batches, autocast)

        last = step + 1 == args.steps
        if step % args.log_every == 0 or last:
            dist.all_reduce(total)
            loss = (total / count).item()
            report(step=step + 1, total=args.steps, loss=loss)
            if rank == 0:
                print(f"step {step:4d}  loss {loss:.3f}  gradient norm {norm:.2f}", flush=True)
        if args.checkpoint and ((step + 1) % args.save_every == 0 or last):
            save_checkpoint(args.checkpoint, model, optimizer, step + 1, args.batch_size)

    validation = evaluate(model, held_out, device)
    report(validation=validation)
    if rank == 0:
        print(f"validation loss {validation:.3f} nats per byte")


def main():
    text = argparse.RawTextHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=text)
    option = parser.add_argument
    option("--steps", type=int, default=600, metavar="N")
    option("--batch-size", type=int, default=8, metavar="N", help="windows a step, over all ranks")
    option("--accumulate", type=int, default=1, metavar="N", help="micro-batches a step, on each rank")
    option("--dropout", type=float, default=0.0, metavar="P")
    option("--precision", choices=["auto", "fp32"], default="auto", help="auto: bf16 on GPUs")
    option("--deterministic", action="store_true", help="the same bits in every run; slower")
    option("--text", metavar="FILE", help="train on this file")
    option("--checkpoint", metavar="FILE", help="save here, at the end and every --save-every steps")
    option("--save-every", type=int, default=100, metavar="N")
    option("--resume", action="store_true", help="go on from --checkpoint where it exists")
    option("--log-every", type=int, default=50, metavar="N")
    args = parser.parse_args()
    if "RANK" not in os.environ:
        parser.error("start me with torchrun, as --help shows")

    if args.deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True)
    # One GPU for each rank of this machine, or the CPU for all of them.
    gpu = torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"])
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if gpu else torch.device("cpu")
    if gpu:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if gpu else "gloo", device_id=device if gpu else None)
    train(args, device)  # its model ends with it: none may outlive the process group
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
