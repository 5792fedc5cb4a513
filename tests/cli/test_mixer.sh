# A published model with a mixer of one's own: one line in a file, a setting on the command line, an axis of a study.
. tests/cli/lib.sh
cat > "$work/mine.vtb" <<'VTB'
use std.nn
use std.attention
use vil
use vit

recurrence leaky(v: [V], g: [V]) -> [V] {
  state s: [V]
  s = sigmoid(g) * s + (1 - sigmoid(g)) * v
  yield s
}
block scan_mixer(x: tokens, heads: int) {
  v, g = split(linear("vg", x, 2 * x.dim), 2)
  return ungroup(leaky(group(v, heads), group(g, heads)))
}
block attention_mixer(x: tokens, heads: int) { return self_attention(x, heads) }
block narrow(x: tokens) { return x }

preset mine = vil(mixer = scan_mixer, dim = 16, depth = 2, image = 8x8, patch = 4, in_channels = 1, classes = 4)
preset image_model = deit(mixer = scan_mixer, dim = 16, depth = 2, heads = 2, image = 8x8, patch = 4, in_channels = 1,
                          num_classes = 4)
VTB
f=$work/mine.vtb
expect 0 "$VERTEBRA" check "$f" --entry mine --params; says "layer.mixer.vg.weight"; silent_about "mlstm"
expect 0 "$VERTEBRA" verify "$f" --entry mine; says "chunkwise(1)"
expect 0 "$VERTEBRA" check "$f" --entry mine --params -D mixer=attention_mixer; says "layer.mixer.qkv.weight"; silent_about ".vg."
expect 0 "$VERTEBRA" check "$f" --entry mine --params -D mixer=none; says "mlstm_cell"
expect 0 "$VERTEBRA" check "$f" --entry image_model --params; says "blocks.0.attn.vg.weight"
expect 0 "$VERTEBRA" ablate "$f" --entry mine --vary mixer=scan_mixer,attention_mixer,none --dry-run
says "attention_mixer"

# the call and where the mixer came from
expect 1 "$VERTEBRA" check "$f" --entry mine -D mixer=narrow
says "block 'narrow' has 1 parameter"; says "'mixer' became 'narrow' here"; says "block 'narrow' is declared here"
expect 1 "$VERTEBRA" check "$f" --entry mine -D mixer=scan_mixr; says "did you mean 'scan_mixer'?"
expect 1 "$VERTEBRA" check "$f" --entry mine -D mixer=3; says "a block is needed"

# what was trained with one mixer is taken with it
small_images 32 16
expect 0 "$VERTEBRA" train "$f" --entry mine -D mixer=attention_mixer --data "$work/data" --batch 8 --updates 2 --quiet --out "$work/run"
expect 0 "$VERTEBRA" eval "$f" --weights "$work/run/weights.safetensors" --data "$work/data"
says "weights of mine, which is taken"
