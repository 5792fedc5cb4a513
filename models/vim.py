"""Vim in plain PyTorch, its scan in chunks of tensors: without kernels of one's own. For `vertebra bench --peers`
(docs/bench.md)."""
import torch
import torch.nn.functional as F
from torch import nn


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
        self.patch_embed = nn.Module()
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


def vim(embed_dim, depth, image, patch_size, stride, in_chans, num_classes, class_token, drop_path_rate, flip_ratio,
        **rest):
    if image[0] != image[1] or stride != patch_size or class_token != "middle":
        raise NotImplementedError("the form in PyTorch is of square images and patches side by side, with a class "
                                  "token in the middle")
    model = Vim(embed_dim, depth, 1, patch_size, image[0], num_classes, in_chans)
    model.random = drop_path_rate + flip_ratio
    # unrolled over all layers it would compile for an hour: the mixers share one compiled graph
    model.compiled_parts = [layer.mixer for layer in model.layers]
    return model
