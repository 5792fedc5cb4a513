#!/usr/bin/env python3
"""The measured architectures in plain PyTorch, as one would write them without kernels of one's own.

usage: peers.py check [--vertebra PROGRAM] [--family vil vir vllama vim]
       peers.py measure MODEL [--how eager|compile|max-autotune|mamba_ssm] [--image 224] [--batch 1] [--train] [--device cpu]

check builds small models, writes each as a reference case with gradients of a random cotangent, and has `vertebra
verify` compare the two at 1e-4. measure prints one line of JSON: times of a forward pass, or of forward and backward, on
the GPU in bf16 autocast. max-autotune is torch.compile with CUDA graphs; mamba_ssm is Vim with that package's scan.
"""
import argparse, json, os, statistics, subprocess, sys, tempfile, time

here = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [here, os.path.join(here, "..", "bench")]
import torch
import torch.nn.functional as F
from torch import nn
from deit_pytorch import Mlp
from sizes import MODELS, swiglu_width
from vil_pytorch import Named, ViL, save_case


# ---- ViR ------------------------------------------------------------------------------------------------------------
class Retention(nn.Module):
    """Parallel up to `longest` tokens, beyond that in chunks: the faster of the two in either range."""
    longest, chunk = 512, 256

    def __init__(self, dim, heads):
        super().__init__()
        self.qkv, self.norm, self.out_proj = nn.Linear(dim, 3 * dim), nn.LayerNorm(dim, eps=1e-6), nn.Linear(dim, dim)
        self.heads = heads
        gap = torch.linspace(torch.log(torch.tensor(1 / 32)), torch.log(torch.tensor(1 / 512)), heads).exp()
        self.register_buffer("log_decay", torch.log1p(-gap).reshape(heads, 1, 1), persistent=False)

    def mask(self, n):
        at = torch.arange(n, device=self.log_decay.device)
        distance = (at[:, None] - at).float()
        return torch.where(distance >= 0, torch.exp(self.log_decay * distance.clamp_min(0)), 0)

    def chunkwise(self, q, k, v):
        n, c = q.shape[2], self.chunk
        q, k, v = (F.pad(t, (0, 0, 0, -n % c)).unflatten(2, (-1, c)) for t in (q, k, v))
        at = torch.arange(c, device=q.device)[:, None]
        y = (q @ k.transpose(-1, -2) * self.mask(c)[:, None]) @ v
        added = (k * torch.exp(self.log_decay * (c - 1 - at))[:, None]).transpose(-1, -2) @ v
        state, before = torch.zeros_like(added[:, :, 0]), []
        for j in range(q.shape[2]):
            before.append(state)
            state = torch.exp(self.log_decay * c) * state + added[:, :, j]
        y = y + (q * torch.exp(self.log_decay * (at + 1))[:, None]) @ torch.stack(before, 2)
        return y.flatten(2, 3)[:, :, :n]

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4).unbind(0)
        q = q * q.shape[-1] ** -0.5
        if x.shape[1] <= self.longest:
            y = (q @ k.transpose(-1, -2) * self.mask(x.shape[1])) @ v
        else:
            y = self.chunkwise(q, k, v)
        return self.out_proj(F.gelu(self.norm(y.transpose(1, 2).flatten(2))))


