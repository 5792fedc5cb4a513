"""Makes tests/timm/stored: what timm's models say of small pictures, with weights that both sides can make.

Run by hand, with any Python that has torch, timm, numpy, Pillow and safetensors; the tests need none of them:
    python3 tests/timm/make_timm.py
It writes the pictures, for each model the names and shapes of its state (NAME.txt), and the scores that timm gives with
its own transform (NAME.safetensors). Weights are not stored: element i of a tensor is a hash of the tensor's name and
of i, as tests/timm/checkpoint.c has it too.
"""

import os

import numpy as np
import timm
import torch
from PIL import Image
from safetensors.numpy import save_file

here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "stored")
os.makedirs(here, exist_ok=True)
models = ["deit_tiny_patch16_224", "deit3_small_patch16_224", "vit_base_patch16_224", "twins_svt_small",
          "swin_tiny_patch4_window7_224", "convnext_tiny.fb_in1k"]
mask = (1 << 64) - 1


def name_hash(name):
    h = 0xCBF29CE484222325
    for c in name.encode():
        h = (h ^ c) * 0x100000001B3 & mask
    return h


def uniform(name, n):
    """n numbers in [-1, 1), of 24 bits each."""
    with np.errstate(over="ignore"):
        x = np.uint64(name_hash(name)) + np.arange(1, n + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        x = x ^ (x >> np.uint64(31))
    return (x >> np.uint64(40)).astype(np.float64) / 8388608.0 - 1.0


def weight(name, shape):
    n = int(np.prod(shape))
    u = uniform(name, n)
    if len(shape) > 1:
        u = u * 0.5 if shape[0] == 1 else u * np.sqrt(3.0 / (n // shape[0]))
    else:
        u = u * 0.125 if name.endswith("bias") else 1.0 + u * 0.125
    return torch.from_numpy(u.astype(np.float32).reshape(shape))


def picture(k):
    """Waves, a few discs and some grain; no two have the same shape, few are square."""
    r = np.random.default_rng(1000 + k)
    w, h = int(r.integers(90, 300)), int(r.integers(90, 300))
    y, x = np.mgrid[0:h, 0:w] / 100.0
    a = np.zeros((h, w, 3))
    for _ in range(5):
        f, p = r.uniform(-9, 9, 2), r.uniform(0, 6.3, 3)
        a += r.uniform(10, 40) * np.sin((f[0] * x + f[1] * y)[..., None] + p)
    a += r.uniform(60, 190, 3)
    for _ in range(4):
        d = (x - r.uniform(0, w / 100)) ** 2 + (y - r.uniform(0, h / 100)) ** 2
        a[d < r.uniform(0.02, 0.3)] = r.uniform(0, 255, 3)
    if k % 4 != 3:
        a += r.normal(0, 6, a.shape)
    return Image.fromarray(np.clip(a, 0, 255).astype(np.uint8))


paths = []
for k in range(20):
    path = os.path.join(here, f"p{k:02d}." + ("png" if k % 4 == 3 else "jpg"))
    picture(k).save(path, **({} if k % 4 == 3 else {"quality": 88}))
    paths.append(path)

for tagged in models:
    logits = {}
    model = timm.create_model(tagged, pretrained=False).eval()
    name = tagged.split(".")[0]
    state = {k: weight(k, tuple(v.shape)) for k, v in model.state_dict().items()}
    model.load_state_dict(state)
    with open(os.path.join(here, name + ".txt"), "w") as f:
        for k, v in state.items():
            f.write(" ".join([k, *map(str, v.shape)]) + "\n")
    transform = timm.data.create_transform(**timm.data.resolve_data_config({}, model=model))
    with torch.no_grad():
        for path in paths:
            x = transform(Image.open(path).convert("RGB"))[None]
            logits[os.path.basename(path)] = model(x)[0].numpy()
    top = np.stack([np.sort(logits[os.path.basename(p)])[::-1][:2] for p in paths])
    print(name, "least margin", float((top[:, 0] - top[:, 1]).min()), "largest score", float(top.max()))
    save_file(logits, os.path.join(here, name + ".safetensors"))
