# Weights of one resolution at others, square and not: tables of positions are resized, rotary places scaled.
. tests/cli/lib.sh
for split in train val; do
  mkdir -p "$work/data/$split/a" "$work/data/$split/b"
  expect 0 "$VERTEBRA" paths vil_nano -D "directions=[rows]" -o "$work/data/$split/a/1.png"
  expect 0 "$VERTEBRA" paths vil_nano -D "directions=[hilbert]" -o "$work/data/$split/b/1.png"
done
picture=$work/data/val/a/1.png
common=(--data "$work/data" --batch 2 --epochs 1 --quiet --threads 1)

for model in "vil_nano -D depth=2" "vim_nano -D depth=1" "deit_nano -D depth=1" "vllama_nano -D depth=1" \
  "visionllama_pyramid -D dims=[8,16] -D heads=[1,2] -D depths=[2,2] -D key_subsample=[4,2] -D window_sizes=[4,4] -D in_channels=1"; do
  set -- $model
  expect 0 "$VERTEBRA" train "$@" --image 32 "${common[@]}" --overwrite --out "$work/run"
  weights=(--weights "$work/run/weights.safetensors" --threads 1)
  expect 0 "$VERTEBRA" run "$1" "${weights[@]}" "$picture"; stored=$out # the size is that of the weights
  expect 0 "$VERTEBRA" run "$1" "${weights[@]}" --image 32 "$picture"; [ "$out" = "$stored" ] || fail "$1: 32 is not 32"
  for size in 64 32x64; do
    expect 0 "$VERTEBRA" run "$1" "${weights[@]}" --image $size --json "$picture"; says '"probability"'
  done
done
expect 0 "$VERTEBRA" eval visionllama_pyramid "${weights[@]}" --data "$work/data" --split val --image 64x32; says "2 images"

# What --image does is what the hyperparameters say; a table of another size is refused without it.
expect 0 "$VERTEBRA" train deit_nano -D depth=1 "${common[@]}" --overwrite --out "$work/run"
expect 0 "$VERTEBRA" run deit_nano "${weights[@]}" --image 56 "$picture"; stored=$out
expect 0 "$VERTEBRA" run deit_nano "${weights[@]}" -D image=56x56 -D table_image=28 "$picture"
[ "$out" = "$stored" ] || fail "--image and -D table_image differ"
expect 1 "$VERTEBRA" run deit_nano "${weights[@]}" -D image=56x56 "$picture"; says "pos_embed"

# Stochastic depth and dropout: the same draws for the same seed, whatever the threads; none outside training.
drops=(deit3 -D dim=16 -D depth=2 -D heads=2 -D patch=4x4 -D in_channels=1 --image 28 "${common[@]}" --epochs 3)
expect 0 "$VERTEBRA" train "${drops[@]}" -D drop_path=0.3 -D dropout=0.2 --out "$work/one"
expect 0 "$VERTEBRA" train "${drops[@]}" -D drop_path=0.3 -D dropout=0.2 --threads 2 --out "$work/two"
expect 0 "$VERTEBRA" train "${drops[@]}" -D drop_path=0 -D dropout=0 --out "$work/none"
cmp -s "$work/one/weights.safetensors" "$work/two/weights.safetensors" || fail "the same seed drew differently"
expect 0 "$VERTEBRA" run deit3 --weights "$work/one/weights.safetensors" --json "$picture"; stored=$out
expect 0 "$VERTEBRA" run deit3 --weights "$work/one/weights.safetensors" -D drop_path=0 -D dropout=0 --json "$picture"
[ "$out" = "$stored" ] || fail "something is dropped outside training"
expect 0 "$VERTEBRA" run deit3 --weights "$work/none/weights.safetensors" --json "$picture"
[ "$out" != "$stored" ] || fail "nothing was dropped in training"

# Runs side by side.
expect 0 "$VERTEBRA" compare "$work/one" "$work/none" -o "$work/runs.svg"; says "| deit3 |"
grep -q "<svg" "$work/runs.svg" || fail "no plot"
expect 1 "$VERTEBRA" compare "$work/data"; says "log.jsonl"
expect 2 "$VERTEBRA" compare; says "at least one run"
