# Published parameter counts and multiply-adds of the retention and state space models; ViR's authors leave out the
# retention itself.
. tests/cli/lib.sh
size() {
  expect 0 "$VERTEBRA" check "$1"
  says "parameters   $2 "
  [ -z "${3:-}" ] || says "; $3 GMACs"
  [ -z "${4:-}" ] || says ", $4 without"
}
size vir_small_patch16_224 22,059,496 "" 4.24
size vir_base_patch16_224 86,585,320 "" 16.85
size vir_base_patch16_224_gap 86,584,552
size vir_base_patch32_224 88,241,896 "" 4.36
size vir_large_patch14_224 304,251,880 "" 77.77
size vir_large_patch14_448 305,038,312 "" 310.16
size hybrid_vir_small_224 31,238,824 "" 3.32
size hybrid_vir_base_224 75,739,752 "" 8.91
size vim_tiny_patch16_224 7,148,008 1.50
size vim_small_patch16_224 25,796,584 5.26
size vim_base_patch16_224 97,598,440
size vim_small_patch16_stride8_224 26,001,256
size hier_vim_tiny_224 29,967,183
size hier_vim_small_224 50,451,273
size hier_vim_base_224 88,544,192
expect 0 "$VERTEBRA" check hier_vim_base_224 -D mlp_ratio=4; says "95,997,544 "
expect 0 "$VERTEBRA" check hier_vim_base_224 -D mlp_ratio=0; says "46,378,856 "
