#!/usr/bin/env bash
# What the plans of CUDA come to by the estimate (docs/cuda_cost.md), beside their goals, as a table: no GPU is asked.
#   tests/bench/cuda_goals.sh [GPU]     (default h200; VERTEBRA the program, default build/release/vertebra)
# bf16-all, batch 128, 224 x 224; cells of tests/gpu/cells.vtb. A block's are half of what two blocks more would add.
set -eu -o pipefail
cd "$(dirname "$0")/../.."
gpu=${1:-h200} vertebra=${VERTEBRA:-build/release/vertebra}
export VTB_MODELS=${VTB_MODELS:-$PWD/models}

# "launches ms bytes" of a run
run() {
  "$vertebra" dump "$@" --stage launches --precision bf16-all --estimate "$gpu" |
    sed -n "s|^$gpu: \([0-9]*\) launches, \([0-9.]*\) ms a run of \([0-9]*\), .* images/s, \([0-9.]*\) MB an image\$|\1 \2 \4 \3|p"
}

# row NAME DEPTH_OPTION DEPTH KIND GOALS...: GOALS are launches a block, MB an image or (xGB) GB a block and batch, images/s
model() {
  local name=$1 depth=$2 step=$3 launches_goal=$4 bytes_goal=$5 speed_goal=$6 all more options=()
  [ "$step" = forward ] || options=(--train)
  all=$(run "$name" --batch 128 -D drop_path=0 "${options[@]}")
  more=$(run "$name" --batch 128 -D drop_path=0 -D depth=$((depth + 2)) "${options[@]}")
  echo "$all $more" | awk -v name="$name" -v step="$step" -v a="$launches_goal" -v b="$bytes_goal" -v c="$speed_goal" '
    function mark(ok, goal) { return goal == "-" ? "" : ok ? " (goal " goal ")" : " **(goal " goal ")**" }
    {
      block = ($5 - $1) / 2; gb = ($7 - $3) / 2 * $4 / 1000; speed = 1000 * $4 / $2
      bytes_ok = b ~ /a block/ ? gb <= b + 0 : $3 <= b + 0
      printf "| %s | %s | %d | %.1f%s | %.0f%s | %.2f%s | %.2f | %.0f%s |\n", name, step, $1, block, mark(block <= a + 0, a),
        $3, b ~ /a block/ ? "" : mark(bytes_ok, b), gb, b ~ /a block/ ? mark(bytes_ok, b) : "", $2, speed, mark(speed >= c + 0, c)
    }'
}

echo "| model | step | launches | a block | MB an image | GB a block | ms | images/s |"
echo "| --- | --- | --- | --- | --- | --- | --- | --- |"
model vil_base 24 forward 8 200 -
model vil_base 24 training 25 700 2000
model vil_tiny 24 forward - - 60000
model vil_tiny 24 training - - -
model vim_base 24 forward - "1.7 a block" -
model vim_base 24 training - 1400 1500
model vir_base 12 forward - - -
model vir_base 12 training - 500 -
model visionllama_base 12 forward - - -
model visionllama_base 12 training - 500 -
model deit_base_patch16_224 12 forward - - -
model deit_base_patch16_224 12 training - 500 3500

cell() { run tests/gpu/cells.vtb "$@" | awk '{ print $1, $2, $3 * $4 / 1000 }'; }
echo
echo "| cell | launches | GB | ms | goal |"
echo "| --- | --- | --- | --- | --- |"
row() { echo "$2" | awk -v name="$1" -v goal="$3" '{ printf "| %s | %d | %.2f | %.2f | %s |\n", name, $1, $3, $2, $2 <= goal ? goal : "**" goal "**" }'; }
row "mLSTM, 8 x 8192 tokens" "$(cell --entry mlstm_cell --batch 8)" 2.0
forward=$(cell --entry scan_cell --batch 32) both=$(cell --entry scan_cell --batch 32 --train -D learn=true)
row "selective scan, 32 x 2048 tokens x 8192 channels" "$forward" 4.0
row "its way back" "$(echo "$forward $both" | awk '{ print $4 - $1, $5 - $2, $6 - $3 }')" 12.0
