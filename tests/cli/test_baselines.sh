# Backbones to compare with: sizes as published, every mode equal to the interpreter, weights of their authors by name.
. tests/cli/lib.sh

# MODEL PARAMETERS MILLIONS: what check counts, and what the papers say; scaled, rounded to as many digits
published() {
  expect 0 "$VERTEBRA" check "$1"
  [ "$(sed -n 's/^  parameters *\([0-9,]*\).*/\1/p' "$work/out" | tr -d ,)" = "$2" ] || fail "$1: not $2 parameters"
  [ "$(awk -v n="$2" -v said="$3" 'BEGIN {
    printf index(said, ".") ? "%.1f" : "%.0f", n / 1e6 }')" = "$3" ] || fail "$1: $2 parameters are not $3 million"
}
published convnext_tiny 28589128 29
published convnext_small 50223688 50
published convnext_base 88591464 89
published convnext_isotropic_small 22308712 22
published convnext_isotropic_base 87083752 87
published convnext_isotropic_large 305942504 306
published swin_tiny 28288354 28.3
published swin_small 49606258 49.6
published swin_base 87768224 87.8
published vrwkv_tiny 6155176 6.2
published vrwkv_small 23810920 23.8
published vrwkv_base 93645544 93.6  # 93.7 in the paper
published vrwkv_large 334881768 334.9
published mambar_tiny 9264232 9
published mambar_small 27801064 28
published mambar_base 99301096 99
published mambar_large 341222376 341

agrees() {
  expect 0 "$VERTEBRA" verify "$@"; says "gradients"
  case "$out" in *FAIL*|*differs*) fail "$*" ;; esac
}
agrees convnext_nano -D 'depths=[1, 1]' -D 'dims=[6, 8]' --image 12x8
agrees convnext_isotropic_nano -D depth=1 -D dim=8 --image 12x8
agrees swin_nano -D 'depths=[2, 2]' -D 'dims=[8, 12]' -D 'heads=[2, 3]' -D window=3 --image 16x20
agrees vrwkv_nano -D depth=1 -D dim=8 -D post_norm=true -D key_norm=true -D scale_init=0.5 --image 12x8
agrees mambar_nano -D depth=2 -D dim=8 -D registers=2 --image 12x8

# The numbers of each parameter are a hash of its name: a checkpoint under the authors' names, with the same numbers, is
# known by whose it is. NAMES: a script that makes their names of the model's.
by_name() { # MODEL NAMES WHOSE COUNT
  "$VERTEBRA" check "$1" --json | tr -d '\n\t' | grep -o '"name":"[^"]*","shape":\[[^]]*\]' |
    sed 's/"name":"\([^"]*\)","shape":\[\(.*\)\]/\1 \2/; s/, */ /g' | sed -E "$2" > "$work/names"
  expect 0 "$CHECKPOINT" make "$work/names" "$work/w.safetensors" safetensors
  expect 0 "$VERTEBRA" run "$1" --weights "$work/w.safetensors" tests/timm/stored/p07.png
  says "loaded $4 of $4 tensors, names of $3"
}
swin='s/^head\.fc/head/; s/^layers\.1\.downsample/layers.0.downsample/; /norm1.bias/{p; s/norm1.bias/attn.relative_position_index/}'
by_name swin_nano "$swin" "the authors" 63
by_name convnext_nano 's/^stem/downsample_layers.0/; s/^stages\.(.)\.downsample/downsample_layers.\1/; s/\.blocks\./\./
  s/conv_dw/dwconv/; s/mlp\.fc/pwconv/; s/^head\.fc/head/; s/^head\.norm/norm/' "the authors" 48
by_name convnext_isotropic_nano 's/conv_dw/dwconv/; s/mlp\.fc/pwconv/' "the authors, isotropic" 54
by_name vrwkv_nano 's/^head/head.fc/; t; s/^/backbone./' "the authors" 81
