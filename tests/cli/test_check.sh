# Published sizes: parameter counts, the papers' FLOPs, the block once with its repeat count.
. tests/cli/lib.sh
expect 0 "$VERTEBRA" check vil_tiny; says "6,391,528"; says "1.27 GMACs"; says "12 x"
expect 0 "$VERTEBRA" check vil_small; says "23,398,696"; says "4.68 GMACs"
expect 0 "$VERTEBRA" check vil_base_patch16_224; says "89,263,528"; says "17.91 GMACs"
expect 0 "$VERTEBRA" check vil_tiny --image 512; says "6.64 GMACs"
expect 0 "$VERTEBRA" check vil_tiny --json; says '"parameters":'
expect 0 "$VERTEBRA" check vil_tiny --params; says "blocks.0.rowwise_from_top_left.layer.proj_up.weight"
expect 1 "$VERTEBRA" check vil_tiny -D dpeth=3; says "depth"
expect 1 "$VERTEBRA" check vil_tiny -D dim=191; says "error[VTB"
# What was decided of a recurrence; all models of a file; what has no effect.
expect 0 "$VERTEBRA" check vil_tiny; says "scalar decay, parallel: cheaper than chunks below 208 tokens"
expect 0 "$VERTEBRA" check vil_tiny --image 512; says "scalar decay, chunkwise(16): cheaper than parallel from 208 tokens"
expect 0 "$VERTEBRA" check vil_tiny --chunk 24; says "chunkwise(24): as asked"
cat > "$work/two.vtb" <<'END'
use std.nn
model one(dim: int = 8, depth: int = 2) {
  input x: tokens[4x4, 8]
  u = linear("unused", x, dim)
  output y = x * param w: [dim] ~ ones
}
model other() {
  input x: tokens[4x4, 8]
  output y = x
}
END
expect 0 "$VERTEBRA" check "$work/two.vtb"; says "declares 2 models: one, other"; says "parameters   80"
says "'u' is assigned and never used"; says "no output depends on param 'unused.weight'"
says "parameter 'depth' of model 'one' is never used"; silent_about "VTB1514"
expect 0 "$VERTEBRA" check "$work/two.vtb" --entry other; silent_about "parameters   80"
expect 0 "$VERTEBRA" dump "$work/two.vtb"; says "of the models of this file 'other' is taken"; says "--entry NAME takes another: one"
# Options that cannot be meant.
expect 2 "$VERTEBRA" check vil_nano --chunk 0; says "--chunk takes a whole number from 1 to 1048576, not '0'"
expect 2 "$VERTEBRA" check vil_nano --mode recurent; says "did you mean recurrent?"
expect 2 "$VERTEBRA" --mode recurrent check vil_nano; says "a command comes before its options"

# runs of equal blocks one after the other, none left out; presets of the file are evaluated, too
cat >"$work/runs.vtb" <<'M'
use std.nn
block body(x: tensor) { return x + mlp("mlp", layer_norm("n", x), 16) }
block class(x: tensor) { return x + linear("fc", layer_norm("n", x), x.dim) }
model m(depth: int = 6) {
  input x: tokens[4x4, 8]
  repeat depth as i scope "b.{i}" { x = body(x) }
  repeat 2 as i scope "c.{i}" { x = class(x) }
  x = scope "last" { body(x) }
  x = scope "end" { class(x) }
  output y = linear("head", mean(x, axis = "tokens"), 10)
}
preset small = m(depth = 3)
M
expect 0 "$VERTEBRA" check "$work/runs.vtb"
runs=$(printf '%s' "$out" | sed -n 's/^ *\([0-9]* x\)$/\1/p; s/^ *\(@[a-z]*\):.*/\1/p' | tr '\n' ' ')
[ "$runs" = "6 x @body 2 x @class 1 x @body @class " ] || fail "the structure is $runs"
sed 's/(depth = 3)/(depths = 3)/' "$work/runs.vtb" >"$work/preset.vtb"
expect 1 "$VERTEBRA" check "$work/preset.vtb"; says "preset.vtb:12:18"; says "no parameter 'depths'"; says "did you mean 'depth'?"
sed 's/(depth = 3)/(depth = "3")/' "$work/runs.vtb" >"$work/preset.vtb"
expect 1 "$VERTEBRA" check "$work/preset.vtb"; says "'depth' is the string"

