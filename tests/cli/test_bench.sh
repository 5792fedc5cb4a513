# Measuring: what the machine reaches, and how much of it a model does.
. tests/cli/lib.sh
tiny=(vil_nano -D dim=16 -D depth=1 --image 8 --threads 1)
positive() { [ "$(printf '%s' "$out" | "$JSON_GET" "$1" | awk '{ print ($1 > 0) }')" = 1 ] || fail "$1 is no positive number: $out"; }

expect 0 "$VERTEBRA" bench --peak --json --threads 1
json threads 1 target cpu precision fp32 copies 4
positive product_gflops; positive copy_gbytes; positive copies.0.gbytes
expect 0 "$VERTEBRA" bench "${tiny[@]}" --runs 2 --peak
says "product"; says "% of the peak"; says "% peak"
expect 0 "$VERTEBRA" bench "${tiny[@]}" --runs 2 --peak --json
positive percent_of_peak; positive peak.product_gflops; positive peak.one_thread.copy_gbytes; positive kernels.0.percent_of_peak
json model vil_nano img_size 8x8 target cpu threads 1 runs 2 rounds 1 rounds.0.best_ms "$(printf '%s' "$out" | "$JSON_GET" best_ms)"
positive param_count; positive gmacs; positive peak_bytes
# rounds: the best of all, and how far they are apart
expect 0 "$VERTEBRA" bench "${tiny[@]}" --runs 2 --rounds 3; says "(6 runs in 3 rounds)"
expect 0 "$VERTEBRA" bench "${tiny[@]}" --runs 2 --rounds 3 --json; json rounds 3 runs 6
best=$(printf '%s' "$out" | "$JSON_GET" best_ms rounds.0.best_ms rounds.1.best_ms rounds.2.best_ms |
  awk 'NR == 1 { best = $1; next } NR == 2 || $1 < least { least = $1 } END { print best == least }')
[ "$best" = 1 ] || fail "the best is not that of the rounds: $out"
# parameters and multiply-adds are the model's, whatever is timed of it
at=(param_count gmacs)
forward=$(printf '%s' "$out" | "$JSON_GET" "${at[@]}")
expect 0 "$VERTEBRA" bench "${tiny[@]}" --train --runs 1 --json
[ "$(printf '%s' "$out" | "$JSON_GET" "${at[@]}")" = "$forward" ] || fail "a training step has other sizes than $forward: $out"
expect 2 "$VERTEBRA" bench --peak --target gpu; says "unknown target 'gpu'"
expect 2 "$VERTEBRA" bench; says "one MODEL"

# Lists: every combination, in rounds; chunks belong to chunkwise; a cell that fails is told and the others complete.
sweep=("${tiny[@]}" --runs 1 --rounds 1)
expect 0 "$VERTEBRA" bench "${sweep[@]}" --batch 1,2 --mode parallel,chunkwise --chunk 2,4
says "6 cells"; says "parallel"; says "chunkwise(4)"; says "differ by mode alone"
expect 1 "$VERTEBRA" bench "${sweep[@]}" --batch 1,2 --image 9; says "failed: VTB1307"; says "batch 2: VTB1307"
expect 1 "$VERTEBRA" bench "${sweep[@]}" --image 8,9 --json
json cells 2 cells.0.status done cells.0.settings.image 8 cells.0.img_size 8x8 cells.0.rounds 1 cells.0.kernels none cells.1.status failed
says "VTB1307"; positive cells.0.best_ms
command=$(printf '%s' "$out" | "$JSON_GET" cells.0.command)
expect 0 "$VERTEBRA" ${command#vertebra }; json img_size 8x8 runs 1
expect 0 "$VERTEBRA" bench vil_nano -D depth=1 --image 8 --threads 1 --runs 1 --rounds 2 --vary dim=16,32 --json
json cells.1.settings.dim 32; [ "$(printf '%s' "$out" | "$JSON_GET" cells.1.rounds)" -ge 2 ] || fail "not two rounds: $out"
expect 2 "$VERTEBRA" bench "${sweep[@]}" --batch 1,two; says "takes a whole number from 1"
expect 2 "$VERTEBRA" bench "${sweep[@]}" --batch 1,; says "a value is empty"
expect 2 "$VERTEBRA" bench "${sweep[@]}" --mode parallel,recurrent --chunk 4; says "no mode of parallel,recurrent has chunks"
expect 2 "$VERTEBRA" bench --peak --threads 1,2; says "lists are for a MODEL"
