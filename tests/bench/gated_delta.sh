#!/usr/bin/env bash
# A backbone of gated delta cells beside the same one of gated linear attention: images a second and memory as ratios.
# The two run in turns, and the best run of each counts.
#   tests/bench/gated_delta.sh [ROUNDS] (default 5), VERTEBRA names the program, THREADS the threads (default 1)
set -eu
cd "$(dirname "$0")/../.."
rounds=${1:-5} vertebra=${VERTEBRA:-build/release/vertebra} threads=${THREADS:-1}
field() { sed -n "s/.*\"$1\":[[:space:]]*\([0-9.e+-]*\).*/\1/p" | head -n 1; }
least() { sort -g | head -n 1; }

echo "| tokens | step | gated linear attention | gated delta | img/s, ratio | memory | | ratio |"
echo "| --- | --- | --- | --- | --- | --- | --- | --- |"
for side in 14 28 56; do
  for step in forward training; do
    gla=() delta=()
    for ((r = 0; r < rounds; r++)); do
      for cell in gla delta; do
        out=$("$vertebra" bench tests/bench/gated_delta.vtb -D cell=$cell --image $((16 * side)) --threads "$threads" \
          --seconds 0.7 --json $([ $step = forward ] || echo --train))
        [ $cell = gla ] && gla+=("$(field best_ms <<<"$out")") || delta+=("$(field best_ms <<<"$out")")
        declare "memory_$cell=$(field workspace_bytes <<<"$out")"
      done
    done
    a=$(printf '%s\n' "${gla[@]}" | least) b=$(printf '%s\n' "${delta[@]}" | least)
    awk -v n=$((side * side)) -v s=$step -v a="$a" -v b="$b" -v m="$memory_gla" -v k="$memory_delta" \
      'BEGIN { printf "| %d | %s | %.2f ms | %.2f ms | %.2f | %.1f MiB | %.1f MiB | %.2f |\n", n, s, a, b, a / b, m / 1048576, k / 1048576, k / m }'
  done
done
