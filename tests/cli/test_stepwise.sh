# Recurrences that are not linear in their state run step after step, say so once, and have no other mode.
. tests/cli/lib.sh
cat >"$work/cells.vtb" <<'VTB'
use std.nn
use std.gru
use std.slstm

model cells(dim: int = 8, heads: int = 2, path: path = snake, form: mode = auto) {
  input x: tokens[3x4, 8]
  k = dim / heads
  y = along(path) {
    r, z, n = split(linear("in", x, 3 * dim), 3)
    gru(group(r, heads), group(z, heads), group(n, heads), param Rr: [heads, k, k] ~ normal(0.5),
        param Rz: [heads, k, k] ~ normal(0.5), param Rn: [heads, k, k] ~ normal(0.5), param b: [heads, k] ~ normal(0.5),
        mode = form)
  }
  z, i, f, o = split(linear("in2", ungroup(y), 4 * dim), 4)
  y = slstm(group(z, heads), group(i, heads), group(f, heads), group(o, heads), param Qz: [heads, k, k] ~ normal(0.5),
            param Qi: [heads, k, k] ~ normal(0.5), param Qf: [heads, k, k] ~ normal(0.5),
            param Qo: [heads, k, k] ~ normal(0.5))
  output y = ungroup(y)
}
VTB
expect 0 "$VERTEBRA" verify "$work/cells.vtb" --target all --batch 2
says "VTB3006"; says "recurrent"; silent_about "chunkwise("; silent_about "error"
[ "$(grep -c VTB3006 <<<"$err")" = 2 ] || fail "two warnings, once each: $err"
expect 0 "$VERTEBRA" verify "$work/cells.vtb" -D "path=cols~" -D heads=1
expect 1 "$VERTEBRA" check "$work/cells.vtb" -D form=parallel; says "VTB3001"; says "multiplies two states"
expect 1 "$VERTEBRA" check "$work/cells.vtb" --mode chunkwise --chunk 4; says "VTB3001"

# In a hybrid a mode is that of the recurrences which have it; the others stay as they are, which a line says.
cat >"$work/hybrid.vtb" <<'VTB'
use std.nn

recurrence elman(x: [K], R: [K, J]) -> [K] {
  state h: [K]
  h = tanh(x + dot(R, rename_axis(h, "K", "J")))
  yield h
}
recurrence leaky(v: [V], g: [V]) -> [V] {
  state s: [V]
  s = sigmoid(g) * s + v
  yield s
}
model hybrid(dim: int = 8, form: mode = auto) {
  input x: tokens[4x4, 8]
  x += elman(x, param R: [dim, dim] ~ normal(0.1), mode = form)
  output y = x + leaky(x, linear("g", x, dim))
}
VTB
expect 0 "$VERTEBRA" check "$work/hybrid.vtb" --mode chunkwise --chunk 4
says "'elman' runs step after step"; says "chunkwise(4): as asked"; says "fold"
expect 0 "$VERTEBRA" verify "$work/hybrid.vtb" --target all; says "chunkwise(7)"; says "parallel"
[ "$(grep -c VTB3006 <<<"$err")" = 1 ] || fail "one warning: $err"
expect 0 "$VERTEBRA" bench "$work/hybrid.vtb" --mode recurrent,chunkwise,parallel --seconds 0.01; silent_about "failed"
# what is written at the call is not left out
expect 1 "$VERTEBRA" check "$work/hybrid.vtb" -D form=parallel; says "VTB3001"
