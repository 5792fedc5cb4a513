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

# A trace is one run: its kernels follow one another and fill it.
expect 0 "$VERTEBRA" bench vil_nano -D depth=2 --threads 1 --runs 2 --trace "$work/trace.json"; says "kernels launched"
out=$(cat "$work/trace.json")
json displayTimeUnit ms otherData.model vil_nano otherData.threads 1
tr '{' '\n' <"$work/trace.json" | sed -n 's/.*"ph":"X","pid":1,"tid":\([0-9]*\),"ts":\([^,]*\),"dur":\([0-9.e+-]*\).*/\1 \2 \3/p' | awk '
  $1 == 0 { run = $3 }
  $1 == 1 { if ($2 < end) exit bad = 1; end = $2 + $3; sum += $3; n++ }
  END { exit bad || !(n > 20 && sum > 0.5 * run && sum <= run && end <= run) }' ||
  fail "kernels overlap, or are not the run: $(head -c 2000 "$work/trace.json")"
for key in '"from":"std/' '"flops":' '"ops":"einsum' '"name":"thread 0, the caller"'; do
  case $out in *"$key"*) ;; *) fail "no $key in the trace" ;; esac
done
expect 1 "$VERTEBRA" bench "${tiny[@]}" --runs 1 --trace "$work/no/folder.json"; says "no/folder.json"
expect 2 "$VERTEBRA" bench "${tiny[@]}" --runs 1 --batch 1,2 --trace "$work/t.json"; says "--trace is of one combination"
