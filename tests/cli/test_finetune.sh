#!/usr/bin/env bash
# A checkpoint of 1000 classes, as another tool left it, becomes a classifier of 3: one command. What does not fit is an
# error that says what; what is frozen stays.
. "$(dirname "$0")/lib.sh"
: "${MAKE_DATA:?path of make_data}" "${CHECKPOINT:?path of the checkpoint program}"
cd "$work"
model="vit_nano -D depth=2 -D dim=32 -D heads=2"
{
  echo "cls_token 1 1 32"; echo "pos_embed 1 50 32"; echo "patch_embed.proj.weight 32 1 4 4"; echo "patch_embed.proj.bias 32"
  for b in 0 1; do
    for n in norm1 norm2; do echo "blocks.$b.$n.weight 32"; echo "blocks.$b.$n.bias 32"; done
    echo "blocks.$b.attn.qkv.weight 96 32"; echo "blocks.$b.attn.qkv.bias 96"
    echo "blocks.$b.attn.proj.weight 32 32"; echo "blocks.$b.attn.proj.bias 32"
    echo "blocks.$b.mlp.fc1.weight 128 32"; echo "blocks.$b.mlp.fc1.bias 128"
    echo "blocks.$b.mlp.fc2.weight 32 128"; echo "blocks.$b.mlp.fc2.bias 32"
  done
  echo "norm.weight 32"; echo "norm.bias 32"; echo "head.weight 1000 32"; echo "head.bias 1000"
} > shapes.txt
"$CHECKPOINT" make shapes.txt published.pth trained || fail "no checkpoint"
"$CHECKPOINT" make shapes.txt published.safetensors safetensors || fail "no checkpoint"
"$MAKE_DATA" classes three/train 24 red green blue && "$MAKE_DATA" classes three/val 6 red green blue || fail "no data"

# One command: names, wrappers and the head are found out, and said.
tune() { "$VERTEBRA" train $model --data three --batch 8 --lr 0.01 --warmup 0 --out "$@"; }
expect 0 tune run --init published.pth --epochs 8
says 'published.pth: took "module." off the names of all 32 tensors'
says "loaded 30 of 32 tensors; new: head.weight, head.bias"
says "val top-1 100.00 %"
expect 0 "$VERTEBRA" eval vit_nano --weights run/weights.safetensors --data three --split val
says "top-1 100.00 %"
# a setting that the weights hold gives way under its other name, too
expect 0 "$VERTEBRA" eval vit_nano -D classes=3 --weights run/weights.safetensors --data three --split val
says "top-1 100.00 %"

# What the file cannot give is an error, and nothing is trained.
sed 's/^/other./; s/blocks/layer/; s/norm/n/; s/attn/a/; s/mlp/m/; s/embed/e/; s/head/h/; s/token/t/' shapes.txt > wrong.txt
"$CHECKPOINT" make wrong.txt wrong.safetensors safetensors || fail "no checkpoint"
expect 1 tune deep/no/no --init wrong.safetensors --epochs 1
[ ! -e deep ] || fail "a run that did not begin left a folder"
says "nothing in wrong.safetensors is of the model"
says 'names that begin with "other'
grep -v norm1.weight shapes.txt > some.txt
"$CHECKPOINT" make some.txt some.safetensors safetensors || fail "no checkpoint"
mkdir empty
expect 1 tune empty --init some.safetensors --epochs 1
[ -d empty ] && [ -z "$(ls -A empty)" ] || fail "a run that did not begin left something"
says "2 missing: blocks.0.norm1.weight, blocks.1.norm1.weight"
expect 0 tune some --init some.safetensors --allow-missing --epochs 1
says "missing, and new: blocks.0.norm1.weight, blocks.1.norm1.weight"
expect 1 "$VERTEBRA" train vit_nano -D depth=1 -D dim=32 -D heads=2 --data three --init published.safetensors --out no
says "12 that the model does not have: blocks.1."
[ ! -e no ] || fail "a run that did not begin left a folder"

