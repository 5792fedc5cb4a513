"""ViR in plain PyTorch, as one would write it without kernels of one's own. For `vertebra bench --peers`
(docs/bench.md)."""
import torch
import torch.nn.functional as F
from torch import nn


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


class Mlp(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x):
        return self.fc2(F.gelu(self.fc1(x)))


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
        self.patch_embed = nn.Module()
        self.patch_embed.proj = nn.Conv2d(channels, dim, patch, patch)
        self.pos_embed = nn.Parameter(torch.randn(1, (image // patch) ** 2, dim) * 0.02)
        self.cls_token = nn.Parameter(torch.randn(1, 1, dim) * 0.02)
        self.blocks = nn.Sequential(*(ViRBlock(dim, heads) for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(dim, eps=1e-6), nn.Linear(dim, classes)

    def forward(self, x):
        x = self.patch_embed.proj(x).flatten(2).transpose(1, 2) + self.pos_embed
        x = self.blocks(torch.cat([x, self.cls_token.expand(x.shape[0], -1, -1)], 1))
        return self.head(self.norm(x)[:, -1])


def vir(embed_dim, depth, num_heads, image, patch_size, in_chans, num_classes, class_token, gate, drop_path, **rest):
    if image[0] != image[1] or not class_token or gate:
        raise NotImplementedError("the form in PyTorch is of square images, with a class token, without a gate")
    model = ViR(embed_dim, depth, num_heads, patch_size, image[0], num_classes, in_chans)
    model.random = drop_path
    return model
