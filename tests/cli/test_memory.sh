# Memory of a training step grows like the number of tokens: nothing of size tokens x tokens is kept. A model that keeps
# its scores shows that the measure would see it.
. tests/cli/lib.sh
cat >"$work/scores.vtb" <<'VTB'
use std.nn
model scores(image: size = 224x224) {
  input x: image[3]
  x = patch_embed("embed", x, 64, 16x16, 16x16)
  s = sigmoid(einsum("bid,bjd->bij", x, x))
  output y = linear("head", mean(x + einsum("bij,bjd->bid", s, x), axis = "tokens"), 10)
}
VTB
peak() { # MODEL SIZE: KiB a token
  expect 0 "$VERTEBRA" dump "$1" --image "$2" --train --stage plan
  awk -v s="$2" '/^peak workspace/ { printf "%d", 1024 * $3 / (s * s / 256) }' <<<"$out"
}
for model in vil_tiny vim_tiny vir_small "$work/scores.vtb"; do
  small=$(peak "$model" 224) large=$(peak "$model" 896)
  [ "$small" -gt 0 ] || fail "$model: no peak was printed"
  linear=$((100 * large <= 105 * small))
  [ $linear = $([[ $model = *scores* ]] && echo 0 || echo 1) ] ||
    fail "$model: $small KiB a token at 224 pixels, $large at 896"
done
