# Models that declare what they are trained for (tests/cli/objectives.vtb): dense labels, two heads, masking, noise, a
# teacher, from folders of PNG files, .safetensors and .npy. Each learns; resuming, threads and built files change no bit.
. tests/cli/lib.sh
: "${MAKE_DATA:?path of make_data}"
models=tests/cli/objectives.vtb
"$MAKE_DATA" masks "$work/seg" 40 13
"$MAKE_DATA" series "$work/series.safetensors" 50 11
"$MAKE_DATA" npy "$work/arrays" 40
common=(--batch 8 --eval-batch 8 --warmup 0 --quiet --seed 3)

# column NAME ROW of a run's log; ROW counts from 1 behind the head
column() { awk -F, -v name="$3" -v row="$2" 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == name) c = i } NR == row + 1 { print $c }' "$work/$1/log.csv"; }
less() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a < b) }'; }

# run NAME ENTRY DATA ARGS...: trains and expects the loss to fall
learn() {
  local name=$1 entry=$2 data=$3
  shift 3
  expect 0 "$VERTEBRA" train $models --entry "$entry" --data "$data" "${common[@]}" --out "$work/$name" --epochs 4 --lr 1e-2 "$@"
  less "$(column "$name" 4 loss)" "$(column "$name" 1 loss)" || fail "$name learned nothing:
$(cat "$work/$name/log.csv")"
  [ "$name" = npy ] || less "$(column "$name" 4 eval_loss)" "$(column "$name" 1 eval_loss)" || fail "$name learned nothing for the test"
}

learn seg segment "$work/seg" --flip --shift 1 --crop-scale 0.7; says "val iou"
less 0.5 "$(column seg 4 eval_accuracy)" || fail "no accuracy: $(cat "$work/seg/log.csv")"
said=$(printf '%s' "$out" | grep -o 'val loss .*')
expect 0 "$VERTEBRA" train --resume "$work/seg" --quiet; says "is finished"; says "$said"
expect 0 "$VERTEBRA" train --resume "$work/seg" --quiet --json; json eval.iou "$(column seg 4 eval_iou)" train.iou "$(column seg 4 iou)"
learn heads two_heads "$work/series.safetensors"; says "val error"
learn masked masked "$work/seg"
learn noise denoise "$work/seg"
learn student distilled "$work/series.safetensors"
learn npy distilled "$work/arrays"; says "val accuracy"

# what was trained is measured again, to the last digit; the last batch of 13 and 11 is filled up
for run in "seg segment seg" "heads two_heads series.safetensors --split val"; do
  set -- $run
  expect 0 "$VERTEBRA" eval $models --entry "$2" --data "$work/$3" --weights "$work/$1/weights.safetensors" --batch 5 --json "${@:4}"
  got=$(grep '"loss"' "$work/out" | tr -cd '0-9.e-')
  awk -v a="$got" -v b="$(column "$1" 4 eval_loss)" 'BEGIN { d = a - b; exit !(d < 1e-5 && d > -1e-5) }' || fail "$1: eval $got"
done

# stopped within an epoch and resumed, by another number of threads: the same bytes, and the same log
expect 0 "$VERTEBRA" train $models --entry segment --data "$work/seg" "${common[@]}" --out "$work/parts" --epochs 4 --lr 1e-2 --flip --shift 1 --crop-scale 0.7 --max-steps 7 --threads 1
expect 0 "$VERTEBRA" train $models --entry segment --data "$work/seg" "${common[@]}" --out "$work/parts" --epochs 4 --lr 1e-2 --flip --shift 1 --crop-scale 0.7 --resume --threads 2
cmp -s "$work/seg/weights.safetensors" "$work/parts/weights.safetensors" || fail "the resumed run differs from the whole one"
[ "$(cut -d, -f 1-10 "$work/seg/log.csv")" = "$(cut -d, -f 1-10 "$work/parts/log.csv")" ] || fail "the resumed log differs"

# runs side by side
expect 0 "$VERTEBRA" compare "$work/seg" "$work/heads"; says "| score |"; says "iou 0."; says "accuracy"

# a built file trains and measures the same
expect 0 "$VERTEBRA" build $models --entry segment --train --batch 8 --eval-batch 8 -o "$work/seg.so"; says "evaluation"
expect 0 "$VERTEBRA" train "$work/seg.so" --data "$work/seg" "${common[@]}" --out "$work/built" --epochs 4 --lr 1e-2 --flip --shift 1 --crop-scale 0.7
cmp -s "$work/seg/weights.safetensors" "$work/built/weights.safetensors" || fail "the built file's run differs"
expect 0 "$VERTEBRA" eval "$work/seg.so" --data "$work/seg" --weights "$work/seg/weights.safetensors"; says "iou"
expect 0 "$VERTEBRA" bench $models --entry two_heads --train --runs 2; says "forward, backward, update"

# arrays are run through the model; an input that nothing fills is no row of zeros
expect 0 "$VERTEBRA" run $models --entry distilled --weights "$work/npy/weights.safetensors" --input x="$work/arrays/x.npy" -o "$work/out.safetensors"; says "sample 39"
expect 2 "$VERTEBRA" run $models --entry distilled --weights "$work/npy/weights.safetensors" "$work/seg/val/images/000.png"; says "--input x=FILE.npy"
expect 2 "$VERTEBRA" run $models --entry distilled --input z="$work/arrays/x.npy"; says 'no input "z": its inputs are x'
expect 1 "$VERTEBRA" run $models --entry distilled --input x="$work/arrays/label.npy"; says "[1, 32, 2] is needed"
printf '\223NUMPY\1\0v\0%-117s\n' "{'descr': '<f4', 'fortran_order': False, 'shape': (0, 32, 2), }" >"$work/none.npy"
expect 1 "$VERTEBRA" run $models --entry distilled --input x="$work/none.npy"; says 'the array for the input "x" has no samples'
{
  printf '\223NUMPY\1\0v\0%-117s\n' "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 32, 2), }"
  for _ in {1..64}; do printf '\0\0\300\177'; done
} >"$work/nan.npy"
expect 5 "$VERTEBRA" run $models --entry distilled --weights "$work/npy/weights.safetensors" --input x="$work/nan.npy"
says '  not classified: the input "x" holds a number that is not finite'; says "the inputs of 1 of"; silent_about "verify"

