# Lists of options: every combination, in rounds; chunks belong to chunkwise; a cell that fails is told and the others complete.
. tests/cli/lib.sh
tiny=(vil_nano -D dim=16 -D depth=1 --image 8 --threads 1)
sweep=("${tiny[@]}" --runs 1 --rounds 1)
positive() { [ "$(printf '%s' "$out" | "$JSON_GET" "$1" | awk '{ print ($1 > 0) }')" = 1 ] || fail "$1 is no positive number: $out"; }
expect 0 "$VERTEBRA" bench "${sweep[@]}" --batch 1,2 --mode parallel,chunkwise --chunk 2,4
says "6 cells"; says "parallel"; says "chunkwise(4)"; says "differ by mode alone"
expect 1 "$VERTEBRA" bench "${sweep[@]}" --batch 1,2 --image 2; says "failed: VTB13"; says "batch 1 and 1 more: VTB13"
expect 1 "$VERTEBRA" bench "${sweep[@]}" --image 8,2 --json
json cells 2 cells.0.status done cells.0.settings.image 8 cells.0.img_size 8x8 cells.0.rounds 1 cells.0.kernels none cells.1.status failed
says "VTB13"; positive cells.0.best_ms
command=$(printf '%s' "$out" | "$JSON_GET" cells.0.command)
expect 0 "$VERTEBRA" ${command#vertebra }; json img_size 8x8 runs 1
expect 0 "$VERTEBRA" bench vil_nano -D depth=1 --image 8 --threads 1 --runs 1 --rounds 2 --vary dim=16,32 --json
json cells.1.settings.dim 32; [ "$(printf '%s' "$out" | "$JSON_GET" cells.1.rounds)" -ge 2 ] || fail "not two rounds: $out"
expect 0 "$VERTEBRA" bench "${sweep[@]}" --batch 1,2 --no-tuning --json
case $(printf '%s' "$out" | "$JSON_GET" cells.0.command) in *" --no-tuning"*) ;; *) fail "auto was tuned: $out" ;; esac
expect 2 "$VERTEBRA" bench "${sweep[@]}" --batch 1,two; says "takes a whole number from 1"
expect 2 "$VERTEBRA" bench "${sweep[@]}" --batch 1,; says "a value is empty"
expect 2 "$VERTEBRA" bench "${sweep[@]}" --mode parallel,recurrent --chunk 4; says "no mode of parallel,recurrent has chunks"
expect 2 "$VERTEBRA" bench --peak --threads 1,2; says "lists are for a MODEL"
