# vertebra-run: what `vertebra run` gives, by the runtime alone.
. tests/cli/lib.sh
runner=$(dirname "$VERTEBRA")/vertebra-run
images=(tests/fuzz/corpus/image/rgb.png tests/runtime/images/turned6.jpg)
small_images 16 8
small=(vil_nano -D depth=1 -D dim=16 --image 8)
expect 0 "$VERTEBRA" train "${small[@]}" --data "$work/data" --batch 8 --max-steps 2 --quiet --out "$work/run"
weights=$work/run/weights.safetensors
expect 0 "$VERTEBRA" build "${small[@]}" --weights "$weights" --batch 2 -o "$work/model.so"
expect 0 "$VERTEBRA" build "${small[@]}" -D classes=4 -o "$work/bare.so"

# three images, of which the last stands alone in its run
expect 0 "$VERTEBRA" run "$work/model.so" "${images[@]}" "${images[0]}"; want=$out
expect 0 "$runner" "$work/model.so" "${images[@]}" "${images[0]}"
[ "$out" = "$want" ] || fail "vertebra-run gives $out, not $want"
expect 0 "$runner" --top 1 --threads 1 "$work/model.so" "${images[0]}"; [ "$(wc -l <<<"$out")" = 2 ] || fail "not one class: $out"
expect 0 "$runner" "$work/model.so"; says "inference, batch 2: cpu"; says "output   y [2, 4]"

# an image that cannot be read has its place, and the others their results
expect 1 "$runner" "$work/model.so" "${images[0]}" "$work/absent.png" "${images[1]}"
[ "$(grep -nE 'png$|jpg$' <<<"$out" | sed 's/:.*//' | tr '\n' ' ')" = "1 5 7 " ] || fail "order: $out"
[ "$(sed -n 6p <<<"$out" | grep -c '  not classified: .*absent.png')" = 1 ] || fail "no reason: $out"
expect 1 "$runner" "$work/model.so" "$(printf 'a\033[2Jb')"; case $out$err in *$'\033'*) fail "an escape sequence" ;; esac

# Weights of any tool into a file that was built without: what the command makes of them.
: "${CHECKPOINT:?path of the checkpoint program}"
hf() { # GRID^2+1 CLASSES: tensors of a ViT as Hugging Face names and splits them
  echo "vit.embeddings.cls_token 1 1 16"; echo "vit.embeddings.position_embeddings 1 $1 16"
  echo "vit.embeddings.patch_embeddings.projection.weight 16 1 4 4"; echo "vit.embeddings.patch_embeddings.projection.bias 16"
  local layer=vit.encoder.layer.0 part
  for part in attention.attention.query attention.attention.key attention.attention.value attention.output.dense; do
    echo "$layer.$part.weight 16 16"; echo "$layer.$part.bias 16"
  done
  echo "$layer.intermediate.dense.weight 64 16"; echo "$layer.intermediate.dense.bias 64"
  echo "$layer.output.dense.weight 16 64"; echo "$layer.output.dense.bias 16"
  for part in $layer.layernorm_before $layer.layernorm_after vit.layernorm; do echo "$part.weight 16"; echo "$part.bias 16"; done
  [ -z "$2" ] || { echo "classifier.weight $2 16"; echo "classifier.bias $2"; }
}
mkdir "$work/folder"
hf 5 10 > "$work/names.txt"
for form in plain module averaged; do "$CHECKPOINT" make "$work/names.txt" "$work/$form.pth" $form || fail "no $form"; done
"$CHECKPOINT" make "$work/names.txt" "$work/folder/model.safetensors" safetensors || fail "no folder"
printf '{"size": 8, "image_mean": 0.25, "image_std": 0.75}' > "$work/folder/preprocessor_config.json"
printf '{"id2label": {%s "9": "last"}}' "$(for i in 0 1 2 3 4 5 6 7 8; do printf '"%s": "name %s", ' $i $i; done)" > "$work/folder/config.json"
vit=(vit_nano -D depth=1 -D dim=16 -D heads=2)
expect 0 "$VERTEBRA" build "${vit[@]}" --image 8 -o "$work/vit.so"
same() { # WEIGHTS FILE OPTIONS...: the three ways to run it
  local weights=$1 file=$2 want told
  shift 2
  expect 0 "$VERTEBRA" run "${vit[@]}" --top 10 --weights "$weights" "$@" "${images[0]}"; want=$out told=$(grep -o 'loaded.*' <<<"$err")
  expect 0 env VTB_MODELS="$work" "$VERTEBRA" run "$file" --top 10 --weights "$weights" "${images[0]}"
  [ "$out" = "$want" ] || fail "the built file gives $out with $weights, not $want"
  expect 0 "$runner" --top 10 --weights "$weights" "$file" "${images[0]}"
  [ "$out" = "$want" ] || fail "vertebra-run gives $out with $weights, not $want"
  says "$told"; says "loaded"
}
same "$work/plain.pth" "$work/vit.so" --image 8
same "$work/module.pth" "$work/vit.so" --image 8
mkdir "$work/shards" # the first four names in one file, the others in another
for part in 1 2; do
  awk -v part=$part '(NR <= 4) == (part == 1)' "$work/names.txt" > "$work/part.txt"
  "$CHECKPOINT" make "$work/part.txt" "$work/shards/pytorch_model-0000$part-of-00002.bin" plain || fail "no shard"
