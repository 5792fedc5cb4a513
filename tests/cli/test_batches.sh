#!/bin/bash
# What follows the batch: updates of several runs, learning rates that are given for another batch.
. "$(dirname "$0")/lib.sh"
small_images 120 20
cd "$work" || exit 1
cat > plain.vtb <<'END'
use std.nn
model plain(dim: int = 16, kinds: int = 4) {
  input image: image[1, 8, 8]
  x = patch_embed("embed", image, dim, 4x4, 4x4)
  x += drop_path(gelu(linear("l", x, dim)), 0.2)
  output y = linear("head", mean(dropout(x, 0.1), axis = "tokens"), kinds)
}
END
run=(plain.vtb --data data --batch 24 --updates 40 --seed 3 --log-every 1 --threads 1 --ema 0.9 --flip --eval-split test)
numbers() { sed -n "s/.*\"event\":\"step\",\"step\":\([0-9]*\),.*\"$2\":\([^,}]*\)[,}].*/\1 \2/p" "$1/log.jsonl"; }
near() { # A B FIELD FACTOR TOLERANCE: of B is FACTOR times that of A
  paste -d' ' <(numbers "$1" "$3") <(numbers "$2" "$3") | awk -v by="$4" -v most="$5" '
    { d = by * $2 - $4; if (d < 0) d = -d; if ($1 != $3 || !(d <= most)) { print "update " $1 ": " $2 ", " $4; bad = 1 } }
    END { if (NR != 40) { print NR " updates"; bad = 1 } exit bad }' || fail "$3 of $2 is not that of $1"
}

expect 0 "$VERTEBRA" train "${run[@]}" --out whole
for k in 2 3 24; do
  expect 0 "$VERTEBRA" train "${run[@]}" --accumulate $k --out by-$k
  says "batch 24 = $k x $((24 / k)), 5 updates an epoch"
  near whole by-$k loss 1 1e-5
  near whole by-$k grad_norm 1 1e-4
done
grep -q '"event":"begin","step":0,"batch":24,"ranks":1,"accumulate":24,"rank_batch":1' by-24/log.jsonl || fail "begin"
[ "$(wc -c < by-24/checkpoint.safetensors)" -lt $(($(wc -c < whole/checkpoint.safetensors) + 256)) ] || fail "gradients are kept"

silent_about "batch norm"
sed 's/x = patch_embed.*/&\n  x = batch_norm("bn", x)/; s/^use std.nn/&\nuse std.conv/' plain.vtb > normed.vtb
expect 0 "$VERTEBRA" train normed.vtb "${run[@]:1}" --accumulate 2 --out normed
says "batch norm has the statistics of the 12 images of a run, not of an update"

# on with another number; bits repeat
expect 0 "$VERTEBRA" train "${run[@]}" --accumulate 4 --max-steps 13 --out parts
expect 0 "$VERTEBRA" train --resume parts --accumulate 2
near whole parts loss 1 1e-5
expect 0 "$VERTEBRA" train --again by-3 --out again
cmp again/weights.safetensors by-3/weights.safetensors || fail "it does not repeat"

# what cannot be
expect 2 "$VERTEBRA" train "${run[@]}" --accumulate 5 --out no
says "a batch of 24 cannot be divided among 5 runs an update: 20 or 25 can"
expect 0 "$VERTEBRA" build plain.vtb --train --batch 24 -o plain.so
expect 2 "$VERTEBRA" train plain.so --data data --accumulate 2 --out no
says "the step is made for updates of one run"
[ ! -e no ] || fail "a folder is left"

# learning rates are for 96 images: a quarter, or the half, of what is given
expect 0 "$VERTEBRA" train "${run[@]}" --lr-batch 96 --out linear
says "learning rate 0.001 for batch 96: 0.00025 for 24 (linear)"
near whole linear lr 0.25 1e-6
expect 0 "$VERTEBRA" train "${run[@]}" --lr-batch 96 --lr-scaling sqrt --out root
says "learning rate 0.001 for batch 96: 0.0005 for 24 (its square root)"
near whole root lr 0.5 1e-6
expect 1 "$VERTEBRA" train "${run[@]}" --lr-batch 48 --out linear --resume
says "lr-batch=96 (now lr-batch=48)"
expect 2 "$VERTEBRA" train "${run[@]}" --lr-scaling sqrt --out no
says "--lr-scaling needs --lr-batch N"
expect 2 "$VERTEBRA" train "${run[@]}" --lr-batch 96 --lr-scaling cubic --out no
says "--lr-scaling is linear or sqrt, not 'cubic'"
exit 0
