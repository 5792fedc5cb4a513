# Published parameter counts, and multiply-adds, of the vision transformers and VisionLLaMAs.
. tests/cli/lib.sh
size() { expect 0 "$VERTEBRA" check "$1"; says "parameters   $2 "; [ -z "${3:-}" ] || says "; $3 GMACs"; }
size deit_tiny_patch16_224 5,717,416 1.25
size deit_small_patch16_224 22,050,664 4.60
size deit_base_patch16_224 86,567,656 17.56
size deit_base_patch16_384 86,859,496 55.48
size deit_tiny_distilled 5,910,800
size deit_small_distilled 22,436,432
size deit_base_distilled 87,338,192
size deit_small_gap 22,049,896
size deit3_tiny 5,721,832
size deit3_small 22,059,496
size deit3_medium 38,849,512 7.99
size deit3_base 86,585,320 17.56
size deit3_large 304,374,760 61.55
size deit3_huge 632,126,440 167.30
size vit_small 22,050,664
size visionllama_small 21,961,192 4.60
size visionllama_base 86,388,712 17.56
size visionllama_large 310,342,632 62.79
size visionllama_pyramid_small 25,903,976 3.31
expect 0 "$VERTEBRA" check visionllama_pyramid_small -D layer_scale=false; says "25,893,992 "
size visionllama_pyramid_base 56,029,480 8.56
size visionllama_pyramid_large 104,721,128 16.57
size twins_svt_small 24,060,776 2.93
size twins_svt_base 56,070,952 8.56
size twins_svt_large 99,271,400 15.11
# without the rounding of the release: the paper's numbers
expect 0 "$VERTEBRA" check visionllama_pyramid_small -D mlp_hidden_multiple_of=2; says "24,035,432 "; says "; 2.92 GMACs"
expect 0 "$VERTEBRA" check visionllama_pyramid_large -D mlp_hidden_multiple_of=2; says "99,229,928 "; says "; 15.11 GMACs"