# numerics: quiet on what is published, a warning with its remedy otherwise
for m in vil_nano_patch4_28 vim_nano_patch4_28 vir_nano_patch4_28 deit_nano_patch4_28 visionllama_nano_patch4_28; do
  expect 0 "$VERTEBRA" check --numerics $m; says "nothing found"; silent_about warning
done
expect 0 "$VERTEBRA" check --numerics tests/errors/numerics.vtb; says "15 places"; says "softplus(x) is the same"
expect 0 "$VERTEBRA" check tests/errors/numerics.vtb; silent_about "VTB3101"

# the compiler's view as data: the same launches and bytes as the compiled program has
view=(vil_nano --threads 1 -D depth=4 -D 'image=16x16')
expect 0 "$VERTEBRA" check "${view[@]}" --json
json tokens 16 img_size 16x16 batch 1 threads 1 target cpu recurrences.0.op linscan recurrences.0.class scalar
json recurrences.0.mode parallel recurrences.0.tokens 16 recurrences.0.count 4
get() { printf '%s' "$out" | "$JSON_GET" "$1"; }
launches=$(get launches) bytes=$(get bytes) hash=$(get text_hash) flops=$(get flops) name=$(get recurrences.0.name)
[ "$name" = "blocks.*.rowwise_from_*.layer.mlstm_cell.C.read" ] || fail "the recurrence is called $name"
expect 0 "$VERTEBRA" bench "${view[@]}" --seconds 0.01 --json
all=0 moved=0
for ((k = 0; k < $(get kernels); k++)); do
  n=$(get kernels.$k.launches)
  all=$((all + n)) moved="$moved+$(get kernels.$k.gbyte)"
done
[ "$launches" = "$all" ] || fail "check says $launches launches, bench has $all"
awk -v a="$bytes" "BEGIN { b = 1e9 * ($moved); exit !(a > 0.999 * b && a < 1.001 * b) }" || fail "bytes: $bytes, $moved"
expect 0 "$VERTEBRA" check "${view[@]}" --batch 3 --chunk 8 --json; json batch 3 recurrences.0.chunk 8 text_hash "$hash"
awk -v a="$flops" -v b="$(get flops)" 'BEGIN { exit !(b > 0.8 * a && b < 1.3 * a) }' || fail "flops are not those of an image"
expect 0 "$VERTEBRA" check "${view[@]}" --train --json
awk -v a="$(get train.predicted_ms)" -v b="$(get predicted_ms)" -v c="$(get train.launches)" -v d="$launches" \
  'BEGIN { exit !(a > b && c > d) }' || fail "a training step is more than a run"
expect 0 "$VERTEBRA" check "${view[@]}" --train --target cuda-emulated; says "MiB of a training step"; says "on cuda-emulated"

# a file of an optimizer: what it remembers of a vector and of a matrix
expect 0 "$VERTEBRA" check models/std/shampoo.vtb; says "m [96, 64], left [96, 96], right [64, 64]"
expect 0 "$VERTEBRA" check models/std/adamw.vtb; says "once for tensors of all shapes"; says "m, v"
expect 0 "$VERTEBRA" check models/std/prodigy.vtb --json; json optimizer prodigy states.0.tensor "vector [64]"
printf 'optimizer o() {\n  state m: [rows, 3]\n  if matrix { m = g }\n  w = w - lr * g\n}\n' > "$work/wrong.vtb"
expect 1 "$VERTEBRA" check "$work/wrong.vtb"; says "wrong.vtb:2:9"
printf 'schedule s() { rate = lr * (t }\n' > "$work/wrong.vtb"
expect 1 "$VERTEBRA" check "$work/wrong.vtb"; says "wrong.vtb:1:31: error[VTB1013]"
printf 'optimizer o() { iterate 3 { w = w - lr * g } }\n' > "$work/wrong.vtb"
expect 1 "$VERTEBRA" check "$work/wrong.vtb"; says "'iterate' cannot stand in"
