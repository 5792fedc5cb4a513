# Train, stop, resume, evaluate, run; a killed run leaves a good checkpoint; a resumed run equals an uninterrupted one.
. tests/cli/lib.sh
data=fashion-mnist
expect 0 "$VERTEBRA" doctor --json
grep -A1 '"fashion-mnist"' "$work/out" | grep -q true || { echo "no data set: skipped"; exit 77; }
common=(vil_nano -D depth=2 -D dim=32 --data $data --limit 512 --val-fraction 0.005 --batch 32 --epochs 2 --lr 1e-3 --quiet
        --seed 5)

expect 0 "$VERTEBRA" train "${common[@]}" --out "$work/whole"; says "300 of its 60000 training images are held out"; says "val top-1"
for f in weights.safetensors checkpoint.safetensors log.csv log.jsonl; do [ -s "$work/whole/$f" ] || fail "no $f"; done

expect 0 "$VERTEBRA" train "${common[@]}" --out "$work/parts" --max-steps 11; says "--resume continues"
[ "$(wc -l < "$work/parts/log.csv")" = 2 ] || fail "a run that ends within an epoch has no row: $(cat "$work/parts/log.csv")"
expect 0 "$VERTEBRA" train "${common[@]}" --out "$work/parts" --resume --threads 1
[ "$(wc -l < "$work/parts/log.csv")" = 3 ] || fail "rows of the resumed run: $(cat "$work/parts/log.csv")"
cmp -s "$work/whole/weights.safetensors" "$work/parts/weights.safetensors" || fail "the resumed run differs from the whole one"

# the log's lines are as many as were asked for, in a recipe too, and the weights are the same
printf 'log-every: 7\n' > "$work/log.yaml"
expect 0 "$VERTEBRA" train "${common[@]}" --recipe "$work/log.yaml" --out "$work/logged"
steps=$(grep '"event":"step"' "$work/logged/log.jsonl" | grep -o '"step":[0-9]*' | grep -o '[0-9]*' | tr '\n' ' ')
[ "$steps" = "7 14 21 28 " ] || fail "lines of updates $steps"
cmp -s "$work/whole/weights.safetensors" "$work/logged/weights.safetensors" || fail "--log-every changes the weights"
expect 2 "$VERTEBRA" train "${common[@]}" --log-every 0 --out "$work/never"; says "log-every"

expect 0 "$VERTEBRA" eval vil_nano --weights "$work/whole/weights.safetensors" --data $data --limit 200 --write-images "$work/png"; says "200 images"
expect 0 "$VERTEBRA" run vil_nano --weights "$work/whole/weights.safetensors" "$work"/png/*.png; says "%"
expect 0 "$VERTEBRA" run vil_nano --json --weights "$work/whole/weights.safetensors" "$work"/png/*.png; says '"probability"'
expect 1 "$VERTEBRA" run vil_tiny --weights "$work/whole/weights.safetensors" "$work"/png/*.png
head -c 100 "$(ls "$work"/png/*.png | head -n 1)" > "$work/cut.png"
expect 1 "$VERTEBRA" run vil_nano --weights "$work/whole/weights.safetensors" "$work/cut.png"; says "cut.png"
head -c 5000 "$work/whole/weights.safetensors" > "$work/cut.safetensors"
expect 1 "$VERTEBRA" eval vil_nano --weights "$work/cut.safetensors" --data $data; says "cut.safetensors"

# killed at arbitrary moments: the checkpoint on disk always resumes
for wait in 0.7 1.1 1.6; do
  "$VERTEBRA" train "${common[@]}" --epochs 250 --checkpoint-minutes 0.001 --out "$work/killed" ${resume:-} >/dev/null 2>&1 &
  pid=$!
  sleep $wait; kill -9 $pid 2>/dev/null; wait $pid 2>/dev/null
  resume=--resume
done
if [ -f "$work/killed/checkpoint.safetensors" ]; then
  expect 0 "$VERTEBRA" train "${common[@]}" --epochs 250 --out "$work/killed" --resume --max-seconds 1
fi