# losses, metrics and their gradients are the same in every mode
expect 0 "$VERTEBRA" verify $models --entry two_heads --batch 2; says "chunkwise(7)"
expect 0 "$VERTEBRA" verify $models --entry masked --batch 2; says "d:"

# the masked autoencoder, its own text with an encoder and positions that change nothing: each patch comes back to its
# place, those that are hidden count and no other
sed -e '/param decoder_pos/s/ + param.*//' -e '/repeat .*decoder/d' -e '/^  loss mse/q' models/examples/masked_autoencoder.vtb >"$work/mae.vtb"
cat >>"$work/mae.vtb" <<'M'
  metric moved lower = sum(abs(gather(gather(x, order), place) - sequence(x)), axis = "sample")
  metric wrong_token lower = sum(abs(gather(z, kept) - y), axis = "sample")
  metric wrong_blank lower = sum(abs(gather(z, hidden) - blank), axis = "sample")
  metric counted_seen lower = sum(gather(masked, kept), axis = "sample")
  metric counted = sum(gather(masked, hidden), axis = "sample")
}
M
expect 0 "$VERTEBRA" train "$work/mae.vtb" --data "$work/seg" "${common[@]}" --image 16 -D in_channels=3 -D depth=0 --out "$work/mae" --epochs 1 --max-steps 2
expect 0 "$VERTEBRA" eval "$work/mae.vtb" --data "$work/seg" --weights "$work/mae/weights.safetensors" --image 16 -D in_channels=3 -D depth=0 --batch 5 --json
json moved 0 wrong_token 0 wrong_blank 0 counted_seen 0 counted 12

# what nothing trains is told, and is an error where it would be trained
cat > "$work/aux.vtb" <<'M'
use std.nn
model aux() {
  input image: image[3, 16, 16]
  x = mean(patch_embed("e", image, 8, 4x4, 4x4), axis = "tokens")
  output logits = linear("head", x, 3)
  output other = linear("other", x, 3)
}
M
expect 0 "$VERTEBRA" check "$work/aux.vtb"; says "warning[VTB3201]"; says "only the output 'other' does"
expect 1 "$VERTEBRA" bench "$work/aux.vtb" --train --runs 1; says "error[VTB3201]"
expect 0 "$VERTEBRA" check $models --entry two_heads; says "target label"; says "metric error"; says "lower is better"; silent_about "warning"

# training on CUDA, emulated, is the CPU's
if "$VERTEBRA" doctor | grep -q '^cuda emulator  *ok'; then
  export XDG_CACHE_HOME="$(dirname "$VERTEBRA")/test-cache" VTB_EMULATOR_CHECKS=0
  few=(--entry two_heads --data "$work/series.safetensors" "${common[@]}" --epochs 1 --lr 1e-2)
  expect 0 "$VERTEBRA" train $models "${few[@]}" --out "$work/cpu"
  expect 0 "$VERTEBRA" train $models "${few[@]}" --out "$work/emulated" --target cuda-emulated
  for name in loss ce regression accuracy eval_loss eval_error; do
    awk -v a="$(column cpu 1 $name)" -v b="$(column emulated 1 $name)" 'BEGIN { d = a - b; exit !(d < 1e-4 && d > -1e-4) }' ||
      fail "$name: $(column emulated 1 $name) on the emulator, not $(column cpu 1 $name)"
  done
fi

# what a data set lacks is told
printf 'model m(classes: int = 3) {\n  input x: image[3, 8, classes]\n  output y = mean(x * param w: [1, classes] ~ ones, axis = "places")\n}\n' > "$work/classes.vtb"
expect 1 "$VERTEBRA" train $models --entry segment --data "$work/series.safetensors" "${common[@]}" --out "$work/no"; says 'cannot fill the input "image"'
expect 1 "$VERTEBRA" train $models --entry two_heads --data "$work/seg" "${common[@]}" --out "$work/no"; says 'cannot fill the input "x"'
expect 1 "$VERTEBRA" train $models --entry segment --data "$work/seg" "${common[@]}" --out "$work/no" -D num_classes=2; says "have class 2"
expect 2 "$VERTEBRA" train $models --entry two_heads --data "$work/series.safetensors" "${common[@]}" --out "$work/no" --flip; says "for images"
expect 1 "$VERTEBRA" train $models --entry two_heads --data "$work/series.safetensors" "${common[@]}" --out "$work/no" -D num_classes=2; says "class"
expect 0 "$VERTEBRA" train $models --entry segment --data "$work/seg/train" "${common[@]}" --out "$work/same" --max-steps 1; says "has no val split"; says "held out for validation"
expect 1 "$VERTEBRA" train "$work/classes.vtb" --data "$work/series.safetensors" --epochs 1 --out "$work/no"; says "declares its own losses"
rm "$work/seg/train/labels/003.png"
expect 1 "$VERTEBRA" train $models --entry segment --data "$work/seg" "${common[@]}" --out "$work/no"; says "003.png has no labels"
