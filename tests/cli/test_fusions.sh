# Fusions on CUDA are decided by what kernels take, place by place: never for the worse, otherwise on another machine or at another
# batch, and results do not depend on it but for rounding.
. tests/cli/lib.sh
unset VTB_MACHINE VTB_FUSIONS
export XDG_CACHE_HOME="$(dirname "$VERTEBRA")/test-cache"
all="mixer_adjoints mixers filter_adjoints filter_gradients split_thin local fuse_norms scans scan_adjoints maxima products"
ms() { expect 0 env VTB_FUSIONS="$fusions" "$VERTEBRA" dump "$@" --stage launches --precision bf16-all; sed -n 's/.* launches, \([0-9.]*\) ms a run of .*/\1/p' "$work/out"; }
decisions() { expect 0 "$VERTEBRA" dump "$@" --stage decisions --precision bf16-all; }

# what is chosen is no slower than what is chosen with one fusion more or less, within 6 %: a place is taken for 10 % more
no_slower() {
  local own other pass
  fusions= own=$(ms "$@")
  for pass in ${passes:-all $all}; do
    fusions=$pass; [ "$pass" = all ] || fusions=-$pass
    other=$(ms "$@")
    awk "BEGIN { exit !($own <= 1.06 * $other) }" || fail "$*: $own ms as decided, $other with VTB_FUSIONS=$fusions"
  done
}
no_slower vil_nano --estimate h200 --batch 1 --train
no_slower vil_tiny -D depth=2 --estimate a100 --batch 128
no_slower vim_nano --estimate b200 --batch 256
passes=all # of others all at once
no_slower vit_tiny -D depth=2 --estimate h200 --batch 64
no_slower vrwkv_nano --estimate h200 --batch 128
no_slower vir_nano -D dim=64 --image 224 --estimate h200 --batch 2
passes=
no_slower swin_nano_28 --estimate a100 --batch 32 --train

# it does decide: where memory costs nothing and instructions much, what saves bytes by instructions is left out
machine() { # FILE BYTES ISSUE
  printf '{"vertebra_gpu": 1, "name": "%s", "what": "test", "arch": "sm_90a", "processors": 132, "clock": 1.755e9, "warps": 64, "blocks": 32,
    "registers": 65536, "shared_bytes": 233472, "issue": %s, "special": 16, "wavefronts": 1, "bytes": %s, "l2_bytes": %s, "l2_size": 5e7,
    "launch": 1e-9, "latency": 1e-9, "tensor": [6e14, 3e14, 8e14, 4e14]}' "$(basename "$1" .json)" "$3" "$2" "$2" > "$1"
}
machine "$work/fast.json" 1e17 0.2
machine "$work/slow.json" 1e11 20
decisions vil_base --train --batch 2 --machine "$work/fast.json"; says "by the estimate on fast"
cp "$work/out" "$work/fast"
grep -q ' left out$' "$work/fast" || fail "nothing is left out where memory costs nothing: $out"
[ "$(awk 'length > 80' "$work/out" | wc -l)" = 0 ] || fail "wide lines: $out"
decisions vil_base --train --batch 2 --machine "$work/slow.json"
[ "$(grep -c ' fused$' "$work/out")" -gt "$(grep -c ' fused$' "$work/fast")" ] || fail "the same where memory is all: $out"
# what adjoints go on to through small matrices is part of both times
decisions vil_tiny -D depth=2 --train --batch 128
awk '$1 == "mixer_adjoints" { n++; bad += $3 < 2.5 * $4 } END { exit !(n == 2 && !bad) }' "$work/out" || fail "times of half a kernel: $out"
# what is decided is what is made
made() { expect 0 "$VERTEBRA" dump vil_base --train --batch 2 --machine "$work/fast.json" --stage fused --target cuda --precision bf16-all; }
made; cp "$work/out" "$work/decided"
VTB_FUSIONS=all made
! cmp -s "$work/out" "$work/decided" || fail "decisions change nothing"

expect 0 "$VERTEBRA" dump vil_nano --stage decisions --target cpu; says "nothing to decide"
VTB_FUSIONS=all decisions vil_nano; says "VTB_FUSIONS decides"
VTB_FUSIONS=-fuse_norm expect 2 "$VERTEBRA" dump vil_nano --stage launches; says "'-fuse_norm' names no fusion"

# without any of them, and with all, the numbers are the reference's
"$VERTEBRA" doctor | grep -q '^cuda emulator  *ok' || exit 0
for fusions in all "$(printf -- '-%s,' $all | sed 's/,$//')"; do
  VTB_EMULATOR_CHECKS=0 VTB_FUSIONS=$fusions expect 0 "$VERTEBRA" verify --target cuda-emulated --precision bf16-all \
    tests/golden/vil/vil2_causal1d.safetensors tests/golden/vim/vim2_v2_doublecls.safetensors; says "2 cases, 0 failed"
done
