# A table for others: timm's names, one line a cell, fields of the JSON; and what has changed since.
. tests/cli/lib.sh
tiny=(vil_nano -D dim=16 -D depth=1 --image 8 --threads 1)
sweep=("${tiny[@]}" --runs 1 --rounds 1)
expect 0 "$VERTEBRA" bench "${tiny[@]}" --runs 2 --csv -
[ "$(printf '%s\n' "$out" | wc -l)" = 2 ] || fail "not two lines: $out"
for name in model infer_img_size infer_batch_size infer_samples_per_sec infer_step_time infer_gmacs param_count; do
  case ",$(printf '%s' "$out" | head -1)," in *",$name,"*) ;; *) fail "no column $name: $out" ;; esac
done
wide=(vil_nano -D depth=1 --threads 1 --runs 1 --rounds 1 --batch 2)
expect 1 "$VERTEBRA" bench "${wide[@]}" --image 8,2 --vary dim=16,32 --csv "$work/t.csv" --json
[ "$(grep -c ',done,' "$work/t.csv") $(grep -c ',failed,' "$work/t.csv")" = "2 2" ] || fail "$(cat "$work/t.csv")"
head -1 "$work/t.csv" | grep -q ',dim$' || fail "no column of its own for what is varied: $(cat "$work/t.csv")"
expect 0 "$VERTEBRA" bench "${wide[@]}" --image 8 --vary dim=32,16 --compare "$work/t.csv" --json
json compare.rows 2 compare.rows.0.settings.dim 32 compare.rows.0.settings.batch 2
was=$(printf '%s' "$out" | "$JSON_GET" compare.rows.0.image_ms_before)
step=$(grep '8,2,.*,32$' "$work/t.csv" | cut -d, -f11)
awk -v a="$was" -v b="$step" 'BEGIN { exit !(a > 0.999 * b / 2 && a < 1.001 * b / 2) }' || fail "$was is not half of $step: $(cat "$work/t.csv")"
# a machine that was ten times as slow, and the model with it
expect 0 "$VERTEBRA" bench "${tiny[@]}" --runs 2 --peak --json
printf '%s' "$out" | sed -E '/_ms"|"product_gflops"|"copy_gbytes"/{s/:\t([0-9.e+-]+)/:\t1000000/}; s/"spread":.*/"spread": 0.01,/' >"$work/old.json"
expect 0 "$VERTEBRA" bench "${tiny[@]}" --runs 2 --compare "$work/old.json"
says "faster"; says "peak is not known of both"
sed -i 's/"batch":.*/"batch": 3,/' "$work/old.json"
expect 0 "$VERTEBRA" bench "${tiny[@]}" --runs 2 --compare "$work/old.json"; says "not there"
echo '{"cells": []}' >"$work/none.json"
expect 1 "$VERTEBRA" bench "${tiny[@]}" --runs 1 --compare "$work/none.json"; says "none.json holds no times"
expect 1 "$VERTEBRA" bench "${tiny[@]}" --runs 1 --compare "$work/missing.json"; says "missing.json"
expect 2 "$VERTEBRA" bench "${tiny[@]}" --csv - --json; says "both want standard output"
# files that are no such thing
printf 'a,"b\n' >"$work/odd.csv"
printf 'model,infer_step_time\n"x' >"$work/odd2.csv"
printf '{"cells": [1, {"settings": ["a"], "best_ms": 1, "batch": 1, "model": 3}], "study": 5, "peaks": "x"}' >"$work/odd3.json"
: >"$work/empty"
for odd in odd.csv odd2.csv odd3.json empty; do
  expect 1 "$VERTEBRA" bench "${tiny[@]}" --runs 1 --compare "$work/$odd"; says "$odd holds no times"
done
# of a study: its cells have their times in a part of their own
cat >"$work/results.json" <<'END'
{"study": {"model": "vil_nano"}, "peaks": [{"product_gflops": 1, "copy_gbytes": 1}],
 "cells": [{"settings": {"mode": "chunkwise(2)"}, "model": {"img_size": "8x8"}, "bench": {"timed": "forward", "batch": 1, "threads": 1, "best_ms": 1e4, "spread": 0.01}},
           {"settings": {"mode": "parallel"}, "model": {"img_size": "8x8"}, "bench": {"timed": "forward", "batch": 1, "threads": 1, "best_ms": 1e-6, "spread": 0.01}}]}
END
expect 0 "$VERTEBRA" bench "${sweep[@]}" --mode parallel,chunkwise --chunk 2 --compare "$work/results.json" --json
json compare.rows.0.verdict slower compare.rows.1.verdict faster compare.rows.1.settings.chunk 2
