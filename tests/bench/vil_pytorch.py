#!/usr/bin/env python3
"""ViL in plain eager PyTorch beside `vertebra bench`, alternating in one run, two threads each.

usage: vil_pytorch.py [--vertebra build/release/vertebra] [--model vil_tiny] [--rounds 5] [--check]
The PyTorch model is the released version 2 architecture written plainly (parallel stabilised mLSTM, depthwise conv2d,
block-diagonal q/k/v), with PyTorch's own fused ops where it has them. Prints milliseconds and the ratio; --check compares the
outputs of both on the same weights first. Needs torch (any recent version); nothing else in the project does.
"""
import argparse, json, math, os, struct, subprocess, sys, tempfile, time

os.environ.setdefault("OMP_NUM_THREADS", "2")
import torch
import torch.nn.functional as F
from torch import nn

SIZES = {"vil_tiny": 192, "vil_small": 384, "vil_base": 768}


class Norm(nn.Module):  # residual-weight layer norm
    def __init__(self, dim, eps):
        super().__init__()
        self.weight, self.bias, self.eps = nn.Parameter(torch.zeros(dim)), nn.Parameter(torch.zeros(dim)), eps

    def forward(self, x):
        return F.layer_norm(x, x.shape[-1:], 1 + self.weight, self.bias, self.eps)


