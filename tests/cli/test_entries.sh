# Weights say which model of a file they are of, whatever stands last in it; and a bit of them that flips is noticed.
. tests/cli/lib.sh
small_images 64 32
cd "$work" || exit 1
cat > two.vtb <<'EOF'
use std.nn
model net(dim: int = 8, kinds: int = 4) {
  input image: image[1, 8, 8]
  x = patch_embed("embed", image, dim, 4x4, 4x4)
  output y = linear("head", mean(x, axis = "tokens"), kinds)
}
preset wide = net(dim = 24)
preset last = net(dim = 12, kinds = 10)
EOF
sed '/^preset/d; s/net(/other(/; s/kinds: int = 4/kinds: int = 10/' two.vtb > other.vtb
train=(--data data --batch 8 --seed 3 --val-fraction 0.25 --quiet --max-steps 8)
expect 0 "$VERTEBRA" train two.vtb --entry wide "${train[@]}" --out run
for f in weights best checkpoint; do
  [ -e run/$f.safetensors ] || continue
  expect 0 "$VERTEBRA" weights run/$f.safetensors; says "entry"; says "wide"; says "xxh3"
done

# every command finds it again; a built file and what it trains say it, too
w=run/weights.safetensors
expect 0 "$VERTEBRA" eval two.vtb --weights $w --data data; silent_about "of the models of this file"
says "weights of wide, which is taken: --entry wide"
expect 0 "$VERTEBRA" eval two.vtb --weights run/checkpoint.safetensors --data data --allow-unused
expect 0 "$VERTEBRA" build two.vtb --weights $w -o wide.so
expect 0 "$VERTEBRA" check wide.so; says "wide"
expect 0 "$VERTEBRA" export two.vtb --weights $w -o wide.onnx
expect 0 "$VERTEBRA" eval two.vtb --weights $w --data data --write-images shown
expect 0 "$VERTEBRA" run two.vtb --weights $w shown/*.png
expect 0 "$VERTEBRA" convert $w half.safetensors --dtype bf16
expect 0 "$VERTEBRA" eval two.vtb --weights half.safetensors --data data
echo 'preset newer = net(dim = 6)' >> two.vtb
expect 0 "$VERTEBRA" eval two.vtb --weights $w --data data

# weights of another model or preset are called that, without a setting that would not help
expect 1 "$VERTEBRA" eval two.vtb --entry last --weights $w --data data
says "run/weights.safetensors has weights of wide, as its metadata say, not of last: --entry wide"; silent_about "-D"
expect 1 "$VERTEBRA" eval other.vtb --weights $w --data data
says "has weights of wide, as its metadata say, not of other.vtb"; silent_about "-D"

# one bit
damaged() { "$VERTEBRA" "$@" > "$work/out" 2> "$work/err" && fail "damage goes unseen: $*"; out= err=$(cat "$work/err"); says "is damaged: its bytes are not those that were written"; }
cp half.safetensors flipped.safetensors
for f in run/weights run/best run/checkpoint flipped; do
  f=$f.safetensors; [ -e $f ] || continue
  at=$(($(stat -c %s $f) - 3)); byte=$(od -An -tu1 -j $at -N 1 $f)
  printf "\\$(printf %o $((byte ^ 1)))" | dd of=$f bs=1 seek=$at conv=notrunc 2> dd.err
  damaged weights $f
  damaged eval two.vtb --weights $f --data data --allow-unused
done
damaged run two.vtb --weights $w shown/*.png
damaged build two.vtb --weights $w -o no.so
damaged export two.vtb --weights $w -o no.onnx
damaged train two.vtb --entry wide --init $w "${train[@]}" --out init
damaged convert $w no.safetensors
damaged run wide.so --weights $w shown/*.png
[ ! -e no.so ] && [ ! -e no.onnx ] && [ ! -e no.safetensors ] || fail "damage was written on"

# what is no model, no image size, no data set and no image says what it is
expect 1 "$VERTEBRA" run half.safetensors shown/00-0.png; says "half.safetensors has weights, and a model's name or .vtb file is needed"
expect 2 "$VERTEBRA" check two.vtb --image 8,16; says "one image size is needed here, not the list 8,16"
expect 1 "$VERTEBRA" data mnist; says "known by its name is fashion-mnist"
printf 'GIF89a\1\0\1\0' > shown/a.png
expect 1 "$VERTEBRA" run two.vtb shown/a.png; says "it is a GIF file"
