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
expect 0 "$VERTEBRA" check vil_tiny; says "scalar decay, parallel: cheaper than chunks below 256 tokens"
expect 0 "$VERTEBRA" check vil_tiny --image 512; says "scalar decay, chunkwise(64): cheaper than parallel from 256 tokens"
expect 0 "$VERTEBRA" check vil_tiny --chunk 16; says "chunkwise(16): as asked"
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

# numerics: quiet on what is published, a warning with its remedy otherwise
for m in vil_nano_patch4_28 vim_nano_patch4_28 vir_nano_patch4_28 deit_nano_patch4_28 visionllama_nano_patch4_28; do
  expect 0 "$VERTEBRA" check --numerics $m; says "nothing found"; silent_about warning
done
expect 0 "$VERTEBRA" check --numerics tests/errors/numerics.vtb; says "15 places"; says "softplus(x) is the same"
expect 0 "$VERTEBRA" check tests/errors/numerics.vtb; silent_about "VTB3101"
