#!/usr/bin/env bash
# full.sh PART: cases of the collection that VTB_GOLDEN names, each in the mode the compiler picks, or in every mode and
# several chunk sizes with VTB_GOLDEN_MODES=all (the small set beside this file always runs in all). PART is a family,
# "mae" (masked pre-training) or "heads" (interpolation). VTB_GOLDEN_TARGET names another target than the CPU.
set -u
part=$1
[ -n "${VTB_GOLDEN:-}" ] && [ -d "$VTB_GOLDEN" ] || { echo "VTB_GOLDEN is not set: skipped"; exit 77; }
options=()
[ "${VTB_GOLDEN_MODES:-}" = all ] && options=(--modes all)
[ -n "${VTB_GOLDEN_TARGET:-}" ] && options+=(--target "$VTB_GOLDEN_TARGET")
case $part in
heads) options=(); cases=("$VTB_GOLDEN"/heads/cell_{adaptive,bilinear,nearest,posembed}_*.safetensors) ;;
mae) options+=(--model "${0%/*}/mae/mae.vtb"); cases=("$VTB_GOLDEN"/*/mae_*_pretrain.safetensors) ;;
vit | vllama) # other entries (generation) are still to come
  cases=()
  for case in "$VTB_GOLDEN/$part"/*.safetensors; do
    case $(head -c 1000000 "$case" | grep -a -o -m 1 '"entry": *"[a-z0-9_]*"') in
    *'"mae_'* | *'"dit'* | *'"sit'*) ;;
    *) cases+=("$case") ;;
    esac
  done ;;
*) cases=("$VTB_GOLDEN/$part"/*.safetensors) ;;
esac
exec "$VERTEBRA" verify --map "${0%/*}/cases.map" "${options[@]}" "${cases[@]}"
