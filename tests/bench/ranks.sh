#!/usr/bin/env bash
# Training by processes of one thread each beside one process of as many threads, in the same rounds, and what
# `train --plan-scale` predicts of it. Prints a table in Markdown; docs/results/scaling.md has one.
#   tests/bench/ranks.sh VERTEBRA [MODEL [BATCH [UPDATES [ROUNDS]]]]     needs mpirun and Fashion-MNIST (`./dev demo` brings it)
set -eu
vertebra=$1 model=${2:-vil_nano} batch=${3:-96} updates=${4:-40} rounds=${5:-3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
options=(--data fashion-mnist --val-fraction 0 --limit $((batch * updates)) --batch "$batch" --updates "$updates" --quiet --overwrite)

# milliseconds of an update: the median over those behind the first five
train() { # RANKS THREADS
  local run=(train "$model" "${options[@]}" --threads "$2" --log-every 1 --out "$work/run-$1-$2")
  if [ "$1" = 1 ]; then "$vertebra" "${run[@]}" >/dev/null; else
    mpirun -n "$1" --oversubscribe --bind-to none "$vertebra" "${run[@]}" >/dev/null
  fi
  sed -n 's/.*"event":"step".*"seconds":\([0-9.e+-]*\).*/\1/p' "$work/run-$1-$2/log.jsonl" |
    awk 'NR > 5 { print 1000 * ($1 - before) } { before = $1 }' | sort -g | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'
}

cases=("1 1" "1 2" "2 1" "3 1" "4 1")
for ((round = 0; round < rounds; round++)); do
  for ((c = 0; c < ${#cases[@]}; c++)); do
    # shellcheck disable=SC2086
    train ${cases[c]} >>"$work/ms.$c"
  done
done
env VTB_THREADS="$(nproc)" "$vertebra" train "$model" --plan-scale 1,2,3,4 --threads 1 --batch "$batch" --json >"$work/plan.json" 2>/dev/null
# of the batch that all share out
predicted() {
  tr -d ' \n\t' <"$work/plan.json" | grep -o '"same_batch":\[[^]]*' | grep -o "\"ranks\":$1,[^}]*" | sed -n 's/.*"ms":\([0-9.]*\).*/\1/p'
}
echo "$model, batch $batch, best of $rounds medians of $updates updates, $(nproc) cores"
echo
echo "| processes | threads | ms an update | images/s | against one of one thread | predicted ms | prediction by measurement |"
echo "| --- | --- | --- | --- | --- | --- | --- |"
one=$(sort -g "$work/ms.0" | head -1)
for ((c = 0; c < ${#cases[@]}; c++)); do
  read -r ranks threads <<<"${cases[c]}"
  ms=$(sort -g "$work/ms.$c" | head -1)
  plan=$([ "$threads" = 1 ] && predicted "$ranks" || true)
  awk -v r="$ranks" -v t="$threads" -v ms="$ms" -v one="$one" -v b="$batch" -v p="$plan" 'BEGIN {
    printf "| %d | %d | %.1f | %.0f | %.2f | %s | %s |\n", r, t, ms, 1000 * b / ms, one / ms, p == "" ? "" : sprintf("%.1f", p), p == "" ? "" : sprintf("%.2f", p / ms) }'
done
