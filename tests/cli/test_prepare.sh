#!/bin/bash
# What becomes of images belongs to the model: it says so, weights and built files carry it, options hold over all of
# them, and what differs from the model's own is said.
. "$(dirname "$0")/lib.sh"
small_images 32 16
cd "$work"
cat > m.vtb <<'END'
use std.nn
model m(dim: int = 4, classes: int = 4) {
  input x: image[1, 8, 8]
  prepare(crop = 0.8, filter = bilinear, mean = 0.5, std = 0.25)
  output y = linear("head", mean(patch_embed("p", x, dim, 4x4, 4x4), axis = "tokens"), classes)
}
END
expect 0 "$VERTEBRA" check m.vtb
says 'images              {"crop": 0.8, "filter": "bilinear", "mean": 0.5, "std": 0.25}'
expect 0 "$VERTEBRA" check --json m.vtb
json prepare.crop 0.8 prepare.filter bilinear
expect 0 "$VERTEBRA" train m.vtb --data data --batch 8 --epochs 1 --out run --quiet
expect 0 "$VERTEBRA" weights run/weights.safetensors
says 'prepare  {"crop": 0.8, "resize": "crop", "filter": "bilinear", "mean": [0.5], "std": [0.25]}'
expect 0 "$VERTEBRA" eval m.vtb --weights run/weights.safetensors --data data --write-images images
silent_about "images are prepared"
image=$(echo images/00-*.png)

# the weights hold over the model, and that is said; options hold over both, and need no word
expect 0 "$VERTEBRA" run m.vtb --weights run/weights.safetensors -o a.safetensors "$image"
sed 's/crop = 0.8/crop = 1/; s/mean = 0.5/mean = 0/' m.vtb > n.vtb
expect 0 "$VERTEBRA" run n.vtb --weights run/weights.safetensors -o b.safetensors "$image"
says 'vertebra run: images are prepared as the weights say: {"crop": 0.8, "mean": [0.5]}; n.vtb has {"crop": 1, "mean": [0]}'
cmp a.safetensors b.safetensors || fail "the weights' preparation was not used"
expect 0 "$VERTEBRA" run n.vtb --weights run/weights.safetensors --crop 1 --mean 0 -o c.safetensors "$image"
silent_about "images are prepared"
cmp -s a.safetensors c.safetensors && fail "--crop and --mean changed nothing"

# built files have it too
expect 0 "$VERTEBRA" build n.vtb --weights run/weights.safetensors -o n.so
expect 0 "$VERTEBRA" check n.so
says '"crop": 0.8, "resize": "crop", "filter": "bilinear", "mean": [0.5], "std": [0.25]'
expect 0 "$VERTEBRA" run n.so -o d.safetensors "$image"
cmp a.safetensors d.safetensors || fail "the built file prepares otherwise"

# older weights know no crop
sed 's/"xxh3":/"XXH3":/; s/"prepare":/"PREPARE":/' run/weights.safetensors > old.safetensors
expect 0 "$VERTEBRA" run m.vtb --weights old.safetensors "$image"
says 'which are of a version that knew no crop: {"crop": 1, "filter": "bicubic"}; m.vtb has {"crop": 0.8, "filter": "bilinear"}'

# numbers that would make every pixel infinite are refused, wherever they stand
sed 's/"xxh3":/"XXH3":/; s/\[0.25\]/[0.00]/' run/weights.safetensors > zero.safetensors
expect 1 "$VERTEBRA" run m.vtb --weights zero.safetensors "$image"
says "the weights: std has 0: it is a number above 0"
sed 's/"xxh3":/"XXH3":/; s/"prepare":/"PREPARE":/; s/"mean":"0.5,/"mean":"nan,/' run/weights.safetensors > nan.safetensors
expect 1 "$VERTEBRA" eval m.vtb --weights nan.safetensors --data data
says "the weights: mean has nan"
sed 's/"xxh3":/"XXH3":/; s/"prepare":/"PREPARE":/; s/"mean":"0.5,/"mean":"abc,/' run/weights.safetensors > word.safetensors
expect 1 "$VERTEBRA" eval m.vtb --weights word.safetensors --data data
says "its \"mean\" is 'abc,"
for bad in "--crop 0" "--crop 1.1" "--crop x" "--std 0" "--std nan" "--std 1,2" "--mean inf" "--filter cubic" "--resize fit"; do
  expect 2 "$VERTEBRA" run m.vtb --weights run/weights.safetensors $bad "$image"
  says "--crop 0.9 --resize crop --filter bicubic --mean 0.5,0.5,0.5 --std 0.5 is how they look"
done
