# Published sizes: parameter counts, the papers' FLOPs, the block once with its repeat count.
. tests/cli/lib.sh
expect 0 "$VERTEBRA" check vil_tiny; says "6,391,528"; says "1.27 GMACs"; says "12 x"
expect 0 "$VERTEBRA" check vil_small; says "23,398,696"; says "4.68 GMACs"
expect 0 "$VERTEBRA" check vil_base_patch16_224; says "89,263,528"; says "17.91 GMACs"
expect 0 "$VERTEBRA" check vil_tiny --image 512; says "6.64 GMACs"
expect 0 "$VERTEBRA" check vil_tiny --json; says '"parameters":'
expect 0 "$VERTEBRA" check vil_tiny --params; says "blocks.0.rowwise_from_top_left.layer.proj_up.weight"
expect 1 "$VERTEBRA" check vil_tiny -D dpeth=3; says "depth"
expect 1 "$VERTEBRA" check vil_tiny -D dim=191; says "error[VTB"
