#!/bin/bash
# A limit of memory decides what is recomputed and in how many pieces a batch is run.
. "$(dirname "$0")/lib.sh"
small_images 128 20
cd "$work" || exit 1
cat > deep.vtb <<'END'
use std.nn
block layer(x: tokens) {
  return x + linear("out", gelu(linear("in", rms_norm("norm", x), 4 * x.dim)), x.dim)
}
model deep(dim: int = 32, depth: int = 6, kinds: int = 4) {
  input image: image[1, 8, 8]
  x = patch_embed("embed", image, dim, 2x2, 2x2)
  repeat depth as i scope "layers.{i}" { x = layer(x) }
  output y = linear("head", mean(x, axis = "tokens"), kinds)
}
END
run=(deep.vtb --data data --batch 64 --updates 6 --seed 3 --threads 1 --eval-split test --label one)
workspace() { expect 0 "$VERTEBRA" check deep.vtb --train --batch "$1" "${@:2}" --json; printf '%s' "$out" | "$JSON_GET" train.workspace_bytes; }

# what is recomputed is not kept, and has the same bits
all=$(workspace 64) some=$(workspace 64 --recompute 2) least=$(workspace 64 --recompute 5)
[ "$some" -lt "$all" ] && [ "$least" -lt "$some" ] || fail "$all, $some, $least bytes"
[ "$(workspace 64 --recompute 99)" = "$least" ] || fail "the last block is recomputed"
expect 0 "$VERTEBRA" train "${run[@]}" --out plain
expect 0 "$VERTEBRA" train "${run[@]}" --recompute 3 --out again
cmp plain/weights.safetensors again/weights.safetensors || fail "recomputed values are others"
[ "$(workspace 4096 --target cuda --recompute 5)" -lt "$(workspace 4096 --target cuda)" ] || fail "a GPU keeps it"

# enough; pieces; as --accumulate has them; said, recorded
expect 0 "$VERTEBRA" train "${run[@]}" --memory 100M --out enough
says "--memory 100M: recomputes nothing, batch 64 at once: 7.0"
cmp plain/weights.safetensors enough/weights.safetensors || fail "a limit that is far changes the run"
expect 0 "$VERTEBRA" train "${run[@]}" --memory 4M --out pieces
says "--memory 4M: recomputes nothing, batch 64 in 4 pieces of 16: 2."
says "batch 64 = 4 x 16"
expect 0 "$VERTEBRA" train "${run[@]}" --accumulate 4 --out by-4
cmp pieces/weights.safetensors by-4/weights.safetensors || fail "pieces are not those of --accumulate"
grep -q '^accumulate: 4$' pieces/run.yaml && grep -q '^memory: 4194304$' pieces/run.yaml || fail "run.yaml"
expect 0 "$VERTEBRA" train --again pieces --out repeated
cmp pieces/weights.safetensors repeated/weights.safetensors || fail "it does not repeat"

# what is set stays; the limit is kept
expect 0 "$VERTEBRA" train "${run[@]}" --memory 6M --accumulate 1 --out whole
says "of 6 blocks, batch 64 at once: 5."
cmp plain/weights.safetensors whole/weights.safetensors || fail "recomputed by the limit"
expect 0 "$VERTEBRA" train "${run[@]}" --memory 4M --recompute 2 --out both
says "recomputes 2 blocks, batch 64 in 2 pieces of 32: 3."
for size in 4MiB 4m 4194304 4.0M; do
  expect 0 "$VERTEBRA" train "${run[@]}" --memory $size --max-steps 1 --quiet --out sizes --overwrite
  grep -q '^accumulate: 4$' sizes/run.yaml || fail "$size"
done

# samples meet: never in pieces; too little
sed 's/mean(x, axis = "tokens")/softmax(mean(x, axis = "tokens"), axis = "B")/' deep.vtb > meet.vtb
expect 0 "$VERTEBRA" train meet.vtb "${run[@]:1}" --memory 6M --max-steps 1 --out meet
says "batch 64 at once: 5."
expect 2 "$VERTEBRA" train meet.vtb "${run[@]:1}" --memory 4M --out no
says "training meet.vtb needs at least 5."
expect 2 "$VERTEBRA" train "${run[@]}" --memory 1M --out no
says "needs at least 1.0"; says "(1 image at a time, recomputing all but the last block)"; says ", a smaller --image or a smaller model"
least=$(sed -n 's/.*: --memory \([0-9]*\)K,.*/\1/p' <<<"$err")
expect 2 "$VERTEBRA" train "${run[@]}" --memory $((least - 1))K --out no
expect 0 "$VERTEBRA" train "${run[@]}" --memory "$least"K --max-steps 1 --out least
says "recomputes 5 of 6 blocks, batch 64 in 64 pieces of 1: 1.0"
expect 2 "$VERTEBRA" train "${run[@]}" --memory 4M --accumulate 1 --out no
says "(64 images at a time"
for size in 4X 4Gb -1 0 G "" 1e; do
  expect 2 "$VERTEBRA" train "${run[@]}" "--memory=$size" --out no
  says "--memory takes a size such as 4G, 512M or bytes, not '$size'"
done
[ ! -e no ] || fail "a folder is left"

# one step, and inference
expect 0 "$VERTEBRA" check deep.vtb --train --batch 64 --memory 4M
expect 2 "$VERTEBRA" check deep.vtb --train --batch 64 --memory 3M
says "recomputing all blocks but the last: --memory 3"
expect 0 "$VERTEBRA" eval deep.vtb --weights plain/weights.safetensors --data data --split train --json
json images 116
loss=$(printf '%s' "$out" | "$JSON_GET" loss)
expect 0 "$VERTEBRA" eval deep.vtb --weights plain/weights.safetensors --data data --split train --memory 1M --json
says "--memory 1M: batches of 32 instead of 64"
json loss "$loss"
expect 2 "$VERTEBRA" eval deep.vtb --weights plain/weights.safetensors --data data --memory 100K
says "the program needs at least 0.2 MiB: --memory 2"
expect 2 "$VERTEBRA" eval meet.vtb --weights meet/weights.safetensors --data data --memory 1M
says "the program needs at least 1."
expect 2 "$VERTEBRA" bench deep.vtb --batch 64 --memory 1M --seconds 0.1
says "the program needs at least 1."
exit 0
