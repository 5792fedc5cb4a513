# Backbones of series, images and videos: every mode against the interpreter, their orders and windows drawn.
. tests/cli/lib.sh
verified() {
  expect 0 "$VERTEBRA" verify --no-grad "models/examples/$1.vtb" -D "$2" -D dim=12 -D "$3"
  says "ok   cpu"
}
verified series_gla 'series=size(48)' heads=1
verified segment_u image=16 head_dim=4
verified video_gla video=4x16x16 heads=1
expect 0 "$VERTEBRA" verify models/examples/video_gla.vtb -D video=4x16x16 -D dim=12 -D heads=1 \
  -D depth=1 -D 'orders=[frames]' --mode chunkwise --target cuda-emulated
says "ok   cuda-emulated"
expect 0 "$VERTEBRA" dump models/examples/video_gla.vtb --stage launches
scans=$(grep -c linscan "$work/out")
[ "$scans" = 3 ] || fail "$scans launches of scans for three blocks of two directions"
expect 0 "$VERTEBRA" dump models/examples/video_gla.vtb --stage graph
if grep -q ' = permute' "$work/out"; then fail "a permutation is left"; fi

expect 0 "$VERTEBRA" paths models/examples/video_gla.vtb -o "$work/video.png"
says "frames~@4x8x8"; says "hilbert@4x8x8"; says "windows 2x2x2/2x4x4-1x1x1"
expect 0 "$VERTEBRA" paths models/examples/series_gla.vtb --json; says '"windows 16/32-8"'

# Seven directions wrap into rows.
expect 0 "$VERTEBRA" paths vil_nano -o "$work/seven.svg" \
  -D 'directions=[rows, rows~, cols, cols~, snake, hilbert, diagonal]'
width=$(sed -n 's/^<svg[^>]* width="\([0-9]*\)".*/\1/p' "$work/seven.svg")
[ "$width" -gt 300 ] && [ "$width" -lt 2200 ] || fail "a picture of $width pixels"

# Windows alone are drawn too.
cat >"$work/windows.vtb" <<'END'
use std.attention
model windows() {
  input x: tokens[8x8, 8]
  output y = window_attention(x, 2, 4, shift = 2)
}
END
expect 0 "$VERTEBRA" paths "$work/windows.vtb" -o "$work/windows.svg"; says "windows 4x4/8x8-2x2"
grep -q 'windows 4x4/8x8-2x2' "$work/windows.svg" || fail "no caption"
