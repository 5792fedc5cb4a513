#!/usr/bin/env bash
# The main job, as a newcomer sees it: a Vision-LSTM from a few dozen lines of .vtb, compiled, trained on Fashion-MNIST
# for at most three minutes, evaluated, and used on image files. usage: demo.sh VERTEBRA [OUT]
set -euo pipefail
vertebra=$1
out=${2:-build/demo}
say() { printf '\n== %s\n' "$*"; }

say "the model: models/vil.vtb, preset vil_nano"
"$vertebra" check vil_nano

say "training on the 60 000 images of Fashion-MNIST (at most 3 minutes)"
rm -rf "$out"
"$vertebra" train vil_nano --data fashion-mnist --recipe models/recipes/fashion_mnist_demo.yaml --out "$out"

say "accuracy on the 10 000 test images, weights read back from $out/weights.safetensors"
"$vertebra" eval vil_nano --weights "$out/weights.safetensors" --data fashion-mnist --write-images "$out/images" |
  tee "$out/eval.txt"

say "image files"
"$vertebra" run vil_nano --weights "$out/weights.safetensors" "$out"/images/*.png

top1=$(sed -n 's/.*top-1 \([0-9.]*\) %.*/\1/p' "$out/eval.txt" | head -n 1)
say "test accuracy $top1 %  (curve: $out/curve.svg, log: $out/log.csv)"
awk -v a="$top1" 'BEGIN { exit !(a >= 85) }' || { echo "below the 85 % this demo should reach"; exit 5; }
