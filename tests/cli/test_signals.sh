# What a signal leaves: in the middle of an evaluation, twice, before the first update, on a full disk; and in `eval`.
. tests/cli/lib.sh
small_images 200 250
cat > "$work/slow.vtb" <<'END'
use std.nn
model slow(dim: int = 128, kinds: int = 4) {
  input image: image[1, 8, 8]
  x = patch_embed("embed", image, dim, 1x1, 1x1)
  repeat 8 as i { x += linear("l.{i}", x, dim) }
  output y = linear("head", mean(x, axis = "tokens"), kinds)
}
END
cd "$work" || exit 1
run=(slow.vtb --data data --batch 8 --epochs 2 --val-fraction 0.9 --eval-batch 1 --quiet --threads 1)

ends_with() { # STATUS
  local got=0
  wait $pid || got=$?
  [ $got = "$1" ] || fail "exit status $got, want $1: $(cat by.out)"
}
same_run() { # A B: the same weights, and the same numbers in every row but seconds and speed
  cmp "$1/weights.safetensors" "$2/weights.safetensors" || fail "$2 has other weights than $1"
  cmp "$1/best.safetensors" "$2/best.safetensors" || fail "$2 has other best weights than $1"
  [ "$(cut -d, -f1-7 "$1/log.csv")" = "$(cut -d, -f1-7 "$2/log.csv")" ] || fail "another log: $(cat "$1/log.csv" "$2/log.csv")"
}

expect 0 "$VERTEBRA" train "${run[@]}" --out whole
[ "$(wc -l < whole/log.csv)" = 3 ] || fail "rows: $(cat whole/log.csv)"

# an epoch is on the disk before it is evaluated: a signal then ends the evaluation, and going on begins with it
"$VERTEBRA" train "${run[@]}" --out judged >by.out 2>&1 & pid=$!
waits_for test -s judged/checkpoint.safetensors
kill -INT $pid
ends_with 130
grep -q "^[0-9]" judged/log.csv && fail "the evaluation was not what the signal met: $(cat judged/log.csv)"
[ ! -e judged/best.safetensors ] || fail "best weights that nothing was measured of"
grep -q "not evaluated" by.out || fail "what it says: $(cat by.out)"
expect 0 "$VERTEBRA" train --resume judged --quiet
same_run whole judged

# a second one ends the process at once, and takes nothing along
"$VERTEBRA" train "${run[@]}" --epochs 100000 --out twice >by.out 2>&1 & pid=$!
waits_for test -s twice/checkpoint.safetensors
kill -STOP $pid; kill -INT $pid; kill -TERM $pid; kill -CONT $pid
got=0; wait $pid || got=$?
[ $got = 130 ] || [ $got = 143 ] || fail "two signals: exit status $got: $(cat by.out)"
grep -q "updates" by.out && fail "it went on: $(cat by.out)"
ls twice/*.tmp-* 2>/dev/null && fail "half written files"
expect 0 "$VERTEBRA" train "${run[@]}" --epochs 100000 --out twice --resume --max-seconds 0.1

# before the first update nothing is left of a folder that was made for the run
for signal in INT:130 TERM:143; do
  "$VERTEBRA" train "${run[@]}" -D dim=512 >by.out 2>&1 & pid=$!
  waits_for compgen -G 'runs/*/.lock' >/dev/null
  kill -"${signal%:*}" $pid
  ends_with "${signal#*:}"
  [ -z "$(ls -A runs)" ] || fail "left behind: $(ls -A runs/*)"
done

# a file that may not grow further: an error of the write, and what was there stays
cp -r whole full
rm full/log.* && expect 0 "$VERTEBRA" train "${run[@]}" --out full --overwrite --max-steps 1
before=$(sha256sum full/checkpoint.safetensors full/run.yaml)
got=0; (ulimit -f 16; exec "$VERTEBRA" train --resume full --quiet) >by.out 2>&1 || got=$?
[ $got = 1 ] && grep -q "full/checkpoint.safetensors: cannot write.*File too large" by.out || fail "status $got: $(cat by.out)"
[ "$before" = "$(sha256sum full/checkpoint.safetensors full/run.yaml)" ] || fail "the checkpoint is another"
ls full/*.tmp-* 2>/dev/null && fail "half written files"
expect 0 "$VERTEBRA" train --resume full --quiet
same_run whole full

# eval: how far it came
"$VERTEBRA" eval slow.vtb --data data --weights whole/weights.safetensors --batch 1 --threads 1 --val-fraction 0 \
  >by.out 2>&1 & pid=$!
waits_for hears_interrupt
kill -INT $pid
ends_with 130
grep -Eq "interrupted after [0-9]+ of 250 images" by.out || fail "what it says: $(cat by.out)"
grep -q "top-1" by.out && fail "a result of some of the images: $(cat by.out)"
exit 0
