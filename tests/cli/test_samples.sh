#!/bin/bash
# Models whose samples meet: contrastive losses are trained, alone and by several processes, on the pairs of the whole
# batch; what needs all samples at once says so.
. "$(dirname "$0")/lib.sh"
: "${MAKE_DATA:?path of make_data}"
small_images 100 24
cd "$work" || exit 1
cat > pairs.vtb <<'EOF'
use std.nn
use std.loss
fn tower(name: string, x: tensor, dim: int) {
  z = mean(gelu(patch_embed(name, x, dim, 4x4, 4x4)), axis = "tokens")
  return z * rsqrt(sum(square(z)) + 1e-6)
}
model pairs(dim: int = 8) {
  input picture: image[1, 8, 8]
  input labels: labels
  a, b = split(concat(tower("a", picture, dim), tower("b", 1 - picture, dim), axis = "B"), 2, axis = "B")
  near = einsum("ic,jc->ij", a, b) * exp(param scale: [] ~ constant(1.0))
  output y = a
  loss clip = 0.5 * (cross_entropy(near, range(batch)) + cross_entropy(transpose(near, [1, 0]), range(batch)))
  kind = one_hot(labels, 4)
  same = einsum("ic,jc->ij", kind, kind) - (range(batch) == across(range(batch)))
  loss kinds = -sum(same * log_softmax(near)) / max(sum(same), 1)
  loss moved = mean(square(roll(a, 1, axis = "B") - reverse(b, axis = "B")), axis = "sample")
  metric found = argmax(near) == range(batch)
}
model moved() {
  input picture: image[1, 8, 8]
  output y = roll(mean(picture, axis = "sample"), 1, axis = "B")
}
EOF
run=(pairs.vtb --entry pairs --data data --batch 24 --updates 12 --seed 3 --log-every 1 --threads 1 --eval-split test)

expect 0 "$VERTEBRA" verify pairs.vtb --entry pairs; says "batch 3"; says "gradients"
expect 0 "$VERTEBRA" train "${run[@]}" --out one
losses() { sed -n 's/.*"event":"step","step":\([0-9]*\),.*"loss":\([^,]*\),.*/\1 \2/p' "$1/log.jsonl"; }
[ "$(losses one | wc -l)" = 12 ] || fail "twelve losses of: $(losses one)"

# an evaluation is of as many pairs as a step
expect 0 "$VERTEBRA" train "${run[@]}" --out asked --eval-batch 24
cmp -s <(grep '"eval"' one/log.jsonl | sed 's/"images_per_second.*//') \
  <(grep '"eval"' asked/log.jsonl | sed 's/"images_per_second.*//') || fail "another batch in evaluation"

expect 1 "$VERTEBRA" train "${run[@]}" --out pieces --accumulate 2
says "needs all rows of a batch at once"; says "without --accumulate"
expect 2 "$VERTEBRA" export pairs.vtb --entry moved -o m.onnx; says "samples meet in moved"; says "--batch N"
expect 0 "$VERTEBRA" export pairs.vtb --entry moved --batch 4 -o m.onnx
expect 0 "$VERTEBRA" export pairs.vtb --entry pairs -o p.onnx

# a run is of all of them, or says so
"$MAKE_DATA" arrays three.safetensors 3 picture=1x8x8
alone=("$VERTEBRA" run pairs.vtb --entry moved --input picture=three.safetensors -o moved.safetensors)
expect 0 "${alone[@]}"; says "samples meet in pairs.vtb, and do so 1 at a time: --batch 3 runs all together"
expect 0 "${alone[@]}" --batch 3; silent_about "samples meet"

command -v mpirun > /dev/null || exit 0
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_btl_vader_single_copy_mechanism=none
mpirun --oversubscribe -n 2 true > /dev/null 2>&1 || exit 0
expect 0 timeout 100 mpirun --oversubscribe --bind-to none -n 3 "$VERTEBRA" train "${run[@]}" --out three
paste -d' ' <(losses one) <(losses three) | awk '{ d = $2 - $4; if (d < 0) d = -d; if ($1 != $3 || d > 2e-5 * $2) exit 1; n++ }
  END { exit n != 12 }' || fail "three processes lose otherwise: $(losses three | head -3)"
