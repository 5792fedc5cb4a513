# --quantize int8 and --dtype: what becomes of 8 bits is told, eval prints both accuracies, files have weights in fewer bits
# and compute the same bits as the model that is compiled where it runs.
. tests/cli/lib.sh
small_images 64 40
model=(vil_nano -D depth=2 -D dim=48)
expect 0 "$VERTEBRA" train "${model[@]}" --data "$work/data" --image 8 --epochs 1 --batch 16 --lr 2e-3 --out "$work/r"
weights=$work/r/weights.safetensors
image=tests/fuzz/corpus/image/rgb.png

expect 0 "$VERTEBRA" eval vil_nano --weights "$weights" --data "$work/data" --quantize int8
says "int8: "; says "left in float32: "; says " % float32, "; says " % int8: "
expect 0 "$VERTEBRA" eval vil_nano --weights "$weights" --data "$work/data" --quantize int8 --json
says '"float32"'; [ "$(grep -c '^int8: ' "$work/err")" = 1 ] || fail "it is told more than once: $err"

expect 0 "$VERTEBRA" run vil_nano --weights "$weights" --quantize int8 "$image" -o "$work/here.safetensors"
expect 0 "$VERTEBRA" run vil_nano --weights "$weights" "$image" -o "$work/plain.safetensors"
cmp -s "$work/here.safetensors" "$work/plain.safetensors" && fail "int8 changes nothing"
expect 0 "$VERTEBRA" bench vil_nano --quantize int8 --runs 2
says "product8"

expect 0 "$VERTEBRA" build vil_nano --weights "$weights" -o "$work/plain.so"
expect 0 "$VERTEBRA" build vil_nano --weights "$weights" --quantize int8 -o "$work/int8.so"
says "int8: "; says "quantize         int8"
expect 0 "$VERTEBRA" run "$work/int8.so" "$image" -o "$work/built.safetensors"
cmp -s "$work/here.safetensors" "$work/built.safetensors" || fail "the built file gives other bits"
expect 0 "$VERTEBRA" eval "$work/int8.so" --data "$work/data"
expect 2 "$VERTEBRA" run "$work/plain.so" --quantize int8 "$image"; says "--quantize cannot change"

# a parameter that something else reads, too, stays whole in the file
cat > "$work/tied.vtb" <<'END'
use std.nn
model tied() {
  input image: image[1, 8, 8]
  x = patch_embed("embed", image, 48, 2x2, 2x2)
  w = param weight: [48, 48] ~ trunc_normal(0.1)
  x = matmul(x, w) + w[0]
  output y = linear("head", mean(x, axis = "tokens"), 4)
}
END
expect 0 "$VERTEBRA" train "$work/tied.vtb" --data "$work/data" --epochs 1 --batch 16 --out "$work/t"
tied=(--weights "$work/t/weights.safetensors" --quantize int8)
expect 0 "$VERTEBRA" run "$work/tied.vtb" "${tied[@]}" "$image" -o "$work/t.safetensors"
expect 0 "$VERTEBRA" build "$work/tied.vtb" "${tied[@]}" -o "$work/t.so"
expect 0 "$VERTEBRA" run "$work/t.so" "$image" -o "$work/u.safetensors"
cmp -s "$work/t.safetensors" "$work/u.safetensors" || fail "a parameter that is read in float32, too, was stored in 8 bits"

# fewer bits, widened when the file is opened
expect 0 "$VERTEBRA" convert --dtype bf16 "$weights" "$work/bf16.safetensors"
expect 0 "$VERTEBRA" run vil_nano --weights "$work/bf16.safetensors" "$image" -o "$work/a.safetensors"
expect 0 "$VERTEBRA" build vil_nano --weights "$weights" --dtype bf16 -o "$work/bf16.so"
expect 0 "$VERTEBRA" run "$work/bf16.so" "$image" -o "$work/b.safetensors"
cmp -s "$work/a.safetensors" "$work/b.safetensors" || fail "a file of bf16 gives other bits than weights of bf16"
expect 0 "$VERTEBRA" build vil_nano --weights "$weights" --dtype f16 --quantize int8 -o "$work/least.so"
size() { wc -c < "$1"; }
[ "$(size "$work/int8.so")" -lt "$(size "$work/plain.so")" ] || fail "int8 makes the file no smaller"
[ "$(size "$work/least.so")" -lt "$(size "$work/int8.so")" ] || fail "f16 makes the rest no smaller"
expect 2 "$VERTEBRA" build vil_nano --dtype f16 -o "$work/x.so"; says "--dtype is of weights"

# what cannot be is refused with the reason
expect 2 "$VERTEBRA" run vil_nano --weights "$weights" --quantize int4 "$image"; says "there is int8"
expect 2 "$VERTEBRA" build vil_nano --quantize int8 --target cuda -o "$work/x.so"; says "processors do"
expect 2 "$VERTEBRA" build vil_nano --quantize int8 --train -o "$work/x.so"; says "int8 is of inference"
expect 2 "$VERTEBRA" build vil_nano --quantize int8 --vjp -o "$work/x.so"; says "int8 is of inference"
tiny_model
expect 2 "$VERTEBRA" build "$work/tiny.vtb" --quantize int8 -o "$work/x.so"; says "no product that int8 can be of"
[ ! -e "$work/x.so" ] || fail "a refused build left a file"
