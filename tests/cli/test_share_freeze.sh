# share: one tensor in the checkpoint, trained by all its uses. freeze: the weights stay to the bit, no moments are kept, and
# a weight decay does not reach them.
. tests/cli/lib.sh
small_images 64 16
model=tests/cli/share_freeze.vtb

expect 0 "$VERTEBRA" check --params $model
says "layer.mlp.fc1.weight"; says "shared by 3"; says "440 of them frozen"
[ "$(grep -c '^  layer\.mlp\.fc1\.weight' "$work/out")" = 1 ] || fail "a shared param is listed more than once"
expect 0 "$VERTEBRA" verify $model
expect 0 "$VERTEBRA" verify $model -D freezes=false

train() { # OUT ARGS...
  expect 0 "$VERTEBRA" train $model --data "$work/data" --batch 16 --lr 1e-2 --weight-decay 0.5 --seed 3 --quiet --out "$work/$1" "${@:2}"
}
# the bytes of a tensor in a safetensors file
bytes_of() { # FILE NAME
  local head begin end
  head=$(od -An -tu8 -N8 "$1" | tr -d ' ')
  read -r begin end < <(dd if="$1" bs=1 skip=8 count="$head" 2>/dev/null |
    sed -n "s/.*\"$2\":{[^}]*\"data_offsets\":\[\([0-9]*\),\([0-9]*\)\].*/\1 \2/p")
  [ -n "${end:-}" ] || fail "no $2 in $1"
  dd if="$1" bs=1 skip=$((8 + head + begin)) count=$((end - begin)) 2>/dev/null | sha256sum
}
same() { [ "$(bytes_of "$work/$1/weights.safetensors" "$3")" = "$(bytes_of "$work/$2/weights.safetensors" "$3")" ]; }

train short --epochs 1
train long --epochs 6
for w in embed.weight embed.bias late.mlp.fc1.weight late.norm.weight gain; do
  same short long $w || fail "$w is frozen and moved"
  grep -aq "optim/[a-z]*/$w" "$work/long/checkpoint.safetensors" && fail "moments of $w, which is frozen"
done
for w in head.weight layer.mlp.fc1.weight layer.norm.weight; do
  same short long $w && fail "$w did not move"
  grep -aq "optim/[a-z]*/$w" "$work/long/checkpoint.safetensors" || fail "no moments of $w"
done

# what the loss depends on only through stop_gradient is said to have no gradient, and is neither moved nor decayed
cat > "$work/stopped.vtb" <<'END'
use std.nn
model stopped() {
  input x: image[1, 8x8]
  h = patch_embed("embed", x, 8, 4x4, 4x4)
  h += stop_gradient(linear("behind", h, 8))
  output logits = linear("head", mean(h, axis = "tokens"), 4)
}
END
for n in 1 4; do
  expect 0 "$VERTEBRA" train "$work/stopped.vtb" --data "$work/data" --batch 16 --lr 1e-2 --weight-decay 0.5 --seed 3 --quiet \
    --epochs $n --out "$work/stopped$n"
  says "VTB3202"
done
for w in behind.weight behind.bias; do same stopped1 stopped4 $w || fail "$w has no gradient and moved"; done
same stopped1 stopped4 embed.weight && fail "embed.weight did not move"

# without freezing everything moves; the weights of one go into the other
train free --epochs 1 -D freezes=false --init "$work/long/weights.safetensors"
same free long embed.weight && fail "embed.weight did not move"
train back --epochs 1 --init "$work/free/weights.safetensors"
same free back embed.weight || fail "embed.weight was not taken from the file, or moved"
same free back head.weight && fail "head.weight did not move"
exit 0
