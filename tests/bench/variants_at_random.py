#!/usr/bin/env python3
"""Variants drawn at random beside the published models, by the estimate (docs/cuda_cost.md): the limit of variants.sh for
combinations that nobody chose. No GPU is asked.
  tests/bench/variants_at_random.py [N] [SEED]     (default 100, 1; VERTEBRA the program, default build/release/vertebra)
Models have four blocks here, published and varied alike. Says each variant, and how many are over their limit."""
import os
import random
import re
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
VERTEBRA = os.environ.get("VERTEBRA", os.path.join(TOP, "build/release/vertebra"))
DEPTH = ["-D", "depth=4"]
SIZES = ["160x160", "192x192", "208x208", "256x256", "240x176"]
VIL = {"num_heads": [1, 2, 3, 6, 8], "qkv_block_size": [1, 2, 6, 8, 16], "conv_kernel_size": [5, 7], "expansion": [1, 3, 4],
       "conv_kind": ["conv1d", "causal1d", "none"], "norm_bias": ["false"], "proj_bias": ["false"], "cls_tokens": [1, 2],
       "directions": ["uni", "quad"], "dim": [128, 200, 256, 264, 320, 400], "drop_path": [0.1], "image": SIZES}
VIM = {"d_state": [8, 12, 20, 24, 32], "d_conv": [3, 5, 6], "expand": [1, 3], "dt_rank": [8, 16, 24, 48], "if_rope": ["true"],
       "bimamba_type": ["v1", "none"], "dim": [128, 200, 256, 320], "drop_path": [0.1], "image": SIZES}
VIR = {"heads": [1, 2, 3, 4, 8, 12], "ret_norm": ["group_norm", "head_rms", "none"], "mlp_ratio": [2.0, 3.0], "image": SIZES,
       "ret_activation": ["swish", "swish_gate"], "class_token": ["false"], "dim": [288, 480, 512], "drop_path": [0.1]}
VLLAMA = {"heads": [2, 3, 4, 8, 12], "norm": ["rmsnorm"], "mlp": ["gelu"], "layer_scale": ["false"], "image": SIZES,
          "rope_kind": ["sequence"], "dim": [288, 480, 512], "drop_path": [0.1]}
VIT = {"heads": [2, 3, 4, 8, 12], "mlp_hidden": [768, 1152], "image": SIZES, "dim": [288, 480, 512], "drop_path": [0.1]}
MODELS = {"vil_tiny": (192, VIL), "vil_small": (384, VIL), "vim_tiny": (192, VIM), "vir_small": (384, VIR),
          "visionllama_small": (384, VLLAMA), "deit_small": (384, VIT)}


def said(*words):
    env = {"VTB_MODELS": os.path.join(TOP, "models"), **os.environ}
    return subprocess.run([VERTEBRA, *words], capture_output=True, text=True, env=env)


def facts(model, options, width):
    """FLOPs of an image, bytes of parameters and of what passes between blocks; None: the model takes no such options."""
    told = said("check", model, *DEPTH, *options, "--json")
    if told.returncode:
        return None
    flops, parameters, tokens = (int(re.search(rf'"{name}":\s*(\d+)', told.stdout)[1]) for name in ("flops", "parameters", "tokens"))
    return flops, 4 * (parameters + 128 * tokens * width * 5)


def times(model, options):
    found = []
    for training in [], ["--train"]:
        words = [*DEPTH, *options, *training, "--batch", "128", "--stage", "launches", "--precision", "bf16-all", "--estimate", "h200"]
        told = said("dump", model, *words)
        ms = re.search(r"([0-9.]+) ms a run", told.stdout)
        if not ms:
            sys.exit(f"{model} {' '.join(words)}: {told.stderr}")
        found.append(float(ms[1]))
    return found


def main():
    n, seed = int(sys.argv[1]) if len(sys.argv) > 1 else 100, int(sys.argv[2]) if len(sys.argv) > 2 else 1
    draw, published, over, done = random.Random(seed), {}, 0, 0
    while done < n:
        model = draw.choice(list(MODELS))
        width, space = MODELS[model]
        drawn = {name: draw.choice(space[name]) for name in sorted(draw.sample(list(space), draw.choice([1, 2, 2, 3])))}
        options = [word for name, value in drawn.items() for word in ("-D", f"{name}={value}")]
        if model not in published:
            published[model] = facts(model, [], width), times(model, [])
        base, base_ms = published[model]
        own_width = int(drawn.get("dim", width))
        own = facts(model, options, own_width)
        if not own:  # heads that do not divide the width, and the like
            continue
        most = (1.3 if own_width % 64 else 1.15) * max(1, own[0] / base[0], own[1] / base[1])
        ratios = [a / b for a, b in zip(times(model, options), base_ms)]
        late = any(r > most for r in ratios)
        over += late
        done += 1
        words = " ".join(f"{name}={value}" for name, value in drawn.items())
        print(f"{'over' if late else 'ok  '} {model} {words}: {ratios[0]:.2f} {ratios[1]:.2f} of {most:.2f}", flush=True)
    print(f"{over} of {n} over their limit")


main()
