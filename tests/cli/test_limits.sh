# Limits of the process: what does not fit is said, and soon.
. tests/cli/lib.sh
nm "$VERTEBRA" 2>/dev/null | grep -q __asan_init && exit 77 # needs more addresses than the limits leave

# A small model runs where LLVM and itself have room; a large batch is refused with a sentence.
limited() { # ADDRESSES BATCH
  got=0
  (ulimit -v "$1"; exec timeout 30 "$VERTEBRA" bench vit_tiny -D depth=2 --batch "$2" --threads 2 --seconds 0.05) >"$work/out" 2>"$work/err" || got=$?
}
limited 450000 1
[ $got = 0 ] || fail "exit status $got: $(cat "$work/err")"
for limit in 450000 700000; do
  limited $limit 1024
  [ $got = 3 ] || fail "limit $limit: exit status $got: $(cat "$work/err")"
  [[ $(cat "$work/err") = *memory* ]] || fail "limit $limit: no word of memory in: $(cat "$work/err")"
done

expect 2 "$VERTEBRA" bench vit_nano --threads 100000
says "--threads takes 0 (as many as there are cores) to 1024, not '100000'"
