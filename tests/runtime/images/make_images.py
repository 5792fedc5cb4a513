#!/usr/bin/env python3
"""Writes small image files of every kind, and what Pillow reads from them, for test_codecs.c.

Needs numpy, Pillow and safetensors. expected.safetensors holds RGB pixels by file name.
"""
import os
import struct

import numpy as np
from PIL import Image, ImageOps
from safetensors.numpy import save_file

HERE = os.path.dirname(os.path.abspath(__file__))


def picture(width, height, seed):
    """Smooth, with colours that differ on every side."""
    small = np.random.default_rng(seed).integers(0, 256, (3, 4, 3)).astype(np.uint8)
    return Image.fromarray(small).resize((width, height), Image.BICUBIC)


def exif(orientation, order="<"):
    """A TIFF directory with a tag before the one that counts."""
    mark = b"II*\0" if order == "<" else b"MM\0*"
    tags = [(0x0100, 4, 1, struct.pack(order + "I", 7)),
            (0x0112, 3, 1, struct.pack(order + "HH", orientation, 0))]
    entries = b"".join(struct.pack(order + "HHI", t, kind, n) + v for t, kind, n, v in tags)
    return b"Exif\0\0" + mark + struct.pack(order + "IH", 8, len(tags)) + entries + bytes(4)


def main():
    rgb = picture(19, 13, 1)
    gray = rgb.convert("L")
    alpha = Image.fromarray(np.tile(np.arange(19, dtype=np.uint8) * 13, (13, 1)))
    rgba = rgb.copy()
    rgba.putalpha(alpha)
    made = {}

    def save(name, image, **options):
        image.save(os.path.join(HERE, name), **options)
        with Image.open(os.path.join(HERE, name)) as back:
            made[name] = np.asarray(ImageOps.exif_transpose(back).convert("RGB"))

    save("rgb.jpg", rgb, quality=90)
    save("rgb_444.jpg", rgb, quality=90, subsampling=0)
    save("rgb_422.jpg", rgb, quality=90, subsampling=1)
    save("gray.jpg", gray, quality=90)
    save("progressive.jpg", rgb, quality=90, progressive=True)
    save("cmyk.jpg", rgb.convert("CMYK"), quality=95)
    for k in range(1, 9):
        save(f"turned{k}.jpg", picture(11, 6, 2), quality=95, exif=exif(k, "<" if k % 2 else ">"))
    save("turned_badly.jpg", rgb, quality=90, exif=exif(9))
    save("rgb.png", rgb)
    save("gray.png", gray)
    save("bits1.png", gray.convert("1"))
    save("palette.png", rgb.quantize(13))
    save("palette_alpha.png", rgb.quantize(5), transparency=bytes([0, 128, 255]))
    save("key.png", rgb, transparency=rgb.getpixel((0, 0)))
    save("rgba.png", rgba)
    save("la.png", rgba.convert("LA"))
    save("turned6.png", picture(11, 6, 2), exif=exif(6)[6:])
    deep = np.random.default_rng(3).integers(0, 65536, (5, 7)).astype(np.uint16)
    save("gray16.png", Image.fromarray(deep))
    made["gray16.png"] = np.repeat((deep >> 8).astype(np.uint8)[:, :, None], 3, 2)  # Pillow clips at 255
    save("lossy.webp", rgb, quality=80)
    save("lossless.webp", rgb, lossless=True)
    save("alpha.webp", rgba, lossless=True, exact=True)
    save("alpha_lossy.webp", rgba, quality=80, exact=True)
    save("turned8.webp", picture(11, 6, 2), lossless=True, exif=exif(8)[6:])
    rgb.save(os.path.join(HERE, "animated.webp"), save_all=True, append_images=[picture(19, 13, 9)], duration=100)
    save_file({k: np.ascontiguousarray(v) for k, v in made.items()}, os.path.join(HERE, "expected.safetensors"))
    print(len(made), "files,", sum(os.path.getsize(os.path.join(HERE, f)) for f in os.listdir(HERE)), "bytes")


if __name__ == "__main__":
    main()