class Headwise(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(inner // 4, 4, 4) * 0.1)
        self.bias = nn.Parameter(torch.zeros(inner))

    def forward(self, x):
        y = torch.einsum("...gi,goi->...go", x.unflatten(-1, (-1, 4)), self.weight)
        return y.flatten(-2) + self.bias


def mlstm(q, k, v, i, f, eps=1e-6):
    s = q.shape[-2]
    cum = F.logsigmoid(f).cumsum(-1)
    log_d = cum.unsqueeze(-1) - cum.unsqueeze(-2) + i.unsqueeze(-2)
    mask = torch.ones(s, s, dtype=torch.bool, device=q.device).tril()
    log_d = log_d.masked_fill(~mask, -math.inf)
    m = log_d.amax(-1, keepdim=True)
    p = (q @ (k / math.sqrt(q.shape[-1])).transpose(-1, -2)) * torch.exp(log_d - m)
    return p / (torch.maximum(p.sum(-1, keepdim=True).abs(), torch.exp(-m)) + eps) @ v


class Cell(nn.Module):
    def __init__(self, inner, heads=4):
        super().__init__()
        self.igate, self.fgate = nn.Linear(3 * inner, heads), nn.Linear(3 * inner, heads)
        self.outnorm, self.heads = Norm(inner, 1e-5), heads

    def forward(self, q, k, v):
        g = torch.cat([q, k, v], -1)
        i, f = self.igate(g).transpose(1, 2), self.fgate(g).transpose(1, 2)
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in (q, k, v))
        h = mlstm(q, k, v, i, f).transpose(1, 2)
        h = F.layer_norm(h, h.shape[-1:], eps=1e-5).flatten(-2)
        return h * (1 + self.outnorm.weight) + self.outnorm.bias


class Layer(nn.Module):
    def __init__(self, dim, reverse):
        super().__init__()
        inner = 2 * dim
        self.reverse = reverse
        self.proj_up, self.proj_down = nn.Linear(dim, 2 * inner), nn.Linear(inner, dim)
        self.conv = nn.Conv2d(inner, inner, 3, padding=1, groups=inner)
        self.q_proj, self.k_proj, self.v_proj = Headwise(inner), Headwise(inner), Headwise(inner)
        self.mlstm_cell, self.learnable_skip = Cell(inner), nn.Parameter(torch.ones(inner))

    def forward(self, x, grid):
        x = x.flip(1) if self.reverse else x
        xm, z = self.proj_up(x).chunk(2, -1)
        a = F.silu(self.conv(xm.transpose(1, 2).unflatten(-1, grid)).flatten(2).transpose(1, 2))
        h = self.mlstm_cell(self.q_proj(a), self.k_proj(a), self.v_proj(xm))
        y = self.proj_down((h + self.learnable_skip * a) * F.silu(z))
        return y.flip(1) if self.reverse else y


class Block(nn.Module):
    def __init__(self, dim, reverse):
        super().__init__()
        self.norm, self.layer = Norm(dim, 1e-5), Layer(dim, reverse)

    def forward(self, x, grid):
        return x + self.layer(self.norm(x), grid)


class Named(nn.Module):
    pass


class ViL(nn.Module):
    def __init__(self, dim, depth=24, patch=16, image=224, classes=1000, channels=3):
        super().__init__()
        g = image // patch
        self.grid = (g, g)
        self.patch_embed, self.pos_embed = Named(), Named()
        self.patch_embed.proj = nn.Conv2d(channels, dim, patch, patch)
        self.pos_embed.embed = nn.Parameter(torch.randn(1, g, g, dim) * 0.02)
        pairs = []
        for _ in range(depth // 2):
            pair = Named()
            pair.rowwise_from_top_left, pair.rowwise_from_bot_right = Block(dim, False), Block(dim, True)
            pairs.append(pair)
        self.blocks = nn.ModuleList(pairs)
        self.norm, self.legacy_norm = Norm(dim, 1e-6), nn.LayerNorm(2 * dim, eps=1e-5)
        self.head = nn.Linear(2 * dim, classes)

    def forward(self, x):
        x = self.patch_embed.proj(x).permute(0, 2, 3, 1) + self.pos_embed.embed
        x = x.flatten(1, 2)
        for pair in self.blocks:
            x = pair.rowwise_from_bot_right(pair.rowwise_from_top_left(x, self.grid), self.grid)
        x = self.norm(x)
        return self.head(self.legacy_norm(torch.cat([x[:, 0], x[:, -1]], -1)))


def save_case(model, x, y, path, entry, config=None, more=None):
    """A reference case (tests/golden/README.md) so that `vertebra verify` compares the two. more: further tensors."""
    tensors = {"param/" + k: v.detach() for k, v in model.state_dict().items()}
    tensors.update({"input/x": x, "output/y": y} | (more or {}))
    header, offset, blobs = {"__metadata__": {"entry": entry, "config": json.dumps(config or {})}}, 0, []
    for name, t in tensors.items():
        raw = t.detach().contiguous().float().numpy().tobytes()
        header[name] = {"dtype": "F32", "shape": list(t.shape), "data_offsets": [offset, offset + len(raw)]}
        offset += len(raw)
        blobs.append(raw)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(blobs))


def best(fn, seconds):
    fn()
    times, start = [], time.perf_counter()
    while len(times) < 3 or time.perf_counter() - start < seconds:
        t = time.perf_counter()
        fn()
        times.append(time.perf_counter() - t)
    return min(times) * 1e3


def vertebra_ms(args, extra):
    out = subprocess.run([args.vertebra, "bench", args.model, "--json", "--threads", "2", "--seconds", str(args.seconds)] + extra,
                         check=True, capture_output=True, text=True).stdout
    return json.loads(out)["best_ms"]


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--vertebra", default="build/release/vertebra")
    p.add_argument("--model", default="vil_tiny", choices=SIZES)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--seconds", type=float, default=3)
    p.add_argument("--train-batch", type=int, default=8)
    p.add_argument("--check", action="store_true")
    args = p.parse_args()
    torch.set_num_threads(2)
    torch.manual_seed(0)
    model = ViL(SIZES[args.model]).eval()
    x1, xb = torch.randn(1, 3, 224, 224), torch.randn(args.train_batch, 3, 224, 224)
    labels = torch.randint(1000, (args.train_batch,))
    if args.check:
        with tempfile.TemporaryDirectory() as d, torch.no_grad():
            path = os.path.join(d, "pytorch.safetensors")
            save_case(model, x1, model(x1), path, args.model)
            subprocess.run([args.vertebra, "verify", path], check=True)

    def forward():
        with torch.no_grad():
            model(x1)

    def step():
        model.zero_grad(set_to_none=True)
        F.cross_entropy(model(xb), labels).backward()

    rows = {"forward, batch 1": (forward, ["--batch", "1"]),
            f"training step, batch {args.train_batch}": (step, ["--batch", str(args.train_batch), "--train",
                                                                "--no-update"])}
    print(f"{args.model}, torch {torch.__version__} eager, 2 threads each, best of {args.rounds} alternating rounds")
    for name, (fn, extra) in rows.items():
        ours, theirs = [], []
        for _ in range(args.rounds):
            theirs.append(best(fn, args.seconds))
            ours.append(vertebra_ms(args, extra))
        print(f"{name:26s} vertebra {min(ours):8.1f} ms   torch {min(theirs):8.1f} ms   ratio {min(theirs) / min(ours):.2f}")


if __name__ == "__main__":
    main()
