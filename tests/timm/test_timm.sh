#!/usr/bin/env bash
# Checkpoints as timm's users have them, in every wrapping, by name; scores of 20 pictures with timm's own transform as
# stored by make_timm.py. Arguments: models (default: the quick ones), or "all".
set -u
here=$(dirname "$0")
. "$here/../cli/lib.sh"
: "${CHECKPOINT:?path of the checkpoint program}"

# scores MODEL FILE PICTURE...: within 1e-4 of what is stored, the same class first
scores() {
  local model=$1 file=$2
  shift 2
  expect 0 "$VERTEBRA" run "$model" --weights "$file" "$@" -o "$work/got.safetensors"
  cp "$work/err" "$work/said"
  "$CHECKPOINT" compare "$work/got.safetensors" "$here/stored/$model.safetensors" 1e-4 > "$work/compared" ||
    fail "$model, $file: $(cat "$work/compared")"
  echo "$model $(basename "$file"): $(cat "$work/compared")"
}

pictures=("$here"/stored/p*.*)
models=("$@")
quick=(deit_tiny_patch16_224 deit3_small_patch16_224 twins_svt_small swin_tiny_patch4_window7_224 convnext_tiny)
[ ${#models[@]} = 0 ] && models=("${quick[@]}")
[ "${models[0]}" = all ] && models=("${quick[@]}" vit_base_patch16_224)
for model in "${models[@]}"; do
  file=$work/$model.safetensors
  "$CHECKPOINT" make "$here/stored/$model.txt" "$file" safetensors || fail "no checkpoint"
  case $model in  # the pictures are all read by one model, and so are the wrappings
    deit_tiny_*) scores "$model" "$file" "${pictures[@]}"; forms="plain module model averaged trained" ;;
    *) scores "$model" "$file" "${pictures[@]:0:2}"; forms= ;;
  esac
  for form in $forms; do
    "$CHECKPOINT" make "$here/stored/$model.txt" "$work/$form.pth" "$form" || fail "no checkpoint"
    VTB_OPTIMISE=off scores "$model" "$work/$form.pth" "${pictures[@]:0:1}"
    rm "$work/$form.pth"
  done
  rm "$file"
done
echo ok
