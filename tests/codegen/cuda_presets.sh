#!/usr/bin/env bash
# Every preset, forward and training step, through NVRTC for every architecture; kernels that spill registers are
# named. Minutes to hours on a cold cache: run by `./dev test --all`. VTB_PRESETS and VTB_ARCHS choose.
set -u
: "${VERTEBRA:?path of the vertebra program}"
"$VERTEBRA" dump vit_nano --stage ptx >/dev/null 2>&1 || { echo "no NVRTC: skipped"; exit 77; }
presets=${VTB_PRESETS:-$(grep -hoE '^preset [a-z0-9_]+' models/*.vtb | awk '{print $2}')}
status=0 compiled=0
for preset in $presets; do
  for train in "" --train; do
    for arch in ${VTB_ARCHS:-sm_80 sm_90a sm_100a}; do
      if ! out=$("$VERTEBRA" dump "$preset" $train --stage resources --arch "$arch" 2>&1); then
        case $out in *"training needs logits"*) continue ;; esac # features only
        echo "FAIL $preset $train $arch: $(tail -1 <<<"$out")"
        status=1
        continue
      fi
      compiled=$((compiled + 1))
      awk -v what="$preset $train $arch" '$5 ~ /^[0-9]+$/ && $5 > 0 && $2 ~ /^[0-9]+$/ {
        print "spills " $5 " bytes: " what " " $1 " " $NF }' <<<"$out"
    done
  done
done
echo "$compiled programs compiled"
exit $status
