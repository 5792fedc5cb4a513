# Designs of VisionLLaMA's ablations that change what runs: their parameters by name, the same numbers as the interpreter's.
. tests/cli/lib.sh

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
