#!/usr/bin/env python3
"""docs/augmentation.png: a photograph under every operation at levels 2 to 10. Arguments: the program vertebra, a picture."""
import os
import subprocess
import sys
import tempfile

import numpy as np
from PIL import Image, ImageDraw
from safetensors.numpy import load_file

SIDE, LEVELS, GAP, LEFT = 88, [2, 4, 6, 8, 10], 4, 104
NAMES = ["auto contrast", "equalize", "invert", "rotate", "posterize", "solarize", "solarize add", "color", "contrast",
         "brightness", "sharpness", "shear x", "shear y", "translate x", "translate y"]
MODEL = f"""
use std.policies
model shown() {{
  input x: image[3, {SIDE}x{SIDE}]
  input at: tensor[2]
  which = at[.., 0]
  output y = operation(x, which, argument(x, which, at[.., 1]), bicubic)
  output three = three_augment(x)
}}
"""


def main(vertebra, picture):
    photo = Image.open(picture).convert("RGB")
    low = (photo.width - min(photo.size)) // 2, (photo.height - min(photo.size)) // 2
    photo = photo.crop((*low, low[0] + min(photo.size), low[1] + min(photo.size))).resize((SIDE, SIDE), Image.LANCZOS)
    at = [(k, level) for k in range(len(NAMES)) for level in LEVELS]
    with tempfile.TemporaryDirectory() as work:
        path = lambda name: os.path.join(work, name)
        open(path("m.vtb"), "w").write(MODEL)
        np.save(path("x.npy"), np.ascontiguousarray(np.stack([np.asarray(photo).transpose(2, 0, 1)] * len(at))))
        np.save(path("at.npy"), np.float32(at))
        subprocess.run([vertebra, "run", path("m.vtb"), "--input", "x=" + path("x.npy"), "--input", "at=" + path("at.npy"),
                        "--batch", str(len(at)), "-o", path("y.safetensors")], check=True)
        y = load_file(path("y.safetensors"))
    columns = 2 * (LEFT + len(LEVELS) * (SIDE + GAP))
    rows = (len(NAMES) + 2) // 2
    page = Image.new("RGB", (columns, rows * (SIDE + GAP) + GAP), "white")
    draw = ImageDraw.Draw(page)
    draw.fontmode = "L"
    for row, name in enumerate(NAMES + ["three_augment"]):
        left, top = (row // rows) * (columns // 2), (row % rows) * (SIDE + GAP) + GAP
        draw.text((left + 6, top + SIDE // 2 - 6), name, fill="black", font_size=13)
        for k in range(len(LEVELS)):
            kind, i = ("y", row * len(LEVELS) + k) if row < len(NAMES) else ("three", k)
            tile = y[f"sample {i}/{kind}"][0].transpose(1, 2, 0).astype(np.uint8)
            page.paste(Image.fromarray(tile), (left + LEFT + k * (SIDE + GAP), top))
    page.quantize(128).save("docs/augmentation.png", optimize=True)


main(sys.argv[1], sys.argv[2])
