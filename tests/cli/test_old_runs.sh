# Checkpoints of earlier versions resume, and 200 updates end where they did then: to the bit on the processor that made the
# files (AVX2); elsewhere sums have another order, and rounding has grown over 200 updates.
. tests/cli/lib.sh
expect 0 "$VERTEBRA" doctor --json
grep -A1 '"fashion-mnist"' "$work/out" | grep -q true || { echo "no data set: skipped"; exit 77; }

numbers() { od -An -v -w4 -tf4 -j $((8 + $(od -An -tu8 -N8 "$1"))) "$1"; }

same() { # WHAT FILE OLD; converted, tensors stand in today's order
  expect 0 "$VERTEBRA" convert "$3" "$work/old.safetensors"
  paste <(numbers "$2") <(numbers "$work/old.safetensors") | awk -v what="$1" '
    { d = $1 - $2; if (d < 0) d = -d; if (!(d <= worst)) worst = d; n++ }
    END { if (n > 4000 && worst == 0) exit 0
          printf "%s: not the same bits, %g off at most in %d numbers\n", what, worst, n; exit !(n > 4000 && worst < 2e-3) }' ||
    fail "$1: the weights are not those of the earlier version"
}

for rule in adamw sgd; do
  run=(vil_nano -D depth=1 -D dim=16 --data fashion-mnist --limit 3200 --batch 16 --epochs 1 --lr 2e-3 --quiet --seed 3
       --ema 0.98 --optimizer $rule --eval-batch 500 --eval-split test)
  mkdir "$work/$rule"
  cp "tests/cli/old_runs/$rule/checkpoint.safetensors" "$work/$rule/"
  expect 0 "$VERTEBRA" train "${run[@]}" --out "$work/$rule" --resume; says "200 updates"
  same "$rule, resumed" "$work/$rule/weights.safetensors" "tests/cli/old_runs/$rule/weights.safetensors"
  expect 0 "$VERTEBRA" train "${run[@]}" --out "$work/again_$rule"
  same "$rule, from the start" "$work/again_$rule/weights.safetensors" "tests/cli/old_runs/$rule/weights.safetensors"
done