done
awk '{ printf "%s\"%s\": \"pytorch_model-0000%d-of-00002.bin\"", (NR > 1 ? ", " : "{\"weight_map\": {"), $1, (NR > 4) + 1 }
     END { print "}}" }' "$work/names.txt" > "$work/shards/pytorch_model.bin.index.json"
same "$work/shards" "$work/vit.so" --image 8
same "$work/shards/pytorch_model.bin.index.json" "$work/vit.so" --image 8
same "$work/folder" "$work/vit.so" --image 8; says "name 3"; says "of the folder model.safetensors is read"
expect 0 "$VERTEBRA" build "${vit[@]}" --image 16 -o "$work/vit16.so"
hf 50 10 > "$work/large.txt"; "$CHECKPOINT" make "$work/large.txt" "$work/large.pth" plain || fail "no large"
for program in "$VERTEBRA run" "$runner"; do
  want=$out
  expect 0 $program "$work/vit16.so" --weights "$work/large.pth" "${images[0]}"; says "pos_embed from 7x7 to 4x4"
done
[ "$out" = "$want" ] || fail "another table: $out, not $want"
expect 0 "$VERTEBRA" check "$work/vit.so"; says "names            timm, the authors of DeiT-III, Hugging Face"
for asked in "" --ema-weights; do # both say which are read
  expect 0 "$VERTEBRA" run "$work/vit.so" --weights "$work/averaged.pth" $asked "${images[0]}"; want=$err
  expect 0 "$runner" --weights "$work/averaged.pth" $asked "$work/vit.so" "${images[0]}"; [ "$err" = "$want" ] || fail "$err, not $want"
done
says '"model_ema"'
both() { expect 1 "$VERTEBRA" run "$@"; says "$want"; expect 1 "$runner" "$@"; says "$want"; }
hf 5 7 > "$work/seven.txt"; "$CHECKPOINT" make "$work/seven.txt" "$work/seven.pth" plain || fail "no seven"
want="seven.pth is a classifier of 7 classes, the model of 10" both "$work/vit.so" --weights "$work/seven.pth" "${images[0]}"
hf 5 '' > "$work/none.txt"; "$CHECKPOINT" make "$work/none.txt" "$work/none.pth" plain || fail "no none"
want="2 missing: head.weight, head.bias (--allow-missing)" both "$work/vit.so" --weights "$work/none.pth" "${images[0]}"
expect 0 "$VERTEBRA" run "$work/vit.so" --weights "$work/none.pth" --allow-missing "${images[0]}"; want=$out
expect 0 "$runner" "$work/vit.so" --weights "$work/none.pth" --allow-missing "${images[0]}"; [ "$out" = "$want" ] || fail "another head: $out"
want="nothing in" both "$work/model.so" --weights "$work/plain.pth" "${images[0]}"
want="absent.pth" both "$work/model.so" --weights "$work/absent.pth" "${images[0]}"

# wrong files, wrong use
expect 1 "$runner" "$work/bare.so" "${images[0]}"; says "weights"
expect 1 "$runner" "$weights" "${images[0]}"; says "is not a file that"
expect 1 "$runner" "$work/absent.so" "${images[0]}"; says "absent.so"
head -c $(($(stat -c %s "$work/model.so") - 1)) "$work/model.so" > "$work/cut.so"
expect 1 "$runner" "$work/cut.so" "${images[0]}"; says "cut short"
expect 2 "$runner"; says "FILE is needed"; says "vertebra-run --help"
expect 2 "$runner" --bogus x; says "no option '--bogus'"
expect 2 "$runner" --top 0 x; says "--top is a number"
expect 2 "$runner" --target gpu x; says "cpu or cuda"
expect 4 "$runner" --target cuda "$work/model.so" "${images[0]}"; says "no code for CUDA"
expect 0 "$runner" --help; [ "$(wc -L <<<"$out")" -le 80 ] || fail "lines of more than 80 columns"
expect 1 sh -c "'$runner' '$work/model.so' '${images[0]}' >/dev/full"; says "standard output"

needed=$(ldd "$runner")
! grep -qiE 'llvm|libz3|icu|cairo|archive|fyaml|protobuf' <<<"$needed" || fail "vertebra-run needs $needed"
grep -q libvertebra_rt <<<"$needed" || fail "vertebra-run has the runtime inside: $needed"
