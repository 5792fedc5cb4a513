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
expect 0 "$VERTEBRA" verify vil_nano -D depth=1 -D dim=16 --no-grad --chunk 5; says "chunkwise(5)"; silent_about "chunkwise(1)"
silent_about "parallel"
expect 0 "$VERTEBRA" verify vil_nano -D depth=2 -D dim=32 -D "paths=[snake, cols~, rows.hflip]" --target all
cat > "$work/nan.vtb" <<'END'
model negative() {
  input x: tokens[2x2, 4]
  output y = log(-square(x) - 1)
}
END
expect 5 "$VERTEBRA" verify "$work/nan.vtb"; says "'y' is not finite in the interpreter either"; silent_about "want"
expect 5 "$VERTEBRA" verify --nan "$work/nan.vtb"; says "first op that gives NaN or Inf"; says "log"
# bounds are printed, and 16 bits may do what they cost
expect 0 "$VERTEBRA" verify "$work/plain.vtb" --no-grad; says "bound 2.0e-04"
expect 0 "$VERTEBRA" verify "$work/plain.vtb" --json; says '"bound"'; says '"cosine"'; says '"verdict"'
expect 0 "$VERTEBRA" verify --help; says "bf16-all 1e-2"
# ill-conditioned is not wrong: six digits of seven cancel, in any program
cat > "$work/ill.vtb" <<'END'
model cancels() {
  input x: tokens[4x4, 8]
  output y = (x + 30000) - 30000
}
END
expect 0 "$VERTEBRA" verify "$work/ill.vtb"; says "ill-conditioned"; says "rounding to as many digits"; silent_about "FAIL"
expect 5 "$VERTEBRA" verify "$work/ill.vtb" --tol 1e-5; says "FAIL"; silent_about "ill-conditioned"
case=tests/golden/vil/cell_chunkwise_L16_S53.safetensors
expect 0 "$VERTEBRA" verify --modes all --target all $case; says "0 failed"
expect 5 "$VERTEBRA" verify --tol 0 --grad-tol 0 $case; says "FAIL"
cp $case "$work/bad.safetensors"
printf '\x7f' | dd of="$work/bad.safetensors" bs=1 seek=$(($(stat -c %s $case) - 9)) conv=notrunc 2>/dev/null
expect 0 "$VERTEBRA" verify --json $case; says '"relative"'

# gradients without a probe are those of the loss, the one output that is one number
cat > "$work/loss.vtb" <<'END'
model half_square() {
  input x: tensor[2]
  output loss = sum(square(x)) * 0.5
  output twice = x * 2
}
END
write_case() { # write_case FILE GRADIENT OUTPUT: of x = (1, 2), the gradient as bytes
  local header='{"__metadata__":{"entry":"half_square"},"input/x":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},'
  header+="\"output/$3\":{\"dtype\":\"F32\",\"shape\":[1${4:-}],\"data_offsets\":[16,${5:-20}]},"
  header+='"grad_input/x":{"dtype":"F32","shape":[1,2],"data_offsets":[8,16]}}'
  printf "\\x$(printf %02x $((${#header} % 256)))\\x$(printf %02x $((${#header} / 256)))\0\0\0\0\0\0" >"$1"
  printf '%s' "$header" >>"$1"
  printf "\0\0\x80\x3f\0\0\0\x40$2\0\0\x20\x40" >>"$1"
}
write_case "$work/loss.safetensors" '\0\0\x80\x3f\0\0\0\x40' loss
expect 0 "$VERTEBRA" verify --model "$work/loss.vtb" "$work/loss.safetensors" -v; says "ok   grad_input/x"; says "2 tensors"
write_case "$work/loss.safetensors" '\0\0\x80\x3f\0\0\x80\x3f' loss
expect 5 "$VERTEBRA" verify --model "$work/loss.vtb" "$work/loss.safetensors"; says "FAIL grad_input/x"
write_case "$work/loss.safetensors" '\0\0\0\x40\0\0\x80\x40' twice ,2 24
printf '\0\0\x20\x40' >>"$work/loss.safetensors"
expect 1 "$VERTEBRA" verify --model "$work/loss.vtb" "$work/loss.safetensors"; says "neither a probe nor an output of one number"
