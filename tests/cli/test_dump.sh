# Every stage prints; blocks stay one function however deep the model; dumps are the same every time.
. tests/cli/lib.sh
for stage in ast ir graph grad fused plan llvm asm; do
  expect 0 "$VERTEBRA" dump vil_nano --stage $stage
  [ -n "$out" ] || fail "nothing printed for $stage"
done
expect 0 "$VERTEBRA" dump vil_tiny --stage ir; a=$(grep -c '^func' "$work/out")
expect 0 "$VERTEBRA" dump vil_tiny -D depth=48 --stage ir; b=$(grep -c '^func' "$work/out")
[ "$a" = "$b" ] || fail "functions grow with depth: $a, $b"
expect 0 "$VERTEBRA" dump vil_nano --stage graph; silent_about "permute"; first=$out
expect 0 "$VERTEBRA" dump vil_nano --stage graph; [ "$first" = "$out" ] || fail "two dumps differ"
says "linscan"; says "rows~@7x7"; says "vtb:"
expect 0 "$VERTEBRA" dump vil_nano --stage plan; says "peak workspace"
expect 0 "$VERTEBRA" dump vil_nano --stage asm --cpu x86-64-v4; says "zmm"
