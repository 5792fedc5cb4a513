#!/bin/bash
# How much more a block-alternating ViL takes with four or eight directions than with two, and how memory grows with the
# image: VERTEBRA=path/to/vertebra tests/bench/directions.sh [rounds]
# Rounds alternate between the models, and the best of each is compared: the machine may be busy.
set -eu
: "${VERTEBRA:?path of the vertebra program}"
rounds=${1:-5}
field() { sed -n "s/.*\"$1\": *\([0-9.e+]*\).*/\1/p" | head -1; }
least() { [ -z "$1" ] && echo "$2" || awk -v a="$1" -v b="$2" 'BEGIN { print (b < a ? b : a) }'; }

compare() { # WHAT OPTIONS...
  local what=$1 two="" four="" eight="" i
  shift
  for ((i = 0; i < rounds; i++)); do
    two=$(least "$two" "$("$VERTEBRA" bench vil_tiny -D directions=bi "$@" --json | field best_ms)")
    four=$(least "$four" "$("$VERTEBRA" bench vil_tiny -D directions=quad "$@" --json | field best_ms)")
    eight=$(least "$eight" "$("$VERTEBRA" bench vil_tiny -D directions=oct "$@" --json | field best_ms)")
  done
  awk -v w="$what" -v a="$two" -v b="$four" -v c="$eight" \
    'BEGIN { printf "| %s | %.1f | %.1f (%+.1f %%) | %.1f (%+.1f %%) |\n", w, a, b, 100 * (b / a - 1), c, 100 * (c / a - 1) }'
}

memory() { # MODEL
  local model=$1 size
  for size in 224 512 1024; do
    printf '| %s | %s | %s | %s |\n' "$model" "$size" \
      "$("$VERTEBRA" bench "$model" --image $size --runs 1 --json | field workspace_bytes | awk '{ printf "%.1f", $1 / 1048576 }')" \
      "$("$VERTEBRA" bench "$model" --image $size --runs 1 --train --json | field workspace_bytes | awk '{ printf "%.1f", $1 / 1048576 }')"
  done
}

echo "| vil_tiny, milliseconds | two directions | four | eight |"
echo "| --- | --- | --- | --- |"
compare "forward, batch 1" --runs 20
compare "training step, batch 2" --train --batch 2 --runs 5
echo
echo "| model | pixels | workspace MiB, forward | training |"
echo "| --- | --- | --- | --- |"
memory vil_tiny
memory vim_tiny
