# Traversals are listed block by block with grid and extra tokens, and drawn as SVG, PNG and PDF.
. tests/cli/lib.sh
expect 0 "$VERTEBRA" paths vim_nano -o "$work/a.svg"
says "rows@7x7+mid=1,at=24"; says "rows~@7x7+mid=1,at=24"
head -c 4 "$work/a.svg" | grep -q '<svg' || fail "not an SVG"
grep -q 'layers\.\[0, 1, ..., 5\]' "$work/a.svg" || fail "the blocks are not named"
arrows=$(grep -cE 'z" fill="#(1f6fb4|d1495b|aab4c0)"' "$work/a.svg")
[ "$arrows" = 98 ] || fail "$arrows arrows for two directions of 50 tokens"
expect 0 "$VERTEBRA" paths vil_nano -D 'directions=[rows, hilbert, cols.hflip~]' --image 16x24 -o "$work/a.png"
says "hilbert@4x6"; says "cols~.hflip@4x6"
head -c 4 "$work/a.png" | grep -q 'PNG' || fail "not a PNG"
expect 0 "$VERTEBRA" paths vir_nano --json; says '"rows@7x7+tail=1"'
"$VERTEBRA" paths vir_nano -o "$work/a.pdf" >/dev/null && head -c 4 "$work/a.pdf" | grep -q '%PDF' || fail "not a PDF"
expect 2 "$VERTEBRA" paths vir_nano -o "$work/a.gif"; says "writes .svg, .png or .pdf, which"; says "call it $work/a.svg"
expect 2 "$VERTEBRA" paths; says "one MODEL"

# Two grids of as many tokens, one with extra tokens: each scan knows its own.
cat >"$work/grids.vtb" <<'END'
use std.nn
recurrence ema(x: [V]) -> [V] {
  state s: [V]
  s = 0.5 * s + x
  yield s
}
model grids() {
  input a: image[1, 16, 24]
  input b: image[1, 12, 32]
  x = patch_embed("a", a, 8, size(4, 4), size(4, 4))
  y = patch_embed("b", b, 8, size(4, 4), size(4, 4))
  z = insert_tokens(y, param token: [1, 1, 8] ~ zeros, at = "tail")
  output u = mean(ema(x), axis = "tokens")
  output v = mean(ema(y), axis = "tokens") + mean(ema(z), axis = "tokens")
}
END
expect 0 "$VERTEBRA" paths "$work/grids.vtb"
says "rows@4x6"; says "rows@3x8"; says "rows@3x8+tail=1"

# Seven directions stand in rows; titles of many blocks are broken.
expect 0 "$VERTEBRA" paths vil_tiny -D 'directions=[rows, rows~, cols, cols~, rows.hflip, hilbert, cols.hflip~]' \
  -o "$work/seven.svg"
width=$(sed -n 's/^<svg[^>]* width="\([0-9]*\)".*/\1/p;q' "$work/seven.svg")
[ "$width" -gt 800 ] && [ "$width" -le 1650 ] || fail "a picture of $width pixels"
