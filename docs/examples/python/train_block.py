"""A PyTorch training loop around a compiled recurrence: a small Vision-LSTM whose mLSTM is a function of Vertebra.

    python3 docs/examples/python/train_block.py [--steps 200] [--compare]

With --compare the same model is trained a second time with the recurrence written in PyTorch: the losses agree, and the
times stand beside each other.
"""

import argparse
import math
import time

import torch
from torch import nn
from torch.nn import functional as F

import vertebra


def mlstm_in_torch(q, k, v, i, f, eps=1e-6):
    """The parallel form of the stabilised mLSTM (xLSTM, arXiv 2405.04517, appendix A.3)."""
    tokens, width = q.shape[-2:]
    decay = F.logsigmoid(f).cumsum(-1)
    scores = decay.unsqueeze(-1) - decay.unsqueeze(-2) + i.unsqueeze(-2)
    mask = torch.ones(tokens, tokens, dtype=torch.bool, device=q.device).tril()
    scores = scores.masked_fill(~mask, -math.inf)
    top = scores.amax(-1, keepdim=True)
    weights = (q @ k.transpose(-1, -2)) / math.sqrt(width) * torch.exp(scores - top)
    bound = torch.maximum(weights.sum(-1, keepdim=True).abs(), torch.exp(-top))
    return weights @ v / (bound + eps)


class Block(nn.Module):
    """Norm, projection up, mLSTM over the tokens in one direction, gate, projection down."""

    def __init__(self, dim, heads, mixer, backwards):
        super().__init__()
        self.heads, self.mixer, self.backwards = heads, mixer, backwards
        self.norm, self.up, self.down = nn.LayerNorm(dim), nn.Linear(dim, 4 * dim), nn.Linear(2 * dim, dim)
        self.qkv, self.gates = nn.Linear(2 * dim, 6 * dim), nn.Linear(2 * dim, 2 * heads)
        self.inner = nn.LayerNorm(2 * dim)
        nn.init.zeros_(self.gates.weight)
        with torch.no_grad():
            self.gates.bias.copy_(torch.cat([torch.full((heads,), -2.0), torch.linspace(3, 6, heads)]))

    def forward(self, x):
        a, z = self.up(self.norm(x)).chunk(2, -1)
        a = a.flip(1) if self.backwards else a
        heads = lambda t: t.unflatten(-1, (self.heads, -1)).transpose(1, 2)
        q, k, v = (heads(t) for t in self.qkv(F.silu(a)).chunk(3, -1))
        i, f = self.gates(a).transpose(1, 2).chunk(2, 1)
        y = self.mixer(q, k, v, i, f).transpose(1, 2).flatten(2)
        y = y.flip(1) if self.backwards else y
        return x + self.down(self.inner(y) * F.silu(z))


class VisionLSTM(nn.Module):
    def __init__(self, mixer, image=28, patch=2, dim=48, depth=4, heads=4, classes=4):
        super().__init__()
        self.embed = nn.Conv2d(1, dim, patch, patch)
        self.place = nn.Parameter(0.02 * torch.randn(1, (image // patch) ** 2, dim))
        self.blocks = nn.Sequential(*(Block(dim, heads, mixer, n % 2 == 1) for n in range(depth)))
        self.norm, self.head = nn.LayerNorm(dim), nn.Linear(dim, classes)

    def forward(self, x):
        x = self.embed(x).flatten(2).transpose(1, 2) + self.place
        x = self.norm(self.blocks(x))
        return self.head((x[:, 0] + x[:, -1]) / 2)


def batches(steps, batch):
    """Stripes of four directions in noise: a class each."""
    rng = torch.Generator().manual_seed(1)
    grid = torch.arange(28.0) / 28
    for _ in range(steps):
        labels = torch.randint(0, 4, (batch,), generator=rng)
        angle = labels * math.pi / 4
        along = angle.cos().view(-1, 1, 1) * grid.view(1, 1, -1) + angle.sin().view(-1, 1, 1) * grid.view(1, -1, 1)
        phase = 6.28 * torch.rand(batch, 1, 1, generator=rng)
        images = torch.sin(30 * along + phase) + 0.4 * torch.randn(batch, 28, 28, generator=rng)
        yield images.unsqueeze(1), labels


def train(name, mixer, steps, batch):
    torch.manual_seed(0)
    model = VisionLSTM(mixer)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, eps=1e-5)
    losses, begin, seconds = [], None, 0.0
    for step, (images, labels) in enumerate(batches(steps, batch)):
        if step == 1:
            begin = time.perf_counter()  # the first step compiles
        loss = F.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if step % 50 == 0 or step == steps - 1:
            print(f"{name}: step {step:4d}  loss {losses[-1]:.4f}", flush=True)
    seconds = time.perf_counter() - begin
    print(f"{name}: {1000 * seconds / max(1, steps - 1):.1f} ms a step")
    return losses, seconds


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--compare", action="store_true")
    options = parser.parse_args()
    ours, ours_s = train(
        "vertebra",
        vertebra.recurrence("std/mlstm.vtb", "mlstm", threads=torch.get_num_threads()),
        options.steps,
        options.batch,
    )
    if options.compare:
        theirs, theirs_s = train("torch", mlstm_in_torch, options.steps, options.batch)
        apart = max(abs(a - b) / abs(b) for a, b in zip(ours, theirs))
        print(f"largest relative difference of losses {apart:.1e}; torch takes {theirs_s / ours_s:.2f} times as long")