# With --json every name of what does not fit, where a sentence has four.
grep -v norm shapes.txt > some.txt
{ grep -v 'blocks.1.mlp.fc1.weight' some.txt; echo "blocks.1.mlp.fc1.weight 64 32"; echo "blocks.2.w 2"; } > few.txt
"$CHECKPOINT" make few.txt few.safetensors safetensors || fail "no checkpoint"
names='blocks.0.norm1.weight blocks.0.norm1.bias blocks.0.norm2.weight blocks.0.norm2.bias blocks.1.norm1.weight
blocks.1.norm1.bias blocks.1.norm2.weight blocks.1.norm2.bias norm.weight norm.bias'
lists() { # KIND NAME...
  local k paths=("fit.$1") kind=$1
  shift
  for ((k = 0; k < $#; k++)); do paths+=("fit.$kind.$k"); done
  [ "$(printf '%s' "$out" | "$JSON_GET" "${paths[@]}")" = "$(printf '%s\n' $# "$@")" ] || fail "$kind: $out"
}
shape="blocks.1.mlp.fc1.weight is [64, 32], the model's [128, 32]"
for command in "train --out no --data three --init" "eval -D num_classes=1000 --data three --weights" \
  "run -D num_classes=1000 three/val/red/000.png --weights"; do
  set -- $command
  expect 1 "$VERTEBRA" $1 $model "${@:2}" few.safetensors --json
  json status 1 fit.file few.safetensors fit.wanted 32
  lists missing $names
  lists unused blocks.2.w
  lists other_shape "$shape"
done
grep -v "0.norm1" shapes.txt > few2.txt
"$CHECKPOINT" make few2.txt few2.safetensors safetensors || fail "no checkpoint"
expect 0 "$VERTEBRA" eval $model -D num_classes=1000 --data three/val --weights few2.safetensors --allow-missing --json
json fit.loaded 30 fit.missing 2

# For running, the classes of the file are the model's or the setting that makes them so is named.
expect 1 "$VERTEBRA" run $model --weights published.safetensors three/val/red/000.png
says "is a classifier of 1000 classes, the model of 10: -D num_classes=1000"
expect 0 "$VERTEBRA" run $model -D num_classes=1000 --weights published.safetensors three/val/red/000.png
expect 1 "$VERTEBRA" run vit_nano -D depth=1 --weights run/weights.safetensors three/val/red/000.png
says "that the model does not have: blocks.1."

# Settings that no shape shows are said.
expect 0 "$VERTEBRA" train vit_nano -D depth=2 -D dim=32 --data three --init run/weights.safetensors --max-steps 1 --quiet --out heads
says "these weights were made with -D heads=2, this training is not"
expect 0 tune same --init run/weights.safetensors --max-steps 1
silent_about "were made with"

# Positions of another image size.
expect 0 tune large --image 56 --init published.safetensors --epochs 1
says "resized: pos_embed from 7x7 to 14x14"

# Frozen parameters stay to the bit, others move; rates of 0 are the same, by another way.
expect 0 tune frozen --init published.safetensors --epochs 1 --freeze 'blocks.0.*' --lr-scale 'norm.*=0' --weight-decay 0
says "frozen: 12 tensors"
"$CHECKPOINT" same published.safetensors frozen/weights.safetensors blocks.0. norm. || fail "what was frozen moved"
"$CHECKPOINT" same published.safetensors frozen/weights.safetensors blocks.1. && fail "nothing moved"
expect 2 tune no --init published.safetensors --freeze 'block.*'
says "no parameter is called 'block.*'"
expect 2 tune no --init published.safetensors --lr-scale 'blocks.*'
says "--lr-scale is PATTERN=FACTOR"
expect 2 tune no --init published.safetensors --layer-decay 1.5
says "a layer decay is above 0 and at most 1"
echo ok
