# What data and weights are is told where it is not what one would think; and a seed draws the same batches whatever the model.
. tests/cli/lib.sh
small_images 64 16
cat > "$work/m.vtb" <<'EOF'
use std.nn
use std.loss
model tiny(kinds: int = 4) {
  input image: image[1, 8, 8]
  output y = linear("head", mean(patch_embed("embed", image, 8, 4x4, 4x4), axis = "tokens"), kinds)
}
model narrow(dim: int = 4, deep: bool = false) {
  input image: image[1, 8, 8]
  input label: labels
  x = patch_embed("embed", image, dim, 4x4, 4x4)
  x += if deep { linear("l", x, dim) } else { 0 * x }
  output y = linear("head", mean(x, axis = "tokens"), 4)
  loss ce = cross_entropy(y, label)
  metric brightness = mean(square(patches(image, kernel = 8x8)), axis = "sample")
}
EOF
cd "$work" || exit 1
train=(train m.vtb --entry tiny --batch 4 --epochs 1 --quiet --overwrite --out run)
expect 0 "$VERTEBRA" "${train[@]}" --data data; silent_about "class"
expect 0 "$VERTEBRA" eval m.vtb --entry tiny --weights run/weights.safetensors --data data --write-images pictures

# one class; classes that nothing is of
mkdir -p one/only list
cp pictures/*.png one/only; cp pictures/*.png list
expect 0 "$VERTEBRA" "${train[@]}" --data one --batch 2; says "one has one class, only: every answer is right"
{ echo file,label; n=1; for f in list/*.png; do echo "${f#list/},$(((n++ - 1) % 3 + 1))"; done; } > list/train.csv
expect 0 "$VERTEBRA" "${train[@]}" --data list --batch 2; says "list: no training sample for 1 of 4 classes (0); numbers of classes begin with 0"

# weights at another size of images
expect 0 "$VERTEBRA" run m.vtb --entry tiny --weights run/weights.safetensors pictures/00*.png; silent_about "made for"
expect 0 "$VERTEBRA" run vil_nano -D depth=1 pictures/00*.png --image 56
expect 0 "$VERTEBRA" train vil_nano -D depth=1 -D dim=16 --data data --image 28 --max-steps 1 --batch 4 --quiet --out nano
expect 0 "$VERTEBRA" eval vil_nano --weights nano/weights.safetensors --data data --image 56; says "made for images of 28x28, used at 56x56"
expect 0 "$VERTEBRA" eval vil_nano --weights nano/weights.safetensors --data data --image 28; silent_about "made for"

# the first batch of two models with one seed, and of another seed
first() { expect 0 "$VERTEBRA" train m.vtb --entry narrow --data data --batch 4 --max-steps 1 --overwrite --out first --json "$@"; printf '%s' "$out" | "$JSON_GET" train.brightness; }
a=$(first --seed 3) b=$(first --seed 3 -D dim=12 -D deep=true) c=$(first --seed 4)
[ -n "$a" ] && [ "$a" != none ] && [ "$a" = "$b" ] || fail "one seed, two models: batches of $a and $b"
[ "$a" != "$c" ] || fail "two seeds have the same first batch"
