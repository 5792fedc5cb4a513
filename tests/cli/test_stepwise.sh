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
