# Wrong use is told from wrong input, and says what to do.
. tests/cli/lib.sh
expect 2 "$VERTEBRA"; says "usage: vertebra COMMAND"
expect 0 "$VERTEBRA" --help; says "verify"
expect 0 "$VERTEBRA" --version; says "vertebra 0."
expect 2 "$VERTEBRA" chekc vil_tiny; says "did you mean 'check'"
expect 2 "$VERTEBRA" check; says "MODEL is needed"
expect 2 "$VERTEBRA" check vil_tiny --bacth 3; says "did you mean --batch"
expect 2 "$VERTEBRA" check vil_tiny --batch three; says "whole number"
expect 2 "$VERTEBRA" bench vil_tiny --mode sideways; says "unknown mode"
expect 2 "$VERTEBRA" dump vil_tiny --stage fusd; says "did you mean fused"
for command in check build run train eval compare bench verify dump fmt explain doctor; do
  expect 0 "$VERTEBRA" $command --help; says "usage: vertebra $command"
done
expect 1 "$VERTEBRA" check vil_tinny; says "vil_tiny"
expect 1 "$VERTEBRA" check "$work/missing.vtb"; says "missing.vtb"
expect 1 "$VERTEBRA" run vil_nano --weights "$work/none.safetensors" x.png; says "none.safetensors"
expect 0 "$VERTEBRA" doctor; says "processor"
expect 0 "$VERTEBRA" doctor --json; says '"processor"'
# A file without its ending, an image size that a model does not take, a name that a file does not declare.
cd "$work" || exit 1
cat > plain.vtb <<'END'
use std.nn
model plain(dim: int = 8) {
  input x: tokens[4x4, 8]
  output y = linear("l", x, dim)
}
END
expect 1 "$VERTEBRA" check plain; says "there is a file plain.vtb"
expect 1 "$VERTEBRA" check plain.vtb --image 30; says "declare it, and the input as image[3]"
expect 1 "$VERTEBRA" check plain.vtb --entry nope; says "its models and presets are plain"
expect 1 "$VERTEBRA" check plain.vtb -D xyz=3; says "its hyperparameters are dim"
# Messages keep to the columns of a terminal; lines of source stay whole.
expect 1 env COLUMNS=60 "$VERTEBRA" check plain.vtb --image 30; says "'image: size': declare
        it, and"; says "    1 | 30x30"
cd - >/dev/null || exit 1
