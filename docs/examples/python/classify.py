"""Images through a model, from Python.

    python3 docs/examples/python/classify.py MODEL [WEIGHTS] IMAGE.npy

MODEL: a preset, a .vtb file, or a file that `vertebra build` made. IMAGE: rows of [channels, height, width], prepared.
"""

import sys

import numpy as np

import vertebra

if __name__ == "__main__":
    name, *rest = sys.argv[1:]
    model = vertebra.create_model(name, weights=rest[0] if len(rest) > 1 else None)
    logits = model(np.load(rest[-1]))
    for row, scores in enumerate(logits):
        best = int(scores.argmax())
        print(f"row {row}: class {model.classes[best] if model.classes else best}, score {scores[best]:.4f}")
