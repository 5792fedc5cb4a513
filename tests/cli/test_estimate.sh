# vertebra dump --estimate: every launch of every preset takes a positive, finite time that some limit explains.
. tests/cli/lib.sh
unset VTB_MACHINE
estimate() { expect 0 "$VERTEBRA" dump "$@" --stage launches --precision bf16-all; }
# of the tables that the last command left, and what its last line says
check() {
  awk -v what="$1" '
    /^ *step +runs kernel/ { table = 1; next }
    table && NF == 0 { table = 0 }
    table { n += $2; us = $(NF - 2); sum += $2 * us; if (!(us > 0.5 && us < 1e6)) { print what ": " $0; bad = 1 } }
    / images\/s, / { launches = $2; ms = $4; each = 1 }
    END {
      if (bad || !each || n != launches || sum < 990 * ms - 0.5 || sum > 1010 * ms + 0.5) { print what ": " n " launches, " sum " us, of " launches ", " ms " ms"; exit 1 }
    }' "$work/out" >&2 || fail "the table of $1 is wrong"
}

presets=$("$VERTEBRA" models | awk '/^  [a-z]/ && $1 != "model" { print $1 }')
[ "$(wc -w <<<"$presets")" -ge 40 ] || fail "few presets: $presets"
# of presets that differ in their size the smallest, unless all are wanted
has_smaller() {
  local size smaller
  for size in tiny small base; do
    smaller=$(sed -E "s/(_|^)(small|base|large|huge)(_|\$)/\\1$size\\3/" <<<"$1")
    [ "$smaller" != "$1" ] && grep -qx "$smaller" <<<"$presets" && return 0
  done
  return 1
}
for preset in $presets; do
  [ "${VTB_GOLDEN_MODES:-}" != all ] && has_smaller "$preset" && continue
  estimate "$preset" --estimate h200 --batch 8; check "$preset"
done
for preset in vil_nano vim_nano vir_nano vit_nano; do
  estimate "$preset" --estimate a100 --train; check "$preset --train"
done

# 80 columns, and a last line that says it all
estimate vil_base --estimate h200 --batch 128; check vil_base
[ "$(awk 'length > 80' "$work/out" | wc -l)" = 0 ] || fail "$(awk 'length > 80' "$work/out" | head -3)"
says "h200: "; says "time by limit: "; says "most time "
# a faster machine takes less time, a larger batch more
seconds() { sed -n 's/.* launches, \([0-9.]*\) ms a run of .*/\1/p' "$work/out"; }
before=1e9
for machine in a100 h100 h200 b200; do
  estimate vim_small --estimate $machine --batch 64; now=$(seconds)
  awk "BEGIN { exit !($now < $before) }" || fail "$machine takes $now ms, the one before $before"
  before=$now
done
estimate vim_small --estimate b200 --batch 128
awk "BEGIN { exit !($(seconds) > 1.4 * $before) }" || fail "twice the batch takes $(seconds) ms instead of $before"
# the vendor's library makes products too
estimate vit_nano --estimate h100 -D dim=128 --batch 64 --library; check library; says "library product"

# the plan is that of the machine, or of --arch
estimate vit_nano --estimate h200 -D dim=384 --batch 64; says "plan: for sm_90a"; own=$(seconds)
estimate vit_nano --estimate h200 -D dim=384 --batch 64 --arch sm_80; says "plan: for all architectures"
awk "BEGIN { exit !($own < $(seconds)) }" || fail "with wgmma $own ms, without $(seconds)"
estimate vit_nano --estimate b200 -D dim=384 --batch 64; says "plan: for all architectures"
estimate vit_nano --estimate a100 -D dim=384 --batch 64 --arch sm_90a; says "plan: for sm_90a"
expect 2 "$VERTEBRA" dump vit_nano --stage launches --estimate h200 --arch sm_9; says "no architecture is named 'sm_9'"

expect 0 "$VERTEBRA" dump vil_nano --stage launches; says "chosen for h200"
expect 0 "$VERTEBRA" dump vil_nano --stage launches --machine a100; says "chosen for a100"

# a block of tiles that is alone on a multiprocessor has twice the warps
expect 0 "$VERTEBRA" dump vil_tiny -D depth=1 -D num_heads=2 --batch 128 --precision bf16-all --stage cuda; says "VTB_KERNEL(256, linscan_"
expect 0 "$VERTEBRA" dump vil_tiny -D depth=1 -D num_heads=1 --batch 128 --precision bf16-all --stage cuda; says "VTB_KERNEL(512, linscan_"

# tiles of a scan go by wgmma where there is some, three blocks a multiprocessor
expect 0 "$VERTEBRA" dump vil_tiny -D depth=1 -D image=288x288 --batch 128 --precision bf16-all --stage cuda --arch sm_90a
says "VTB_KERNEL_TRIPLE(128, linscan_" "typedef vtb_by_wgmma PRODUCTS"
expect 0 "$VERTEBRA" dump vil_tiny -D depth=1 -D image=288x288 --batch 128 --precision bf16-all --stage cuda
says "VTB_KERNEL(128, linscan_" "typedef vtb_no_wgmma PRODUCTS"

# as data
expect 0 "$VERTEBRA" dump vit_nano --stage launches --estimate h200 --batch 4 --json
json stage launches machine h200 batch 4 plan "all architectures"
[ "$(printf '%s' "$out" | "$JSON_GET" launches)" -gt 10 ] || fail "$out"

# decisions are for the machine that is named, or that VTB_MACHINE names
expect 2 "$VERTEBRA" dump vil_nano --stage launches --estimate h300; says "no GPU is named 'h300': there are h200, h100, a100 and b200, and files"
expect 2 "$VERTEBRA" check vil_nano --target cuda --machine v100; says "no GPU is named 'v100'"
expect 2 env VTB_MACHINE=x "$VERTEBRA" check vil_nano --target cuda; says "no GPU is named 'x' (VTB_MACHINE)"
expect 0 env VTB_MACHINE=x "$VERTEBRA" check vil_nano
expect 0 env VTB_MACHINE=a100 "$VERTEBRA" check vil_nano --target cuda --json; slow=$(printf '%s' "$out" | "$JSON_GET" predicted_ms)
expect 0 "$VERTEBRA" check vil_nano --target cuda --machine b200 --json; fast=$(printf '%s' "$out" | "$JSON_GET" predicted_ms)
awk "BEGIN { exit !($fast < $slow) }" || fail "b200: $fast ms, a100: $slow ms"
expect 2 "$VERTEBRA" dump vil_nano --stage fused --estimate h200; says "--estimate is of --stage launches"
expect 2 "$VERTEBRA" dump vil_nano --stage launches --target cpu --estimate h200; says "nothing that --estimate could predict"
