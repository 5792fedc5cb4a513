#!/usr/bin/env bash
# test_trained.sh families|examples|full: what is trained can be used. The models of a part of table.txt are trained by two
# updates and then, with the weights that this wrote and no option that excuses anything, judged, run, built and exported;
# the built file gives the command's answers. full: every preset as it is, which takes hours.
. tests/cli/lib.sh
: "${MAKE_DATA:?path of make_data}"
part=${1:?families, examples or full}
table=tests/trained/table.txt

"$MAKE_DATA" classes "$work/images" 4 red green blue
"$MAKE_DATA" masks "$work/masks" 6 4
"$MAKE_DATA" arrays "$work/series.safetensors" 8 series=1x32 label:3
"$MAKE_DATA" arrays "$work/video.safetensors" 8 video=1x4x8x8 label:3
"$MAKE_DATA" arrays "$work/clips.safetensors" 8 clip=1x2x8x8 action:5 motion=2
"$MAKE_DATA" arrays "$work/draws.safetensors" 8 labels:3
declare -A data=([images]=images [patches]=images [labels]=images [masks]=masks [series]=series.safetensors
                 [video]=video.safetensors [clips]=clips.safetensors [draws]=images)
declare -A asked=([images]=images/red/000.png [patches]=images/red/000.png [labels]=images/red/000.png [masks]=masks/val/images/000.png)
declare -A input=([series]=series [video]=video [clips]=clip [draws]=labels)
declare -A given=([draws]=draws.safetensors) # of that input, where it is no data that is trained on
declares_losses() { [ "$1" != images ]; } # a built file measures them where it has an evaluation beside its step

# What the last command says of the model, in a document that says more of machine and file.
scores() { printf "%s" "$out" | sed '/"fit"/,$d' | grep -vE 'second|_bytes|"label"|"split"|[{}]' | sed 's/,$//'; }

# use WHAT DATA BATCH SETTINGS...
use() {
  local what=$1 kind=$2 batch=$3 at="$work/run" judged image=()
  shift 3
  local set=("$what" "$@" --threads 1) from=(--weights "$at/weights.safetensors") with=(--data "$work/${data[$kind]}")
  rm -rf "$at"*
  local train=("$VERTEBRA" train "${set[@]}" "${with[@]}" --batch "$batch" --updates 2 --val-fraction 0 --quiet --out "$at")
  if ! "${train[@]}" >"$work/out" 2>"$work/err"; then
    [ "$part" = full ] && grep -q "no class scores to train" "$work/err" && return # a backbone, which gives features
    fail "$what: $(cat "$work/err")"
  fi
  expect 0 "$VERTEBRA" eval "${set[@]}" "${from[@]}" "${with[@]}" --batch "$batch" --json
  judged=$(scores)
  case $judged in *loss*) ;; *) fail "$what: eval measures nothing: $out" ;; esac
  expect 0 "$VERTEBRA" build "${set[@]}" "${from[@]}" --batch "$batch" -o "$at.so"
  if declares_losses "$kind"; then
    expect 0 "$VERTEBRA" build "${set[@]}" --train --batch "$batch" --eval-batch "$batch" -o "$at.train.so"
    expect 0 "$VERTEBRA" eval "$at.train.so" "${from[@]}" "${with[@]}" --json
  else
    expect 0 "$VERTEBRA" eval "$at.so" "${with[@]}" --json
  fi
  [ "$(scores)" = "$judged" ] || fail "$what: the built file is judged otherwise: $(scores), not $judged"
  [ -z "${asked[$kind]:-}" ] || image=("$work/${asked[$kind]}")
  [ -z "${input[$kind]:-}" ] || image=(--input "${input[$kind]}=$work/${given[$kind]:-${data[$kind]}}")
  expect 0 "$VERTEBRA" run "${set[@]}" "${from[@]}" --batch "$batch" "${image[@]}" -o "$at.of-text.safetensors"
  expect 0 "$VERTEBRA" run "$at.so" "${image[@]}" -o "$at.of-file.safetensors"
  cmp "$at.of-text.safetensors" "$at.of-file.safetensors" || fail "$what: the built file answers otherwise"
  if [ "$kind" = patches ] || [ "$kind" = draws ]; then # random numbers have no form in ONNX
    expect 1 "$VERTEBRA" export "$what" "$@" "${from[@]}" --batch "$batch" -o "$at.onnx"; says VTB3301
  else
    expect 0 "$VERTEBRA" export "$what" "$@" "${from[@]}" -o "$at.onnx"
  fi
}

if [ "$part" = full ]; then
  for preset in $("$VERTEBRA" models | sed -n 's/^  \([a-z][a-z0-9_]*\) .*/\1/p'); do
    [ "$preset" = model ] || use "$preset" images 2
  done
  exit 0
fi

# every file has its row
case $part in families) files=$(grep -l '^preset' models/*.vtb) ;; *) files=$(ls models/examples/*.vtb) ;; esac
for file in $files; do
  file=${file#models/}
  grep -q "^${file%.vtb} " $table || fail "models/$file has no row in $table: what is trained of it is used by no test"
done

while read -r file model kind batch settings; do
  case $file in examples/*) [ "$part" = examples ] || continue ;; '#'* | '') continue ;; *) [ "$part" = families ] || continue ;; esac
  [ "$model" = - ] && model=models/$file.vtb ||
    grep -qE "^preset ([a-z0-9_]+ alias )?$model( alias [a-z0-9_]+)? =" "models/$file.vtb" || fail "no preset $model in models/$file.vtb"
  read -ra settings <<< "$settings"
  use "$model" "$kind" "$batch" "${settings[@]}"
done < $table

# a cell of a study trains, and is judged by what it trained
[ "$part" = families ] || exit 0
small_images 12 6
cat > "$work/normed.vtb" <<'END'
use std.nn
use std.conv
model normed(num_classes: int = 4) {
  input x: image[1, 8, 8]
  x = relu(batch_norm("norm", conv("conv", x, 8, 3, stride = 2, pad = 1)))
  output logits = linear("head", mean(x, axis = "tokens"), num_classes)
}
END
printf 'epochs: 1\nbatch: 6\n' > "$work/short.yaml"
expect 0 "$VERTEBRA" ablate "$work/normed.vtb" --vary lr=1e-3 --train "$work/short.yaml" --data "$work/data" -o "$work/study"
silent_about "failed"
grep -q '"step":[[:space:]]*"eval"' "$work/study/results.json" || fail "no cell was judged: $(cat "$work/study/results.json")"
