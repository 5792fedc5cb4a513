#!/usr/bin/env bash
# What a folder of Hugging Face says of images: each of its settings as ours, in the weights that `convert` writes and
# in what `build` makes, which is what C programs read.
. "$(dirname "$0")/lib.sh"
: "${MAKE_DATA:?path of make_data}" "${CHECKPOINT:?path of the checkpoint program}"
cd "$work"
cat > m.vtb <<'END'
use std.nn
model m(dim: int = 4, classes: int = 4) {
  input x: image[3, 8, 8]
  prepare(crop = 0.8, filter = bilinear, mean = 0.25, std = 0.75)
  output y = linear("head", mean(patch_embed("p", x, dim, 4x4, 4x4), axis = "tokens"), classes)
}
END
printf '%s\n' "p.weight 4 3 4 4" "p.bias 4" "head.weight 4 4" "head.bias 4" > shapes.txt
mkdir hf
"$CHECKPOINT" make shapes.txt hf/model.safetensors safetensors || fail "no weights"

# as PREPROCESSOR [CONFIG]: the folder, as `prepare` of the converted weights; "" if it says nothing
as() {
  printf '%s' "$1" > hf/preprocessor_config.json
  rm -f hf/config.json
  [ $# -eq 1 ] || printf '%s' "$2" > hf/config.json
  expect 0 "$VERTEBRA" convert hf own.safetensors --model m.vtb
  expect 0 "$VERTEBRA" weights own.safetensors
  prepare=$(sed -n 's/^ *prepare  *//p' "$work/out")
}
is() { [ "$prepare" = "$1" ] || fail "prepare is '$prepare', want '$1'"; }

# sizes: one number and a height with a width are both sides, an edge is the short one
as '{"size": 224}'; is '{"crop": 1, "resize": "squash"}'
as '{"size": {"height": 224, "width": 224}}'; is '{"crop": 1, "resize": "squash"}'
as '{"size": {"shortest_edge": 224}}'; is '{"crop": 1, "resize": "crop"}'
as '{"size": {"shortest_edge": 256}, "crop_size": {"height": 224, "width": 224}}'; is '{"crop": 0.875, "resize": "crop"}'
as '{"size": {"shortest_edge": 256}, "crop_size": 224, "do_center_crop": true}'; is '{"crop": 0.875, "resize": "crop"}'
as '{"size": {"height": 256, "width": 256}, "crop_size": {"height": 224, "width": 224}}'; is '{"crop": 0.875, "resize": "squash"}'
as '{"size": {"shortest_edge": 256}, "crop_size": 224, "do_center_crop": false}'; is '{"crop": 1, "resize": "crop"}'
as '{"size": {"shortest_edge": 224}, "crop_pct": 0.875}'; is '{"crop": 0.875, "resize": "crop"}'
as '{"size": 224, "do_resize": false}'; is ''

# filters, by Pillow's numbers
n=0
for filter in nearest lanczos bilinear bicubic box hamming; do
  as "{\"resample\": $n}"; is "{\"filter\": \"$filter\"}"
  n=$((n + 1))
done
as '{"resample": 6}'; is ''

# numbers: from 0 to 1 if they are scaled, of 0 to 255 if not
as '{"image_mean": [0.5, 0.5, 0.5], "image_std": [0.25, 0.5, 1]}'; is '{"mean": [0.5, 0.5, 0.5], "std": [0.25, 0.5, 1]}'
as '{"image_mean": 0.5, "image_std": [0.25]}'; is '{"mean": [0.5, 0.5, 0.5], "std": [0.25, 0.25, 0.25]}'
as '{"image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5], "rescale_factor": 0.00392156862745098}'
is '{"mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5]}'
as '{"image_mean": [127.5, 127.5, 127.5], "image_std": [51, 51, 51], "do_rescale": false}'
is '{"mean": [0.5, 0.5, 0.5], "std": [0.2, 0.2, 0.2]}'
as '{"image_mean": [0.5, 0.5, 0.5], "do_normalize": false}'; is '{"mean": [0, 0, 0], "std": [1, 1, 1]}'

# timm's own file; what stands beside it holds over it
timm='{"pretrained_cfg": {"crop_pct": 0.9, "crop_mode": "squash", "interpolation": "bicubic", "mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5]}}'
as '{}' "$timm"; is '{"crop": 0.9, "resize": "squash", "filter": "bicubic", "mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5]}'
as '{"resample": 2}' "$timm"; is '{"crop": 0.9, "resize": "squash", "filter": "bilinear", "mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5]}'

# what is no such file
printf '[1' > hf/preprocessor_config.json
rm hf/config.json
expect 1 "$VERTEBRA" convert hf no.safetensors --model m.vtb
says "preprocessor_config.json beside the weights is no JSON object"
printf '{"image_std": [0, 0, 0]}' > hf/preprocessor_config.json
expect 1 "$VERTEBRA" convert hf no.safetensors --model m.vtb
says "std has 0"
[ ! -e no.safetensors ] || fail "a refused folder left a file"

# the built file has it, over the model's own, and prepares images as the folder does and as options would
printf '{"size": {"shortest_edge": 10}, "crop_size": 8, "resample": 3, "image_mean": [0.5, 0.5, 0.5]}' > hf/preprocessor_config.json
"$MAKE_DATA" classes photos/train 1 red || fail "no image"
image=photos/train/red/000.png
expect 0 "$VERTEBRA" build m.vtb --weights hf -o m.so
expect 0 "$VERTEBRA" check m.so
says '{"crop": 0.8, "resize": "crop", "filter": "bicubic", "mean": [0.5, 0.5, 0.5], "std": [0.75, 0.75, 0.75]}'
expect 0 "$VERTEBRA" run m.vtb --weights hf -o a.safetensors "$image"
expect 0 "$VERTEBRA" run m.so -o b.safetensors "$image"
expect 0 "$VERTEBRA" run m.vtb --weights hf/model.safetensors --filter bicubic --mean 0.5 -o c.safetensors "$image"
cmp a.safetensors b.safetensors || fail "the built file prepares otherwise"
cmp a.safetensors c.safetensors || fail "options say otherwise"
expect 0 "$VERTEBRA" run m.vtb --weights hf/model.safetensors -o d.safetensors "$image"
cmp -s a.safetensors d.safetensors && fail "the folder changed nothing"
echo ok

# What shapes do not show of a config: its heads and epsilon are taken, another activation is an error.
{
  echo "vit.embeddings.cls_token 1 1 32"; echo "vit.embeddings.position_embeddings 1 50 32"
  echo "vit.embeddings.patch_embeddings.projection.weight 32 1 4 4"; echo "vit.embeddings.patch_embeddings.projection.bias 32"
  layer=vit.encoder.layer.0
  for part in query key value; do
    echo "$layer.attention.attention.$part.weight 32 32"; echo "$layer.attention.attention.$part.bias 32"
  done
  echo "$layer.attention.output.dense.weight 32 32"; echo "$layer.attention.output.dense.bias 32"
  echo "$layer.intermediate.dense.weight 128 32"; echo "$layer.intermediate.dense.bias 128"
  echo "$layer.output.dense.weight 32 128"; echo "$layer.output.dense.bias 32"
  for part in layernorm_before layernorm_after; do echo "$layer.$part.weight 32"; echo "$layer.$part.bias 32"; done
  echo "vit.layernorm.weight 32"; echo "vit.layernorm.bias 32"; echo "classifier.weight 10 32"; echo "classifier.bias 10"
} > vit.txt
mkdir vit
"$CHECKPOINT" make vit.txt vit/model.safetensors safetensors || fail "no weights"
model="vit_nano -D depth=1 -D dim=32"
vit() { # CONFIG STATUS OPTIONS...
  printf '%s' "$1" > vit/config.json
  expect "$2" "$VERTEBRA" build $model "${@:3}" --weights vit -o vit.so
}
vit '{"num_attention_heads": 4, "hidden_act": "gelu", "layer_norm_eps": 1e-6}' 0; silent_about "config.json says"
vit '{"num_attention_heads": 8}' 0; says "config.json says num_attention_heads 8: -D heads=8 is taken"
vit '{"num_attention_heads": 8}' 0 -D heads=8; silent_about "config.json says"
vit '{"num_attention_heads": 8}' 0 -D heads=2; says "config.json says num_attention_heads 8; -D heads is not that"
vit '{"hidden_act": "relu"}' 1; says "config.json says hidden_act relu; the model has gelu"
vit '{"layer_norm_eps": 1e-12}' 0 -D norm_eps=1e-12; silent_about "config.json says"
vit '{"layer_norm_eps": 1e-12}' 0 -D norm_eps=1e-3; says "config.json says layer_norm_eps 1e-12; -D norm_eps is not that"
vit '{"layer_norm_eps": 0.01, "num_attention_heads": 8}' 0
says "config.json says layer_norm_eps 0.01: -D norm_eps=0.01 is taken"; says "-D heads=8 is taken"
"$MAKE_DATA" classes grey/train 1 red || fail "no image"
scores() { expect 0 "$VERTEBRA" run "$@" -o scores.safetensors grey/train/red/000.png; }
scores vit.so; built=$(sha256sum < scores.safetensors)
scores $model --weights vit; [ "$built" = "$(sha256sum < scores.safetensors)" ] || fail "run and build take other settings"
scores $model --weights vit/model.safetensors -D norm_eps=0.01 -D heads=8
[ "$built" = "$(sha256sum < scores.safetensors)" ] || fail "the config's numbers are not those of -D"
scores $model --weights vit/model.safetensors; [ "$built" != "$(sha256sum < scores.safetensors)" ] || fail "they change nothing"
expect 0 "$VERTEBRA" convert vit own.safetensors --model vit_nano -D depth=1 -D dim=32; says "is taken"
scores $model --weights own.safetensors; [ "$built" = "$(sha256sum < scores.safetensors)" ] || fail "convert lost them"

# its names of the classes: of transformers, of timm; none where there are none
vit '{"id2label": {"1": "goldfish", "0": "tench", "2": "c", "3": "d", "4": "e", "5": "f", "6": "g", "7": "h", "8": "i", "9": "j"}}' 0
expect 0 "$VERTEBRA" run vit.so --top 10 grey/train/red/000.png; says "goldfish"; silent_about "class "
expect 0 "$VERTEBRA" run $model --weights vit --top 10 grey/train/red/000.png; says "tench"
vit '{"label_names": ["n0", "n1", "n2", "n3", "n4", "n5", "n6", "n7", "n8", "n9"]}' 0
expect 0 "$VERTEBRA" run $model --weights vit --top 10 grey/train/red/000.png; says "n9"
vit '{"id2label": {"0": "LABEL_0", "1": "LABEL_1"}}' 0
expect 0 "$VERTEBRA" run $model --weights vit grey/train/red/000.png; silent_about "LABEL_"; says "class "

# weights of another model of the same shapes say so
vit '{"architecture": "deit_nano_patch4_28"}' 0; says "made for deit_nano_patch4_28, as its metadata say, and used as vit_nano"
vit '{"architecture": "vit_nano_patch4_28.some_tag"}' 0; silent_about "made for"
vit '{"architecture": "somebodys"}' 0; silent_about "made for"
