# An image of any height in the memory of a strip: run, build, bench and dump say what was decided, give the numbers of
# the whole image, and refuse what reads later tokens with its place.
. tests/cli/lib.sh
: "${MAKE_DATA:?path of make_data}"
"$MAKE_DATA" classes "$work/images" 2 red green
image=$(find "$work/images" -type f \( -name '*.png' -o -name '*.jpg' \) | head -1)
set_=(vir_nano --image 168x28)

# the same classes, and what it saves
expect 0 "$VERTEBRA" run "${set_[@]}" "$image"; whole=$out; silent_about "strips"
expect 0 "$VERTEBRA" run "${set_[@]}" "$image" --strips; says "2 strips of 21 rows of patches: workspace"; says " instead of "
[ "$out" = "$whole" ] || fail "strips give $out, the whole $whole"
expect 0 "$VERTEBRA" run "${set_[@]}" --strips 3 "$image"; says "14 strips of 3 rows of patches: workspace"
[ "$out" = "$whole" ] || fail "strips of 3 rows give $out, the whole $whole"
expect 0 "$VERTEBRA" run "${set_[@]}" --strips=4 "$image"; says "10 strips of 4 rows of patches and 2 rows: workspace"
expect 0 "$VERTEBRA" bench "${set_[@]}" --seconds 0 --strips 3; says "14 strips of 3 rows"

# memory does not grow with the height
plan() { expect 0 "$VERTEBRA" dump vir_base --stage plan --image "$@"; out=$(grep "peak workspace" <<<"$out"); }
plan 512 --strips; small=$out
plan 2048 --strips; [ "$out" = "$small" ] || fail "512 px: $small, 2048 px: $out"
plan 2048; [ "$out" = "peak workspace: 576.03 MiB" ] || fail "2048 px whole: $out"

# a built file
expect 0 "$VERTEBRA" build "${set_[@]}" --stream 3 --batch =1 -o "$work/nano.so"; says "14 strips of 3 rows"
expect 0 "$VERTEBRA" run "$work/nano.so" "$image"; [ "$out" = "$whole" ] || fail "the file gives $out, the model $whole"
expect 2 "$VERTEBRA" run "$work/nano.so" "$image" --strips; says "is compiled already: vertebra build --stream"

# what has no strips
expect 1 "$VERTEBRA" run vil_nano "$image" --strips
says "VTB3007"; says "from the last one on, so that there are no strips"; says "blocks.0.rowwise_from_bot_right"
expect 1 "$VERTEBRA" build vit_nano --stream -o "$work/vit.so"; says "attention reads tokens that come later"
expect 2 "$VERTEBRA" run vir_nano "$image" --strips 0; says "--strips takes a whole number from 1"
expect 2 "$VERTEBRA" bench vir_nano --train --strips; says "--strips is for inference"
expect 0 "$VERTEBRA" explain VTB3007; says "model that cannot run in strips"
