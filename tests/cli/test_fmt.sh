# The shipped models are formatted; formatting is idempotent and atomic; broken text is refused untouched.
. tests/cli/lib.sh
expect 0 "$VERTEBRA" fmt --check models/*.vtb models/std/*.vtb
printf 'fn f( x:tensor ){ // keep me\n return   x*2 }\n' > "$work/a.vtb"
expect 1 "$VERTEBRA" fmt --check "$work/a.vtb"; says "would change"
expect 0 "$VERTEBRA" fmt "$work/a.vtb"
grep -q 'keep me' "$work/a.vtb" || fail "the comment is lost"
expect 0 "$VERTEBRA" fmt --check "$work/a.vtb"
printf 'fn f(x: tensor) { return x * \n' > "$work/b.vtb"; cp "$work/b.vtb" "$work/c.vtb"
expect 1 "$VERTEBRA" fmt "$work/b.vtb"; says "error[VTB"
cmp -s "$work/b.vtb" "$work/c.vtb" || fail "a broken file was changed"