class ViRBlock(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim, eps=1e-6), nn.LayerNorm(dim, eps=1e-6)
        self.retention, self.mlp = Retention(dim, heads), Mlp(dim)

    def forward(self, x):
        x = x + self.retention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class ViR(nn.Module):
    def __init__(self, dim, depth, heads, patch=16, image=224, classes=1000, channels=3):
        super().__init__()
        self.patch_embed = Named()
        self.patch_embed.proj = nn.Conv2d(channels, dim, patch, patch)
        self.pos_embed = nn.Parameter(torch.randn(1, (image // patch) ** 2, dim) * 0.02)
        self.cls_token = nn.Parameter(torch.randn(1, 1, dim) * 0.02)
        self.blocks = nn.Sequential(*(ViRBlock(dim, heads) for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(dim, eps=1e-6), nn.Linear(dim, classes)

    def forward(self, x):
        x = self.patch_embed.proj(x).flatten(2).transpose(1, 2) + self.pos_embed
        x = self.blocks(torch.cat([x, self.cls_token.expand(x.shape[0], -1, -1)], 1))
        return self.head(self.norm(x)[:, -1])


# ---- VisionLLaMA ----------------------------------------------------------------------------------------------------
def rotary(grid, width, base=10000.0):
    """Cosines and sines [tokens, width/2]: each frequency with the column, then with the row; the class token in front
    stands at (grid - 1, -1), as released."""
    at = torch.arange(grid * grid)
    x = torch.cat([torch.tensor([grid - 1.0]), (at % grid).float()])
    y = torch.cat([torch.tensor([-1.0]), (at // grid).float()])
    frequency = base ** (-4 * torch.arange(width // 4) / width)
    angles = torch.stack([x[:, None] * frequency, y[:, None] * frequency], -1).flatten(1)
    return angles.cos(), angles.sin()


def rotate(x, cos, sin):
    even, odd = x.unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack([even * cos - odd * sin, even * sin + odd * cos], -1).flatten(-2)


class Rotated(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.qkv, self.proj, self.heads = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim), heads

    def forward(self, x, cos, sin):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(rotate(q, cos, sin).to(v.dtype), rotate(k, cos, sin).to(v.dtype), v)
        return self.proj(y.transpose(1, 2).flatten(2))


class SwiGLU(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.c_fc1, self.c_fc2 = nn.Linear(dim, hidden, bias=False), nn.Linear(dim, hidden, bias=False)
        self.c_proj = nn.Linear(hidden, dim, bias=False)

    def forward(self, x):
        return self.c_proj(F.silu(self.c_fc1(x)) * self.c_fc2(x))


class LlamaBlock(nn.Module):
    def __init__(self, dim, heads, hidden):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim, eps=1e-6), nn.LayerNorm(dim, eps=1e-6)
        self.attn, self.mlp = Rotated(dim, heads), SwiGLU(dim, hidden)
        self.gamma_1, self.gamma_2 = (nn.Parameter(torch.full((dim,), 1e-4)) for _ in range(2))

    def forward(self, x, cos, sin):
        x = x + self.gamma_1 * self.attn(self.norm1(x), cos, sin)
        return x + self.gamma_2 * self.mlp(self.norm2(x))


class VisionLLaMA(nn.Module):
    def __init__(self, dim, depth, heads, patch=16, image=224, classes=1000, channels=3, multiple=256):
        super().__init__()
        self.patch_embed = Named()
        self.patch_embed.proj = nn.Conv2d(channels, dim, patch, patch)
        self.cls_token = nn.Parameter(torch.randn(1, 1, dim) * 0.02)
        self.blocks = nn.ModuleList(LlamaBlock(dim, heads, swiglu_width(dim, multiple)) for _ in range(depth))
        self.norm, self.head = nn.LayerNorm(dim, eps=1e-6), nn.Linear(dim, classes)
        cos, sin = rotary(image // patch, dim // heads)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)

    def forward(self, x):
        x = self.patch_embed.proj(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls_token.expand(x.shape[0], -1, -1).to(x.dtype), x], 1)
        for b in self.blocks:
            x = b(x, self.cos, self.sin)
        return self.head(self.norm(x)[:, 0])


# ---- Vim ------------------------------------------------------------------------------------------------------------
def chunked_scan(u, delta, A, B, C, chunk=16):
    """h = exp(delta A) h + delta u B, y = C h, over tensors [batch, tokens, ...]: steps inside all chunks at once, then
    from chunk to chunk, about twice the root of the length in all. Every state is in memory, as without a kernel."""
    n, c = u.shape[1], chunk
    a = torch.exp(delta[..., None] * A)
    b = (delta * u)[..., None] * B[:, :, None]
    a = F.pad(a, (0, 0, 0, 0, 0, -n % c), value=1.0).unflatten(1, (-1, c))
    b = F.pad(b, (0, 0, 0, 0, 0, -n % c)).unflatten(1, (-1, c))
    h, decay = [b[:, :, 0]], [a[:, :, 0]]
    for t in range(1, c):
        h.append(a[:, :, t] * h[-1] + b[:, :, t])
        decay.append(a[:, :, t] * decay[-1])
    state, before = torch.zeros_like(h[0][:, 0]), []
    for j in range(b.shape[1]):
        before.append(state)
        state = decay[-1][:, j] * state + h[-1][:, j]
    h = torch.stack(h, 2) + torch.stack(decay, 2) * torch.stack(before, 1)[:, :, None]
    return (h.flatten(1, 2)[:, :n] * C[:, :, None]).sum(-1)


class Direction(nn.Module):
    """Weights of one direction, under the mixer's names: conv1d, x_proj, dt_proj, A_log, D, or the same with _b."""
    fused = None  # mamba_ssm's selective_scan_fn

    def __init__(self, mixer, inner, rank, states, suffix):
        super().__init__()
        self.suffix, self.split = suffix, (rank, states, states)
        mixer.add_module("conv1d" + suffix, nn.Conv1d(inner, inner, 4, groups=inner, padding=3))
        mixer.add_module("x_proj" + suffix, nn.Linear(inner, rank + 2 * states, bias=False))
        mixer.add_module("dt_proj" + suffix, nn.Linear(rank, inner))
        a = torch.arange(1, states + 1).float().log().expand(inner, -1)
        mixer.register_parameter("A_b_log" if suffix else "A_log", nn.Parameter(a.clone()))
        mixer.register_parameter("D" + suffix, nn.Parameter(torch.ones(inner)))

    def forward(self, mixer, u, z):
        conv, x_proj, dt, D = (getattr(mixer, n + self.suffix) for n in ("conv1d", "x_proj", "dt_proj", "D"))
        A = -torch.exp(mixer.A_b_log if self.suffix else mixer.A_log)
        c = F.silu(conv(u.transpose(1, 2))[..., :u.shape[1]])
        low, B, C = x_proj(c.transpose(1, 2)).split(self.split, -1)
        if Direction.fused:
            delta = (low @ dt.weight.t().to(low.dtype)).transpose(1, 2)
            return Direction.fused(c, delta, A, B.transpose(1, 2), C.transpose(1, 2), D.float(), z.transpose(1, 2),
                                   dt.bias.float(), delta_softplus=True).transpose(1, 2)
        c = c.transpose(1, 2)
        return (chunked_scan(c, F.softplus(dt(low)), A, B, C) + c * D) * F.silu(z)


class VimMixer(nn.Module):
    def __init__(self, dim, states=16):
        super().__init__()
        inner, rank = 2 * dim, -(-dim // 16)
        self.in_proj, self.out_proj = nn.Linear(dim, 2 * inner, bias=False), nn.Linear(inner, dim, bias=False)
        self.directions = [Direction(self, inner, rank, states, s) for s in ("", "_b")]

    def forward(self, x):
        u, z = self.in_proj(x).chunk(2, -1)
        y = self.directions[0](self, u, z) + self.directions[1](self, u.flip(1), z.flip(1)).flip(1)
        return self.out_proj(y / 2)


class RMSNorm(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        x = x.float()
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5) * self.weight


class VimLayer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm, self.mixer = RMSNorm(dim), VimMixer(dim)


class Vim(nn.Module):
    def __init__(self, dim, depth, heads=1, patch=16, image=224, classes=1000, channels=3):
        super().__init__()
        self.patch_embed = Named()
        self.patch_embed.proj = nn.Conv2d(channels, dim, patch, patch)
        n = (image // patch) ** 2
        self.cls_token = nn.Parameter(torch.randn(1, 1, dim) * 0.02)
        self.pos_embed = nn.Parameter(torch.randn(1, n + 1, dim) * 0.02)
        self.layers = nn.ModuleList(VimLayer(dim) for _ in range(depth))
        self.norm_f, self.head, self.middle = RMSNorm(dim), nn.Linear(dim, classes), n // 2

    def forward(self, x):
        x = self.patch_embed.proj(x).flatten(2).transpose(1, 2)
        token = self.cls_token.expand(x.shape[0], -1, -1).to(x.dtype)
        hidden = torch.cat([x[:, :self.middle], token, x[:, self.middle:]], 1) + self.pos_embed
        total = 0
        for layer in self.layers:
            total = total + hidden
            hidden = layer.mixer(layer.norm(total))
        return self.head(self.norm_f(total + hidden)[:, self.middle])


# ---- check ----------------------------------------------------------------------------------------------------------
def build(family, dim, depth, heads, **rest):
    if family == "vil":
        return ViL(dim, depth, **rest)
    if family == "vllama" and rest.get("channels") == 1:
        rest["multiple"] = 16  # the small preset's
    return {"vir": ViR, "vllama": VisionLLaMA, "vim": Vim}[family](dim, depth, heads, **rest)


def check_one(args, family, image, folder):
    """A shallow model with every weight random, so that no factor of one or zero hides a slip."""
    torch.manual_seed(1)
    dim, depth, classes, batch = args.width, 2, 10, 2
    heads = 4 if dim < 192 or family == "vil" else dim // 64
    model = build(family, dim, depth, heads, patch=16, image=image, classes=classes)
    with torch.no_grad():
        for p in model.parameters():
            p += (0.1 if dim < 192 else 0.03) * torch.randn_like(p)
    x, probe = torch.randn(batch, 3, image, image), torch.randn(batch, classes)
    y = model(x)
    (y * probe).sum().backward()
    more = {"grad/" + k: p.grad for k, p in model.named_parameters()}
    more["probe/y"] = probe
    config = {"dim": dim, "depth": depth, "classes": classes, "image": [image, image]}
    if family != "vim":
        config["heads"] = heads
    entry = {"vllama": "visionllama_plain"}.get(family, family)
    path = os.path.join(folder, f"{family}_{image}.safetensors")
    save_case(model, x, y, path, entry, config, more)
    exact = ["--tol", "1e-4"] if args.precision == "fp32" else ["--tol", "4e-2", "--grad-tol", "8e-2"]
    return subprocess.run([args.vertebra, "verify", "--target", args.target, "--precision", args.precision, *exact,
                           path]).returncode


def check(args):
    failed = 0
    if args.width < 192:
        Retention.longest, Retention.chunk = 20, 8  # so that the larger image takes the form in chunks, the last not full
    with tempfile.TemporaryDirectory() as folder:
        for family in args.family:
            for image in (64, 112) if args.width < 192 else (224,):
                failed += check_one(args, family, image, folder) != 0
    return 1 if failed else 0


# ---- measure --------------------------------------------------------------------------------------------------------
def prepare(args):
    m, cuda = MODELS[args.model], args.device == "cuda"
    torch.manual_seed(0)
    model = build(m.family, m.dim, m.depth, m.heads, patch=m.patch, image=args.image, classes=m.classes,
                  channels=m.channels).to(args.device).train(args.train)
    if args.how == "mamba_ssm":
        from mamba_ssm.ops.selective_scan_interface import selective_scan_fn
        Direction.fused = selective_scan_fn
    if args.how in ("compile", "max-autotune"):
        # a Vim unrolled over all its layers would compile for an hour; its mixers share one compiled graph
        parts = [layer.mixer for layer in model.layers] if m.family == "vim" else [model]
        for part in parts:
            part.compile(mode=None if args.how == "compile" else "max-autotune")
    x = torch.randn(args.batch, m.channels, args.image, args.image, device=args.device)
    labels = torch.randint(m.classes, (args.batch,), device=args.device)

    update = torch.optim.AdamW(model.parameters(), lr=0.0, weight_decay=0.05, fused=cuda) if args.train else None

    def run():
        if args.how == "max-autotune":
            torch.compiler.cudagraph_mark_step_begin()
        with torch.autocast(args.device, torch.bfloat16, enabled=cuda), torch.set_grad_enabled(args.train):
            y = model(x)
            loss = F.cross_entropy(y, labels) if args.train else None
        if args.train:
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # as `vertebra bench --train` does it
            update.step()
            update.zero_grad(set_to_none=True)

    return run


def times(run, cuda, seconds):
    """Seconds of each run: on the GPU by events, so that the host counts only where the GPU waits for it."""
    out, start = [], time.perf_counter()
    while len(out) < 5 or time.perf_counter() - start < seconds:
        if cuda:
            a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            a.record()
            run()
            b.record()
            b.synchronize()
            out.append(a.elapsed_time(b) / 1e3)
        else:
            t = time.perf_counter()
            run()
            out.append(time.perf_counter() - t)
    return out


def measure(args):
    cuda = args.device == "cuda"
    start = time.perf_counter()
    try:
        run = prepare(args)
    except ImportError as e:
        print(json.dumps({"absent": "pip install mamba-ssm --no-build-isolation", "why": str(e)}))
        return 0
    for _ in range(3):
        run()
    if cuda:
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
    ready = time.perf_counter() - start
    t = times(run, cuda, args.seconds)
    print(json.dumps({"batch": args.batch, "best_ms": 1e3 * min(t), "median_ms": 1e3 * statistics.median(t),
                      "runs": len(t), "images_per_second": args.batch / min(t), "compile_seconds": ready,
                      "memory_bytes": torch.cuda.max_memory_reserved() if cuda else None}))
    return 0


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sub = p.add_subparsers(dest="what", required=True)
    c = sub.add_parser("check")
    c.add_argument("--vertebra", default="build/release/vertebra")
    c.add_argument("--family", nargs="*", default=["vil", "vir", "vllama", "vim"])
    c.add_argument("--width", type=int, default=32, help="channels; from 192 on images are of 224 px, heads the papers'")
    c.add_argument("--target", default="cpu")
    c.add_argument("--precision", default="fp32")
    m = sub.add_parser("measure")
    m.add_argument("model", choices=MODELS)
    m.add_argument("--how", default="eager", choices=["eager", "compile", "max-autotune", "mamba_ssm"])
    m.add_argument("--image", type=int, default=224)
    m.add_argument("--batch", type=int, default=1)
    m.add_argument("--train", action="store_true")
    m.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    m.add_argument("--seconds", type=float, default=3)
    args = p.parse_args()
    return check(args) if args.what == "check" else measure(args)


if __name__ == "__main__":
    sys.exit(main())
