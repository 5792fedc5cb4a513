# The number of classes follows the data, whatever the model calls it; a setting or a model that stands in the way is named.
. tests/cli/lib.sh
small_images 32 8
cat > "$work/model.vtb" <<'END'
use std.nn
model small(dim: int = 16, depth: int = 1, kinds: int = 10) {
  input image: image[1, 8, 8]
  x = patch_embed("embed", image, dim, 4x4, 4x4)
  repeat depth as i scope "b.{i}" { x += linear("l", x, dim) }
  output y = linear("head", mean(x, axis = "tokens"), kinds)
}
END
run=(--data "$work/data" --epochs 1 --batch 8)
expect 0 "$VERTEBRA" train "$work/model.vtb" "${run[@]}" --out "$work/r"; says "the data has 4 classes, the model 10: -D kinds=4"
expect 0 "$VERTEBRA" train "$work/model.vtb" "${run[@]}" --overwrite --out "$work/r" -D kinds=4; silent_about "the data has"
expect 0 "$VERTEBRA" eval "$work/model.vtb" --weights "$work/r/weights.safetensors" --data "$work/data"
expect 1 "$VERTEBRA" train "$work/model.vtb" "${run[@]}" --out "$work/s" -D kinds=5
says "the data has 4 classes and the model 5, by -D kinds=5: set kinds=4"
sed 's/, kinds: int = 10//; s/, kinds)/, 10)/' "$work/model.vtb" > "$work/fixed.vtb"
expect 1 "$VERTEBRA" train "$work/fixed.vtb" "${run[@]}" --out "$work/s"; says "no hyperparameter of 'small' sets that"
[ ! -e "$work/s/weights.safetensors" ] || fail "weights of a run that did not begin"
# A resumed run with other settings is told which.
expect 1 "$VERTEBRA" train "$work/model.vtb" "${run[@]}" --out "$work/r" -D kinds=4 --resume --lr 0.5; says "(now lr=0.5)"
