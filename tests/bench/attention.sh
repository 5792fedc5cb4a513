#!/usr/bin/env bash
# The attention kernel beside softmax(q k^T) v as two products, alternating; then the memory of whole models by resolution.
#   tests/bench/attention.sh [ROUNDS] (default 5), VERTEBRA names the program, THREADS the threads (default 2)
set -eu
cd "$(dirname "$0")/../.."
rounds=${1:-5} vertebra=${VERTEBRA:-build/release/vertebra} threads=${THREADS:-2}
field() { sed -n "s/.*\"$1\":[[:space:]]*\([0-9.e+-]*\).*/\1/p" | head -n 1; }
least() { sort -g | head -n 1; }

echo "| tokens | step | kernel | two products | ratio | memory of kernel | of two products |"
echo "| --- | --- | --- | --- | --- | --- | --- |"
for side in 14 32 64; do
  for step in forward training; do
    fused=() products=()
    for ((r = 0; r < rounds; r++)); do
      for form in fused products; do
        out=$("$vertebra" bench tests/bench/attention.vtb -D form=$form --image $side --threads "$threads" --seconds 0.5 \
          --json $([ $step = forward ] || echo --train))
        [ $form = fused ] && fused+=("$(field best_ms <<<"$out")") || products+=("$(field best_ms <<<"$out")")
        declare "memory_$form=$(field workspace_bytes <<<"$out")"
      done
    done
    a=$(printf '%s\n' "${fused[@]}" | least) b=$(printf '%s\n' "${products[@]}" | least)
    awk -v n=$((side * side)) -v s=$step -v a="$a" -v b="$b" -v m="$memory_fused" -v k="$memory_products" \
      'BEGIN { printf "| %d | %s | %.2f ms | %.2f ms | %.2f | %.1f MiB | %.1f MiB |\n", n, s, a, b, b / a, m / 1048576, k / 1048576 }'
  done
done
echo
echo "| model, batch 1, forward | 224 | 512 | 1024 | bytes a token, 224 to 1024 |"
echo "| --- | --- | --- | --- | --- |"
for model in deit_small visionllama_small visionllama_pyramid_small; do
  row="| $model"
  for image in 224 512 1024; do
    bytes=$("$vertebra" check $model --image $image --json | field workspace_bytes)
    row="$row | $(awk -v b="$bytes" 'BEGIN { printf "%.1f MiB", b / 1048576 }')"
    declare "b$image=$bytes"
  done
  echo "$row | $(awk -v a="$b224" -v b="$b1024" 'BEGIN { printf "%.0f to %.0f", a / 196, b / 4096 }') |"
done
