# Programs of thousands of ops, each of which reads the one before, on a small stack: they run, and
# what is looked into in depth has a limit with a diagnostic.
. tests/cli/lib.sh
ulimit -s 1024

chain() { # NAME STATEMENT
  cat >"$work/$1.vtb" <<END
use std.nn
model chain(n: int = 3000) {
  input x: tokens[2x2, 8]
  p = param p: [8] ~ ones
  y = p * x
  repeat n { $2 }
  output z = linear("head", mean(y, axis = "tokens"), 4)
}
END
}
chain add 'y = y + y'
chain times 'y = y * p'
chain silu 'y = silu(y) + y'

for c in add times silu; do
  expect 0 "$VERTEBRA" bench "$work/$c.vtb" -D n=3000 --runs 1 --batch 1
done
expect 0 "$VERTEBRA" dump "$work/times.vtb" --stage plan --train
# in several kernels, the numbers are those of one
chain mild 'y = (silu(y) + y) * 0.6'
expect 0 "$VERTEBRA" verify "$work/mild.vtb" -D n=80

{ echo 'optimizer long() {'; echo '  d0 = g'
  for i in $(seq 600); do echo "  d$i = tanh(d$((i - 1)) + w)"; done
  echo '  w = w - lr * d600'; echo '}'; } >"$work/long.vtb"
expect 1 "$VERTEBRA" bench "$work/add.vtb" -D n=1 --train --optimizer "$work/long.vtb" --runs 1 --batch 1
says "optimizer 'long' has more than 500 operations"; says VTB1224
