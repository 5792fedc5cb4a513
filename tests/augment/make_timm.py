#!/usr/bin/env python3
"""Writes stored/levels.npy and stored/arguments.npy: every level of every operation by timm's rules. timm 1.0.31.

A sample is an operation of std.policies and a level of 0 to 10; arguments are those of RandAugment with increasing levels,
of RandAugment without, and of AutoAugment's paper. What timm turns either way is given without its sign.
"""
import os

import numpy as np
from timm.data import auto_augment as timm

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "stored")
SIDE = 16  # of the image whose sides shifts are shares of: 16 wide, 12 high
NAMES = ["AutoContrast", "Equalize", "Invert", "Rotate", "Posterize", "Solarize", "SolarizeAdd", "Color", "Contrast",
         "Brightness", "Sharpness", "ShearX", "ShearY", "TranslateXRel", "TranslateYRel"]


def argument(name, level):
    rule = timm.LEVEL_TO_ARG[name]
    timm._randomly_negate = abs
    value = float(rule(level, {})[0]) if rule else 0.0
    if name == "TranslateXRel":
        return value * SIDE
    if name == "TranslateYRel":
        return value * 12
    return value


def main():
    samples = [(k, level) for k in range(15) for level in range(11)]
    kinds = []
    for suffix in ("Increasing", "", "Original"):
        has = {n: n + suffix if n + suffix in timm.LEVEL_TO_ARG else n for n in NAMES}
        kinds.append([argument(has[NAMES[k]], float(level)) for k, level in samples])
    np.save(os.path.join(HERE, "levels.npy"), np.float32(samples))
    np.save(os.path.join(HERE, "arguments.npy"), np.ascontiguousarray(np.float32(kinds).T))


main()
