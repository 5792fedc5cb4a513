#!/usr/bin/env bash
# Images a second that one core loads: decoded from JPEGs of about 400 x 470 pixels, cut at random, resized to 224, and
# changed by `augment { }` of tests/bench/augment.vtb. All threads share that core.
#   tests/bench/augment.sh [ROUNDS] (default 3), VERTEBRA names the program; needs python3 with numpy and Pillow
set -eu
cd "$(dirname "$0")/../.."
rounds=${1:-3} vertebra=${VERTEBRA:-build/release/vertebra} python=${PYTHON:-python3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$python" - "$work/jpg" <<'END'
import os, sys
import numpy as np
from PIL import Image, ImageDraw
rng = np.random.default_rng(7)
for i in range(192):
    w, h = int(400 * rng.uniform(1, 1.33)), 400
    y, x = np.mgrid[0:h, 0:w]
    waves = [127 + 80 * np.sin(x / rng.uniform(20, 90) + rng.uniform(0, 6)) * np.cos(y / rng.uniform(20, 90)) for _ in range(3)]
    im = Image.fromarray(np.clip(np.stack(waves, -1) + rng.normal(0, 12, (h, w, 3)), 0, 255).astype("u1"))
    draw = ImageDraw.Draw(im)
    for _ in range(6):
        cx, cy, r = rng.uniform(0, w), rng.uniform(0, h), rng.uniform(10, 90)
        draw.ellipse([cx - r, cy - r, cx + r, cy + r], fill=tuple(int(v) for v in rng.integers(0, 255, 3)))
    os.makedirs(f"{sys.argv[1]}/{i % 3}", exist_ok=True)
    im.save(f"{sys.argv[1]}/{i % 3}/{i:03d}.jpg", quality=90)
END
# CPU seconds of a run of N epochs; of two runs the difference is the loader's, whatever else the machine does
seconds() {
  TIMEFORMAT='%U %S'
  { time "$vertebra" train tests/bench/augment.vtb -D how=$1 --data "$work/jpg" --val-fraction 0 --epochs "$2" --batch 32 \
    --crop-scale 0.25 --threads 1 --workers 1 --out "$work/run" --overwrite --quiet > /dev/null 2>&1; } 2>&1 | awk '{ print $1 + $2 }'
}
echo "| augment | images a second of a core, best of $rounds |"
echo "| --- | --- |"
for how in none mirror three rand; do
  best=0
  for ((r = 0; r < rounds; r++)); do
    best=$(awk -v best="$best" -v a="$(seconds $how 1)" -v b="$(seconds $how 4)" 'BEGIN { x = 3 * 192 / (b - a); print (x > best ? x : best) }')
  done
  printf '| %s | %.0f |\n' $how "$best"
done
