# Designs of the papers' ablations that change what runs, at a tiny size: the same numbers in every form, and trained.
. tests/cli/lib.sh
same() { expect 0 "$VERTEBRA" verify "$@"; says "gradients"; silent_about "FAIL"; }
vil="-D dim=8 -D depth=2 -D heads=2 --image 12"

# ViL's three class tokens go past the convolution of the grid, along columns too.
# shellcheck disable=SC2086
same vil_nano $vil -D cls_tokens=3 -D cls_location=mid_bilateral -D pooling=cls_concat -D "paths=[col_br, hilbert]" --chunk 4

# Images that the patches do not divide: what is not read is said once.
expect 0 "$VERTEBRA" check vim_tiny --image 738
says "warning[VTB1322]: patches of 16x16 read 736x736 of the input's 738x738"
expect 0 "$VERTEBRA" check vim_tiny_stride8 --image 744; silent_about "VTB1322"
same vim_nano -D dim=8 -D depth=2 --image 11x14 --mode auto
[ "$(printf '%s' "$out$err" | grep -c VTB1322)" = 1 ] || fail "$out$err"

# Vim's bidirectional sequence: an image in two is read backwards, in training alone.
small_images 40 20
expect 0 "$VERTEBRA" train vim_nano -D dim=8 -D depth=2 -D class_token=none -D bimamba_type=none -D flip_ratio=0.5 -D classes=4 --image 8 \
  --data "$work/data" --updates 3 --batch 8 --quiet --out "$work/run"
expect 0 "$VERTEBRA" eval vim_nano -D dim=8 -D depth=2 -D class_token=none -D bimamba_type=none -D classes=4 --image 8 \
  --data "$work/data" --weights "$work/run/weights.safetensors"
says "top-1"
expect 1 "$VERTEBRA" check vim_nano -D flip_ratio=0.5; says "which a class token and rotary embedding do not follow"
