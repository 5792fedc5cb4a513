#!/usr/bin/env bash
# Backbones of cells that run step after step (stepwise.vtb): a training step of this program beside another build's,
# alternating, and what of it are the recurrences themselves; and the launches of a training step on CUDA.
#   OTHER=/path/to/vertebra tests/bench/stepwise.sh [ROUNDS]     (default 5; VERTEBRA this program, THREADS default 2)
# Of each kernel and of the whole step the least time of all rounds counts: other processes can only add to it. The
# recurrences are the kernels whose lines are in std/gru.vtb and std/slstm.vtb, or at the cell's call.
set -eu
cd "$(dirname "$0")/../.."
rounds=${1:-5} vertebra=${VERTEBRA:-build/release/vertebra} other=${OTHER:?a build to compare with} threads=${THREADS:-2}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# "what from ms" of the kernels and a line "step ms", tabs between
kernels() {
  "$1" bench tests/bench/stepwise.vtb --train --threads "$threads" --seconds 0.3 --top 1000 --json "${@:2}" 2>/dev/null |
    awk -F'"' '/best_ms/ { split($3, t, /[:,]/); printf "step\t\t%s\n", t[2] + 0 }
               /"what"/ { what = $4 } /"from"/ { from = $4 }
               /"ms"/ { split($3, t, /[:,]/); printf "%s\t%s\t%s\n", what, from, t[2] + 0 }' |
    awk -F'\t' '{ k = $1 "\t" $2; n[k]++; printf "%s\t%d\t%s\n", k, n[k], $3 }'
}

# the least of each line over all rounds: "step recurrences"
least() {
  awk -F'\t' '{ k = $1 FS $2 FS $3; if (!(k in t) || $4 < t[k]) t[k] = $4; from[k] = $2; step[k] = $1 == "step" }
    END { for (k in t) { if (step[k]) s = t[k]; else if (from[k] ~ /gru.vtb|slstm.vtb|stepwise.vtb:1[3-7]/) r += t[k] }
          printf "%.2f %.2f\n", s, r }' "$1"
}

echo "| cell | batch | tokens | dim | heads | step, other | this | ratio | recurrences, other | this | ratio |"
echo "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"
while read -r cell batch patch dim heads; do
  for ((r = 0; r < rounds; r++)); do
    for which in other this; do
      program=$vertebra
      [ $which = this ] || program=$other
      kernels "$program" --entry "${cell}_nano" --batch "$batch" -D patch="$patch" -D dim="$dim" -D heads="$heads" \
        -D depth=1 >>"$work/$which"
    done
  done
  read -r a ra < <(least "$work/other")
  read -r b rb < <(least "$work/this")
  awk -v c="$cell" -v n="$batch" -v t=$((28 / patch * (28 / patch))) -v d="$dim" -v h="$heads" -v a="$a" -v b="$b" \
    -v x="$ra" -v y="$rb" 'BEGIN { printf "| %s | %d | %d | %d | %d | %.2f ms | %.2f ms | %.2f | %.2f ms | %.2f ms | %.1f |\n",
      c, n, t, d, h, a, b, a / b, x, y, x / y }'
  rm -f "$work/other" "$work/this"
done <<'CASES'
gru 1 4 96 4
gru 1 2 192 3
gru 8 4 96 4
gru 32 4 96 4
gru 32 4 192 3
slstm 1 4 96 4
slstm 32 4 96 4
CASES
echo
for program in "$other" "$vertebra"; do
  for patch in 4 2 1; do
    echo "$program, CUDA, $((28 / patch * (28 / patch))) tokens: $("$program" dump tests/bench/stepwise.vtb --entry gru_nano \
      -D patch=$patch --train --batch 32 --stage launches 2>/dev/null | grep " launches and ")"
  done
done
