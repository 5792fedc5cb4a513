#!/usr/bin/env bash
# The small models on Fashion-MNIST, one after the other, the same recipe, updates and seed each: a table and a plot.
#   tests/bench/fashion_mnist_families.sh [-e EPOCHS] [-o FOLDER] [-v VERTEBRA] [-- OPTION of `vertebra train`...]
# EPOCHS (default 3) is how often a model sees the 60 000 images; about 30 minutes on two cores. FOLDER (default
# run/families) gets a folder a model, table.md and accuracy.svg. `-- --fit-seconds 400` gives each the same time instead.
set -eu
cd "$(dirname "$0")/../.."
epochs=3 out=run/families vertebra=${VERTEBRA:-build/release/vertebra}
while getopts e:o:v: option; do
  case $option in
  e) epochs=$OPTARG ;;
  o) out=$OPTARG ;;
  v) vertebra=$OPTARG ;;
  *) exit 2 ;;
  esac
done
shift $((OPTIND - 1))
models=(vil_nano vil_delta_nano vim_nano vim_delta_nano vir_nano deit_nano vllama_nano)
runs=()
for model in "${models[@]}"; do
  echo "== $model"
  "$vertebra" train "$model" --data fashion-mnist --recipe models/recipes/fashion_mnist_families.yaml \
    --eval-split test --epochs "$epochs" --out "$out/$model" --overwrite "$@"
  runs+=("$out/$model")
done
"$vertebra" compare "${runs[@]}" --by-epoch -o "$out/accuracy.svg" --title "Fashion-MNIST, test top-1" | tee "$out/table.md"
