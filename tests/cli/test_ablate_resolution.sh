# A study of a model that is trained at one resolution and judged at others: test-image is the image size of eval alone.
. tests/cli/lib.sh
small_images 60 20
words=(-D depth=1 -D dim=8 -D heads=2 -D classes=4 -D patch=4x4 --image 8)
expect 0 "$VERTEBRA" ablate vllama_nano "${words[@]}" --vary test-image=8,12 --train quick --max-steps 2 --data "$work/data" \
  -o "$work/report" --json
steps=$(grep -o '"command":[[:space:]]*"vertebra [te][^"]*"' "$work/report/results.json")
printf '%s\n' "$steps" | grep 'vertebra train' | grep -q -- '--image 12' && fail "trained at another size: $steps"
printf '%s\n' "$steps" | grep 'vertebra eval' | grep -q -- '--image 12 --weights .*test-image=12/train-0/' ||
  fail "no evaluation at 12 pixels: $steps"
[ "$(grep -c ',done,' "$work/report/results.csv")" = 2 ] || fail "$(cat "$work/report/results.csv")"
