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

# Vim's bidirectional sequence: images are read backwards in training, by chance. A chance of 1 is what flip_sequence does.
vim="vim_nano -D dim=8 -D depth=2 -D class_token=none -D bimamba_type=none"
data="--data fashion-mnist --limit 64 --val-fraction 0 --updates 6 --batch 16 --lr 1e-2 --warmup-updates 1"
losses=
loss() { # SETTING
  # shellcheck disable=SC2086
  expect 0 "$VERTEBRA" train $vim -D "$1" $data --quiet --json --out "$work/$1"
  losses="$losses $(printf '%s' "$out" | "$JSON_GET" loss | cut -c1-8)"
}
loss flip_ratio=0.0; loss flip_ratio=1.0; loss flip_sequence=true
# shellcheck disable=SC2086
set -- $losses
[ $# = 3 ] && [ "$1" != "$2" ] && [ "$2" = "$3" ] || fail "losses$losses"
# In evaluation nothing is turned.
for ratio in 0.0 1.0; do "$VERTEBRA" dump $vim -D flip_ratio=$ratio >"$work/dump$ratio" || fail "no dump"; done
cmp "$work/dump0.0" "$work/dump1.0" || fail "evaluation turns images"
expect 1 "$VERTEBRA" check vim_nano -D flip_ratio=0.5; says "which a class token and rotary embedding do not follow"
