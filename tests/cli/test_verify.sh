# A model agrees with itself in every mode and on every target; wrong numbers are found and given a place.
. tests/cli/lib.sh
expect 0 "$VERTEBRA" verify vil_nano -D depth=2; says "chunkwise(7)"; says "gradients"; says "parallel, auto "
cat > "$work/plain.vtb" <<'END'
use std.nn
model plain() {
  input x: tokens[4x4, 8]
  output y = linear("l", x, 8)
}
END
expect 0 "$VERTEBRA" verify "$work/plain.vtb"; says "every mode is the same program"; silent_about "parallel"
expect 2 "$VERTEBRA" verify vil_nano --mode recurent; says "did you mean recurrent?"
expect 0 "$VERTEBRA" verify vil_nano -D depth=2 -D dim=32 -D "paths=[snake, cols~, rows.hflip]" --target all
cat > "$work/nan.vtb" <<'END'
model negative() {
  input x: tokens[2x2, 4]
  output y = log(-square(x) - 1)
}
END
expect 5 "$VERTEBRA" verify "$work/nan.vtb"; says "'y' is not finite in the interpreter either"; silent_about "want"
expect 5 "$VERTEBRA" verify --nan "$work/nan.vtb"; says "first op that gives NaN or Inf"; says "log"
case=tests/golden/vil/cell_chunkwise_L16_S53.safetensors
expect 0 "$VERTEBRA" verify --modes all --target all $case; says "0 failed"
expect 5 "$VERTEBRA" verify --tol 0 --grad-tol 0 $case; says "FAIL"
cp $case "$work/bad.safetensors"
printf '\x7f' | dd of="$work/bad.safetensors" bs=1 seek=$(($(stat -c %s $case) - 9)) conv=notrunc 2>/dev/null
expect 0 "$VERTEBRA" verify --json $case; says '"relative"'
