# Every row of VisionLLaMA's ablations is a setting: it checks, has the parameters that follow from it, and agrees with the
# interpreter; presets meet the paper's sizes.
. tests/cli/lib.sh

# PARAMETERS MODEL SETTING...
row() {
  local want=$1 model=$2 setting words=() got
  shift 2
  for setting in "$@"; do words+=(-D "$setting"); done
  expect 0 "$VERTEBRA" check "$model" "${words[@]}"
  got=$(sed -n 's/^  parameters *\([0-9,]*\).*/\1/p' "$work/out" | tr -d ,)
  [ "$got" = "$want" ] || fail "$model $*: $got parameters, want $want"
}
# Table 7, at the size of VisionLLaMA-S: perceptron, norm, part of the channels that turns, base, heads, class token.
row 21961192 visionllama_small
row 21984232 visionllama_small mlp=gelu
row 21951592 visionllama_small norm=rmsnorm
for setting in rope_ratio=0.25 rope_ratio=0.5 rope_base=100 rope_base=100000 rope_shared_across_heads=false; do
  row 21961192 visionllama_small $setting
done
row 21960808 visionllama_small class_token=false
# Positions: learned ones beside rotation and instead of it, and a depthwise convolution.
row 22036840 visionllama_small abs_pos_embed=learned
row 22036840 visionllama_small abs_pos_embed=learned rope_kind=none
row 24035432 visionllama_pyramid_small_paper
row 24411752 visionllama_pyramid_small_paper abs_pos_embed=learned
row 24045032 visionllama_pyramid_small_paper peg=true
# Table 12: along the sequence, with and without a class token and on the pyramid; on the grid as it is or scaled.
row 21961192 visionllama_small rope_kind=sequence
row 21960808 visionllama_small rope_kind=sequence class_token=false pool=norm_then_mean
row 24035432 visionllama_pyramid_small_paper rope_kind=sequence
row 24035432 visionllama_pyramid_small_paper rope_scaled=false image=512x512 table_image=224x224
# Sizes: 24, 56 and 99 million; the encoder of masked pre-training 85.7.
row 56029480 visionllama_pyramid_base_paper
row 99229928 visionllama_pyramid_large_paper
row 85658880 visionllama_finetune_base

# The last stage has windows in the release alone.
expect 0 "$VERTEBRA" check visionllama_pyramid_small --params; says "blocks.3.2.attn.qkv.weight"; says "blocks.3.3.attn.kv.weight"
expect 0 "$VERTEBRA" check visionllama_pyramid_small_paper --params
says "blocks.2.2.attn.qkv.weight"; says "blocks.3.2.attn.kv.weight"; silent_about "blocks.3.2.attn.qkv"

agrees() {
  local model=$1
  shift
  expect 0 "$VERTEBRA" verify "$model" "$@"; says "gradients"
}
agrees vllama_nano -D depth=1 -D dim=16 -D heads=2 --image 12x16 -D rope_kind=sequence
agrees vllama_pyramid_nano -D 'dims=[8, 16]' -D 'heads=[2, 2]' -D 'window_sizes=[3, 2]' --image 16x24 -D rope_kind=sequence \
  -D 'global_stages=[1]' -D abs_pos_embed=learned -D table_image=8x16
