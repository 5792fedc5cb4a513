#!/usr/bin/env python3
"""Writes cases.safetensors: what Pillow, torchvision and timm make of images, for test_prepare.c.

Needs torch, torchvision, timm, Pillow and safetensors. The images are made by a formula that the test
has too; what is stored is the results, 8 bits a number, under names that say the case:

  resize/FILTER/CHANNELS/WxH/WxH                 Pillow's resize
  prepare/MODE/FILTER/CROP/CHANNELS/WxH/WxH      timm's evaluation transform, without mean and std
"""
import os
import sys

import numpy as np
import torch
from PIL import Image
from safetensors.numpy import save_file
from timm.data import transforms_factory

FILTERS = {"nearest": Image.NEAREST, "box": Image.BOX, "bilinear": Image.BILINEAR, "hamming": Image.HAMMING,
           "bicubic": Image.BICUBIC, "lanczos": Image.LANCZOS}
MODES = {"crop": "center", "squash": "squash", "pad": "border"}
SIZES = [((23, 17), (40, 31)), ((50, 37), (9, 7)), ((1, 13), (5, 4)), ((13, 1), (6, 29)), ((7, 7), (1, 1)),
         ((97, 3), (10, 3)), ((31, 64), (31, 20)), ((90, 11), (3, 30)), ((10, 10), (4, 15))]
IMAGES = [(37, 53), (64, 24), (16, 16), (100, 99), (9, 5), (33, 4)]
FILL = 0.35  # the mean in MODE pad


def picture(width, height, channels):
    """Noise over a slope, the same in test_prepare.c."""
    y, x, c = np.meshgrid(np.arange(height), np.arange(width), np.arange(channels), indexing="ij")
    v = (x * 73 + y * 151 + c * 199 + x * y * 7).astype(np.uint32)
    v = (v * np.uint32(2654435761)) >> np.uint32(24)
    out = ((v + 3 * x + 5 * y) % 256).astype(np.uint8)
    return Image.fromarray(out[:, :, 0] if channels == 1 else out, "L" if channels == 1 else "RGB")


def pixels(image):
    return np.ascontiguousarray(np.atleast_3d(np.asarray(image)))


def main():
    cases = {}
    for name, number in FILTERS.items():
        for channels in (1, 3):
            for (w, h), (to_w, to_h) in SIZES:
                made = picture(w, h, channels).resize((to_w, to_h), number)
                cases[f"resize/{name}/{channels}/{w}x{h}/{to_w}x{to_h}"] = pixels(made)
    for mode, known_as in MODES.items():
        for crop in (0.9, 0.875, 1.0):
            for w, h in IMAGES:
                for to_w, to_h in ((16, 16), (13, 9)):
                    for name in ("bicubic", "bilinear", "lanczos"):
                        if name == "lanczos" and crop != 0.9:
                            continue  # timm has no more than enough of them
                        channels = 1 if name == "bilinear" else 3
                        t = transforms_factory.transforms_imagenet_eval(
                            (to_h, to_w), crop_pct=crop, crop_mode=known_as, interpolation=name,
                            mean=(FILL,) * channels, std=(1.0,) * channels)
                        made = t(picture(w, h, channels)).numpy() + np.float32(FILL)
                        made = np.rint(made * 255).astype(np.uint8).transpose(1, 2, 0)
                        key = f"prepare/{mode}/{name}/{crop}/{channels}/{w}x{h}/{to_w}x{to_h}"
                        cases[key] = np.ascontiguousarray(made)
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "cases.safetensors")
    save_file(cases, path)
    print(f"{len(cases)} cases, {os.path.getsize(path)} bytes")


if __name__ == "__main__":
    sys.exit(main())
