# CUDA C and what NVRTC makes of it, without a GPU: dumps, the resource report, the cache of compiled kernels.
. tests/cli/lib.sh
export XDG_CACHE_HOME="$(dirname "$VERTEBRA")/test-cache"

expect 0 "$VERTEBRA" dump vil_nano --stage cuda; says 'VTB_KERNEL(256, row_blocks_x_rowwise_from_x_norm_normed)(VTB_IN(float) a0'; says " std/nn.vtb:"
first=$out
expect 0 "$VERTEBRA" dump vil_nano --stage cuda
[ "$out" = "$first" ] || fail "the same model gave another text"
# nor does the text depend on where the models lie
mkdir "$work/elsewhere" && cp -r models/. "$work/elsewhere"
expect 0 "$VERTEBRA" dump vit_nano --stage launches --precision bf16; says " prepared  vit.vtb:"; says " prepared; "
[ "$(VTB_MODELS="$work/elsewhere" "$VERTEBRA" dump vil_nano --stage cuda)" = "$first" ] || fail "the text depends on folders"
# q, k and v are views of one tensor, each a third of it
expect 0 "$VERTEBRA" dump vit_nano --stage launches --precision bf16-all --batch 128
awk '/attention/ { n++; if ($5 > 3 * $6) exit 1 } END { exit !n }' <<<"$out" || fail "attention reads its tensor thrice"
expect 0 "$VERTEBRA" dump vit_nano --stage launches --train; says "bucket 0 complete: "; silent_about "bucket 1"
expect 0 "$VERTEBRA" dump vit_nano --stage launches --train --bucket-mb 0.2; says "bucket 2 complete: 0.2 MB"; says "bucket 4 complete: "
# one more block of the same kind is launches, not text
expect 0 "$VERTEBRA" dump vil_nano -D depth=14 --stage cuda
[ "$(grep -c ^VTB_KERNEL <<<"$out")" = "$(grep -c ^VTB_KERNEL <<<"$first")" ] || fail "text grows with depth"

export VTB_NVRTC="$work/absent.so"
expect 4 "$VERTEBRA" dump vil_nano --stage ptx; says "VTB_NVRTC=$work/absent.so cannot be loaded"
unset VTB_NVRTC
if ! "$VERTEBRA" dump vil_nano --stage ptx >"$work/ptx" 2>"$work/why"; then
  grep -q "no NVRTC" "$work/why" || fail "$(cat "$work/why")"
  echo "skipped: $(cat "$work/why")"
  exit 77
fi
grep -q "^.target sm_80" "$work/ptx" || fail "no PTX for sm_80"

for model in vil_nano vim_nano; do
  expect 0 "$VERTEBRA" dump $model --stage resources --arch sm_80; says " kernels spill"; says "0 of "
done
expect 0 "$VERTEBRA" dump vil_nano --train --stage resources --arch sm_90a; says "0 of "

XDG_CACHE_HOME="$work"
expect 0 "$VERTEBRA" cache ls; says "0 entries"
expect 0 "$VERTEBRA" dump vit_nano --stage ptx
expect 0 "$VERTEBRA" cache ls; silent_about "0 entries,"; says "$work/vertebra/cuda"
expect 0 "$VERTEBRA" cache clear; says "entries removed"
expect 0 "$VERTEBRA" cache ls; says "0 entries"
expect 2 "$VERTEBRA" cache purge; says "is needed"
