#!/usr/bin/env python3
"""DeiT in plain eager PyTorch beside `vertebra bench`, alternating in one run, two threads each.

usage: deit_pytorch.py [--vertebra build/release/vertebra] [--model deit_small] [--rounds 3] [--train] [--check]
The PyTorch model is written as timm's is, with scaled_dot_product_attention (PyTorch's fused kernel); the line "torch
plain" is the same with softmax(q k^T) v as two products. Prints the best milliseconds of all rounds and the ratio to the
faster of the two; --check compares the outputs of both programs on the same weights first. Needs torch (any recent
version); nothing else in the project does.
"""
import argparse, os, subprocess, sys, tempfile

os.environ.setdefault("OMP_NUM_THREADS", "2")
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import torch
import torch.nn.functional as F
from torch import nn
from vil_pytorch import Named, best, save_case, vertebra_ms

SIZES = {"deit_tiny": (192, 3), "deit_small": (384, 6), "deit_base": (768, 12)}


class Attention(nn.Module):
    fused = True

    def __init__(self, dim, heads):
        super().__init__()
        self.qkv, self.proj, self.heads = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim), heads

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4).unbind(0)
        if Attention.fused:
            y = F.scaled_dot_product_attention(q, k, v)
        else:
            y = (q * q.shape[-1] ** -0.5 @ k.transpose(-1, -2)).softmax(-1) @ v
        return self.proj(y.transpose(1, 2).flatten(2))


class Mlp(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x):
        return self.fc2(F.gelu(self.fc1(x)))


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim, eps=1e-6), nn.LayerNorm(dim, eps=1e-6)
        self.attn, self.mlp = Attention(dim, heads), Mlp(dim)

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class DeiT(nn.Module):
    def __init__(self, dim, heads, depth=12, patch=16, image=224, classes=1000):
        super().__init__()
        self.patch_embed = Named()
        self.patch_embed.proj = nn.Conv2d(3, dim, patch, patch)
        self.cls_token = nn.Parameter(torch.randn(1, 1, dim) * 0.02)
        self.pos_embed = nn.Parameter(torch.randn(1, 1 + (image // patch) ** 2, dim) * 0.02)
        self.blocks = nn.Sequential(*(Block(dim, heads) for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(dim, eps=1e-6), nn.Linear(dim, classes)

    def forward(self, x):
        x = self.patch_embed.proj(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls_token.expand(x.shape[0], -1, -1), x], 1) + self.pos_embed
        return self.head(self.norm(self.blocks(x))[:, 0])


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--vertebra", default="build/release/vertebra")
    p.add_argument("--model", default="deit_small", choices=SIZES)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--seconds", type=float, default=3)
    p.add_argument("--batches", type=int, nargs="*", default=[1, 8])
    p.add_argument("--train", action="store_true")
    p.add_argument("--check", action="store_true")
    args = p.parse_args()
    torch.set_num_threads(2)
    torch.manual_seed(0)
    model = DeiT(*SIZES[args.model]).eval()
    if args.check:
        x = torch.randn(1, 3, 224, 224)
        with tempfile.TemporaryDirectory() as d, torch.no_grad():
            path = os.path.join(d, "pytorch.safetensors")
            save_case(model, x, model(x), path, args.model)
            subprocess.run([args.vertebra, "verify", path], check=True)

    def runner(batch):
        x, labels = torch.randn(batch, 3, 224, 224), torch.randint(1000, (batch,))

        def forward():
            with torch.no_grad():
                model(x)

        def step():
            model.zero_grad(set_to_none=True)
            F.cross_entropy(model(x), labels).backward()

        return step if args.train else forward

    what = "training step" if args.train else "forward"
    print(f"{args.model}, torch {torch.__version__} eager, 2 threads each, best of {args.rounds} alternating rounds")
    for batch in args.batches:
        run, ours, fused, plain = runner(batch), [], [], []
        for _ in range(args.rounds):
            for form, into in ((True, fused), (False, plain)):
                Attention.fused = form
                into.append(best(run, args.seconds))
            ours.append(vertebra_ms(args, ["--batch", str(batch)] + (["--train", "--no-update"] if args.train else [])))
        ours, fused, plain = min(ours), min(fused), min(plain)
        print(f"{what}, batch {batch:2d}   vertebra {ours:8.1f} ms   torch {fused:8.1f} ms   torch plain {plain:8.1f} ms"
              f"   ratio {min(fused, plain) / ours:.2f}", flush=True)


if __name__ == "__main__":
    main()
