"""VisionLLaMA without a pyramid in plain PyTorch, with PyTorch's fused attention. For `vertebra bench --peers`
(docs/bench.md)."""
import torch
import torch.nn.functional as F
from torch import nn


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
    def __init__(self, dim, depth, heads, patch=16, image=224, classes=1000, channels=3, hidden=1024):
        super().__init__()
        self.patch_embed = nn.Module()
        self.patch_embed.proj = nn.Conv2d(channels, dim, patch, patch)
        self.cls_token = nn.Parameter(torch.randn(1, 1, dim) * 0.02)
        self.blocks = nn.ModuleList(LlamaBlock(dim, heads, hidden) for _ in range(depth))
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


def visionllama_plain(dim, depth, heads, image, patch, in_channels, num_classes, mlp_hidden, table_image,
                      drop_path_rate, drop_rate, **rest):
    if image[0] != image[1] or patch[0] != patch[1] or image != table_image:
        raise NotImplementedError("the form in PyTorch is of square images and patches, of the size of training")
    model = VisionLLaMA(dim, depth, heads, patch[0], image[0], num_classes, in_channels, mlp_hidden)
    model.random = drop_path_rate + drop_rate
    return model
