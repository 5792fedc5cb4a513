#!/usr/bin/env python3
"""Writes stored/: pictures, magnitudes, and what Pillow makes of them, for pillow.vtb. Pillow 13.0, numpy, torchvision.

Four pictures of odd sizes, with colours and in grey, smooth parts, noise, few levels and edges; each operation has a
magnitude a picture. The order of OPS and WARPS is that of the channels of `want` in pillow.vtb.
"""
import math
import os

import numpy as np
from PIL import Image, ImageEnhance, ImageFilter, ImageOps
from torchvision.transforms import functional

H, W, N = 23, 31, 4
HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "stored")


def pictures(channels):
    rng = np.random.default_rng(channels)
    row, column = np.mgrid[0:H, 0:W]
    x = np.zeros((N, H, W, channels))
    for c in range(channels):
        x[0, ..., c] = 40 + 3 * column + 4 * row + 20 * c
        x[1, ..., c] = rng.integers(0, 256, (H, W))
        x[2, ..., c] = 60 * ((column // 5 + row // 4 + c) % 4) + 31
        x[3, ..., c] = 127 + 120 * np.sin(column / 3.0 + c) * np.cos(row / 4.0) + rng.normal(0, 6, (H, W))
    return x.clip(0, 255).astype(np.uint8)


def add(i, m):
    return i.point([min(255, v + int(m)) if v < 128 else v for v in range(256)] * len(i.getbands()))


OPS = [
    ("invert", lambda i, m: ImageOps.invert(i), [0, 0, 0, 0]),
    ("solarize", lambda i, m: ImageOps.solarize(i, m), [128, 40, 31, 256]),
    ("solarize_add", add, [0, 41, 110, 9]),
    ("posterize", lambda i, m: ImageOps.posterize(i, int(m)), [1, 3, 4, 8]),
    ("auto_contrast", lambda i, m: ImageOps.autocontrast(i), [0, 0, 0, 0]),
    ("equalize", lambda i, m: ImageOps.equalize(i), [0, 0, 0, 0]),
    ("brightness", lambda i, m: ImageEnhance.Brightness(i).enhance(m), [0.1, 0.7, 1.3, 1.9]),
    ("contrast", lambda i, m: ImageEnhance.Contrast(i).enhance(m), [0.7, 0.1, 1.9, 1.26]),
    ("color", lambda i, m: ImageEnhance.Color(i).enhance(m), [0.0, 0.55, 1.0, 1.9]),
    ("sharpness", lambda i, m: ImageEnhance.Sharpness(i).enhance(m), [0.1, 0.7, 1.5, 1.9]),
    ("grayscale", lambda i, m: i.convert("L").convert(i.mode), [0, 0, 0, 0]),
    ("gaussian_blur", lambda i, m: i.filter(ImageFilter.GaussianBlur(m)), [0.1, 0.7, 1.37, 2.0]),
    ("wide_blur", lambda i, m: i.filter(ImageFilter.GaussianBlur(m)), [2.5, 3.1, 4.75, 6.0]),
    ("adjust_hue", functional.adjust_hue, [-0.5, -0.1, 0.25, 0.4]),
]

FILL = (128, 100, 7)


def affine(matrix):
    def warped(i, m, resample):
        fill = FILL[:len(i.getbands())]
        return i.transform(i.size, Image.AFFINE, matrix(m), resample=resample, fillcolor=fill)
    return warped


def rotate(i, m, resample):
    return i.rotate(m, resample=resample, fillcolor=FILL[:len(i.getbands())])


WARPS = [
    ("rotate", rotate, [-30.0, 7.5, 27.0, 145.0]),
    ("shear_x", affine(lambda m: (1, m, 0, 0, 1, 0)), [-0.3, 0.05, 0.27, 0.125]),
    ("shear_y", affine(lambda m: (1, 0, 0, m, 1, 0)), [-0.3, 0.05, 0.27, 0.125]),
    ("translate_x", affine(lambda m: (1, 0, m, 0, 1, 0)), [-12.7, 3.0, 7.35, 0.5]),
    ("translate_y", affine(lambda m: (1, 0, 0, 0, 1, m)), [-8.3, 2.0, 5.85, 0.5]),
]
FILTERS = [("nearest", Image.NEAREST), ("bilinear", Image.BILINEAR), ("bicubic", Image.BICUBIC)]


def planes(image):
    a = np.asarray(image)
    return a.reshape(H, W, -1).transpose(2, 0, 1)


def store(name, array):
    np.save(os.path.join(HERE, name + ".npy"), np.ascontiguousarray(array))


def main():
    os.makedirs(HERE, exist_ok=True)
    single = lambda table: np.float32([row[2] for row in table]).T  # the numbers that the program gets, in f32
    store("magnitudes", single(OPS))
    store("moves", single(WARPS))
    for channels in (1, 3):
        x = pictures(channels)
        images = [Image.fromarray(p.squeeze(-1) if channels == 1 else p) for p in x]
        store(f"x{channels}", x.transpose(0, 3, 1, 2))
        store(f"want{channels}", np.stack([
            np.stack([planes(f(i, float(m))) for (_, f, _), m in zip(OPS, row)])
            for i, row in zip(images, single(OPS))]))
        store(f"warped{channels}", np.stack([
            np.stack([planes(f(i, float(m), r)) for _, r in FILTERS for (_, f, _), m in zip(WARPS, row)])
            for i, row in zip(images, single(WARPS))]))


main()
