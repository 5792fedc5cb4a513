# A model as a picture: what repeats is folded, blocks are drawn once, kernels have kinds, tensors shapes.
. tests/cli/lib.sh
graph() { expect 0 "$VERTEBRA" graph "$@"; }
boxes() { printf '%s\n' "$out" | grep -c "<B>$1</B>"; }

graph vil_nano; first=$out
says '<B>vil_block</B>  <B>× 6</B>'; says 'blocks.0–2'; says 'recurrence: parallel; rows, rows~'; says '196 k parameters, 11.1 M MACs'
says 'conv 4×4 stride 4, 1 → 64'; says 'linear 64 → 256'; says 'running maximum'; says 'decay: scalar'; says '[B, 49, 64]'; says 'one kernel'
says 'label="mlstm_cell"'
[ "$(boxes vil_block)" = 2 ] || fail "one box and one block, not $(boxes vil_block)"
graph vil_nano; [ "$first" = "$out" ] || fail "two pictures of one model differ"
graph vil_nano --chunk 16 -D paths=uni; says 'chunkwise, chunks of 16; rows<'
graph vil_nano --no-fold --depth 0; silent_about '× 6'; [ "$(boxes vil_block)" = 6 ] || fail "not six boxes"
silent_about 'cluster_part1'
graph vil_nano --stage graph; says 'what one module computes'; says 'normalise'
graph vil_nano --train --depth 0; says 'vil_block_bwd'; says '<B>vil_block_fwd</B>  <B>× 6</B>'; says 'gradients of 135'
# a pyramid: two kinds of blocks take turns; a model with a skip has none that repeat
graph twins_svt_small; says 'label=<<B>× 4</B>>'; says 'attention, 32 heads of 32'; says 'depthwise conv 3×3'; says 'C</B></FONT>  <B>pyramid_block'
graph models/examples/unet_segment.vtb; silent_about '× 2</B>'; says 'along snake~'
# the norm of a kernel that other places share too has the name that it has here
graph hybrid_vir_small; printf '%s\n' "$out" | sed -n '/cluster_part1/,$p' | grep -q 'levels.2.downsample' && fail "another place's name in a block"

graph vil_nano --json; json format dot
graph vil_nano -o "$work/a.dot"; [ "$(cat "$work/a.dot")" = "$first" ] || fail "the file is not what is printed"
expect 2 "$VERTEBRA" graph vil_nano -o "$work/a.gif"; says "writes .svg, .png, .pdf or .dot, which"
expect 2 "$VERTEBRA" graph vil_nano --stage plan; says "--stage is fused or graph"
expect 1 "$VERTEBRA" graph vil_nno; says "did you mean 'vil_nano'?"
expect 1 "$VERTEBRA" graph vil_nano -o "$work/none/a.dot"; says "none/a.dot"

got=0; "$VERTEBRA" graph vil_nano -o "$work/a.svg" 2>"$work/err" || got=$?
if [ $got != 0 ]; then # no graphviz here
  grep -q "libgvc6" "$work/err" && [ ! -e "$work/a.svg" ] || fail "$(cat "$work/err")"
  exit 0
fi
svg=$(cat "$work/a.svg")
[ "${#svg}" -lt 100000 ] || fail "${#svg} characters"
for text in '<svg ' 'role="img"><title>vil_nano as a graph' '>vil_block</text>' '>linear recurrence</text>' '[B, 49, 128]</text>' 'fill="white"'; do
  case "$svg" in *"$text"*) ;; *) fail "no $text in the drawing" ;; esac
done
graph vil_nano --depth 0 -o "$work/a.png"; [ "$(head -c 4 "$work/a.png" | tail -c 3)" = PNG ] || fail "no PNG"
graph vil_nano --depth 0 -o "$work/a.pdf"; [ "$(head -c 4 "$work/a.pdf")" = %PDF ] || fail "no PDF"
