#!/usr/bin/env bash
# Every case of the collection that VTB_GOLDEN names, for the families whose models exist: each in the mode the compiler
# picks, or in every mode and several chunk sizes with VTB_GOLDEN_MODES=all (half an hour; the small set beside this
# file always runs in all). VTB_GOLDEN_TARGET names another target than the CPU.
set -u
[ -n "${VTB_GOLDEN:-}" ] && [ -d "$VTB_GOLDEN" ] || { echo "VTB_GOLDEN is not set: skipped"; exit 77; }
status=0
modes=()
[ "${VTB_GOLDEN_MODES:-}" = all ] && modes=(--modes all)
[ -n "${VTB_GOLDEN_TARGET:-}" ] && modes+=(--target "$VTB_GOLDEN_TARGET")
for family in vil vir vim delta; do
  echo "== $family"
  "$VERTEBRA" verify "${modes[@]}" "$VTB_GOLDEN/$family"/*.safetensors || status=1
done
echo "== mae: masked pre-training"
"$VERTEBRA" verify "${modes[@]}" --model "${0%/*}/mae/mae.vtb" "$VTB_GOLDEN"/*/mae_*_pretrain.safetensors || status=1
# Families whose other entries (generation) are still to come.
for family in vit vllama; do
  echo "== $family"
  cases=()
  for case in "$VTB_GOLDEN/$family"/*.safetensors; do
    case $(head -c 1000000 "$case" | grep -a -o -m 1 '"entry": *"[a-z0-9_]*"') in
    *'"mae_'* | *'"dit'* | *'"sit'*) ;;
    *) cases+=("$case") ;;
    esac
  done
  "$VERTEBRA" verify "${modes[@]}" "${cases[@]}" || status=1
done
echo "== heads: interpolation"
"$VERTEBRA" verify "$VTB_GOLDEN"/heads/cell_{adaptive,bilinear,nearest,posembed}_*.safetensors || status=1
exit $status
