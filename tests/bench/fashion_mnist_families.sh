#!/usr/bin/env bash
# Five small models on Fashion-MNIST, one after the other, the same time and recipe each: a table and a plot.
#   tests/bench/fashion_mnist_families.sh [-s SECONDS] [-o FOLDER] [-v VERTEBRA] [-- OPTION of `vertebra train`...]
# SECONDS (default 400) is the time a model trains; its schedule is planned for the updates that fit. FOLDER (default
# run/families) gets a folder a model, table.md and accuracy.svg.
set -eu
cd "$(dirname "$0")/../.."
seconds=400 out=run/families vertebra=${VERTEBRA:-build/release/vertebra}
while getopts s:o:v: option; do
  case $option in
  s) seconds=$OPTARG ;;
  o) out=$OPTARG ;;
  v) vertebra=$OPTARG ;;
  *) exit 2 ;;
  esac
done
shift $((OPTIND - 1))
models=(vil_nano vim_nano vir_nano deit_nano vllama_nano)
runs=()
for model in "${models[@]}"; do
  echo "== $model"
  "$vertebra" train "$model" --data fashion-mnist --recipe models/recipes/fashion_mnist_families.txt \
    --fit-seconds "$seconds" --out "$out/$model" "$@"
  runs+=("$out/$model")
done
"$vertebra" compare "${runs[@]}" -o "$out/accuracy.svg" --title "Fashion-MNIST, test top-1" | tee "$out/table.md"
