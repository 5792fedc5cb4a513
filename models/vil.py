"""Vision-LSTM version 2 in plain PyTorch, as one would write it without kernels of one's own: the parallel form of the
stabilised mLSTM, PyTorch's own fused ops where it has them. For `vertebra bench --peers` (docs/bench.md)."""
import math

import torch
import torch.nn.functional as F
from torch import nn


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


class ViL(nn.Module):
    def __init__(self, dim, depth=24, patch=(16, 16), image=(224, 224), classes=1000, channels=3):
        super().__init__()
        self.grid = (image[0] // patch[0], image[1] // patch[1])
        self.patch_embed, self.pos_embed = nn.Module(), nn.Module()
        self.patch_embed.proj = nn.Conv2d(channels, dim, patch, patch)
        self.pos_embed.embed = nn.Parameter(torch.randn(1, *self.grid, dim) * 0.02)
        pairs = []
        for _ in range(depth // 2):
            pair = nn.Module()
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


def vil(dim, depth, version, num_heads, image, patch, in_channels, classes, drop_path, **rest):
    if version != 2 or num_heads != 4:
        raise NotImplementedError("the form in PyTorch is of version 2 with four heads")
    model = ViL(dim, depth, patch, image, classes, in_channels)
    model.random = drop_path
    return model
