# Gradients that are lost are seen, on every target and in every precision: models whose text loses them, against a
# reference case whose outputs they still have.
. tests/cli/lib.sh
case=tests/golden/vllama/plain_abs_sincos_gap_small.safetensors
cp -r models "$work/models"
# all of a gradient, of biases and of the patches' weights; half of one, of the norms; one column, of weights
cat >> "$work/models/std/nn.vtb" <<'END'

fn lost_column(w: tensor) {
  first, rest = split(w, [1, w.dim - 1])
  return concat(stop_gradient(first), rest)
}

fn half_gradient(w: tensor) { return stop_gradient(w) * 0.5 + w * 0.5 }
END
sed -i -e '/^fn linear/,/^}/ s/param weight: \[out, x.dim\] ~ init/lost_column(&)/' \
  -e '/^fn linear/,/^}/ s/param bias: .* no_decay/stop_gradient(&)/' \
  -e 's/param weight: \[x.dim\] ~ ones no_decay/half_gradient(&)/' \
  -e '/^fn patch_embed/,/^}/ s/param bias: .* no_decay/half_gradient(&)/' \
  -e '/^fn patch_embed/,/^}/ s/flatten(w)/stop_gradient(&)/' "$work/models/std/nn.vtb"

seen() { # seen ARGUMENTS...: all of them, and nothing else is called ill-conditioned
  VTB_MODELS=$work/models expect 5 "$VERTEBRA" verify "$case" "$@"
  cp "$work/out" "$work/said"
  for lost in patch_embed.proj.weight patch_embed.proj.bias head.weight head.bias norm.weight; do
    grep -q "^ *FAIL grad/$lost " "$work/said" || fail "verify $*: does not see what $lost lost: $(cat "$work/said")"
  done
  ! grep ill-conditioned "$work/said" || fail "verify $*: calls it ill-conditioned"
}
seen --target cpu
seen --target interp
"$VERTEBRA" doctor | grep -q '^cuda emulator  *ok' || exit 0
export VTB_EMULATOR_CHECKS=0 # what the kernels do is not in question
for precision in fp32 tf32 bf16 fp16 bf16-all; do
  seen --target cuda-emulated --precision $precision
done
