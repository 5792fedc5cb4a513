# vertebra tune: what it measures is what auto takes; it keeps what others measured, and can be left out.
. tests/cli/lib.sh
unset VTB_TUNING
export XDG_CACHE_HOME=$work/cache VTB_THREADS=1
cat >"$work/m.vtb" <<'VTB'
use std.retention
use std.nn
model m(image: size = 8x8) {
  input x: image[3]
  q = group(patch_embed("embed", x, 64, 2x2, 2x2), 2)
  y = retention_step(q, q, q, vector(retention_decays(2)))
  output logits = linear("head", mean(ungroup(y), axis = "tokens"), 3)
}
VTB
m=("$work/m.vtb")
mode() { expect 0 "$VERTEBRA" check "${m[@]}" --json "$@"; printf '%s' "$out" | "$JSON_GET" recurrences.0.mode; }

# without a table the cost model decides
expect 0 "$VERTEBRA" check "${m[@]}"; says "cheaper than"; silent_about measured
before=$(mode)
expect 0 "$VERTEBRA" cache ls; says "0 tables of tuning"

expect 0 "$VERTEBRA" tune "${m[@]}" --train --seconds 0.02 --json
json cases.1.op linscan_grad cases.0.op linscan cases.0.tokens 16 cases.0.batch 1 target cpu cases.0.cost_model.mode "$before"
file=$(printf '%s' "$out" | "$JSON_GET" file)
[ "$(dirname "$file")" = "$work/cache/vertebra/tuning" ] || fail "the table is in $file"
[ "$(stat -c %A "$(dirname "$file")" | cut -c6,9)" = -- ] || fail "others can write to the table"
grep -q '^cpu fp32 1 linscan constant 1 16 ' "$file" || fail "no row in $(cat "$file")"
grep -q '^cpu fp32 1 linscan_grad constant 1 16 ' "$file" || fail "no row of the gradient"
expect 0 "$VERTEBRA" tune "${m[@]}" --seconds 0.02 --batch 3; says "fastest: "; says "the cost model takes"
grep -q '^cpu fp32 1 linscan constant 1 16 ' "$file" || fail "rows of before are gone"
grep -q '^cpu fp32 1 linscan constant 3 16 ' "$file" || fail "no row of the other batch"

# auto takes the row that is fastest, and says so
sed -i -E 's/^(cpu fp32 1 linscan constant 1 16 .* chunkwise 8) [0-9]+$/\1 5/' "$file"
expect 0 "$VERTEBRA" check "${m[@]}"; says "chunkwise(8): measured 5e-06 ms against"
[ "$(mode)" = chunkwise ] || fail "auto is $(mode)"
expect 0 "$VERTEBRA" dump "${m[@]}" --stage fused; says 'mode = "chunkwise", chunk = 8'
# but not where something else is asked, where tuning is off, with other threads, or in files
[ "$(mode --mode recurrent)" = recurrent ] || fail "the mode that was asked for was not taken"
[ "$(mode --no-tuning)" = "$before" ] || fail "--no-tuning reads the table"
[ "$(VTB_TUNING=off mode)" = "$before" ] || fail "VTB_TUNING=off reads the table"
expect 0 "$VERTEBRA" check "${m[@]}" --threads 2; silent_about "measured"
expect 0 "$VERTEBRA" build "${m[@]}" -o "$work/tuned.so"
expect 0 "$VERTEBRA" build "${m[@]}" -o "$work/plain.so" --no-tuning
cmp "$work/tuned.so" "$work/plain.so" || fail "a built file depends on this machine's table"
# a sequence between two that were measured
sed -n -E 's/^(cpu fp32 1 linscan constant 1) 16 /\1 60 /p' "$file" >"$work/longer"
cat "$work/longer" >>"$file"
expect 0 "$VERTEBRA" check "${m[@]}" --image 12x12; says ", between 16 and 60 tokens"

# a damaged table decides nothing, and is listed as what it is
expect 0 "$VERTEBRA" cache ls; says "1 table of tuning"; says "times measured on"
echo "cpu fp32 1 nonsense" >>"$file"
[ "$(mode)" = "$before" ] || fail "a damaged table was read"
expect 0 "$VERTEBRA" cache ls; says "is damaged"
expect 0 "$VERTEBRA" cache ls --json; json tuning.0.damaged true
# Ctrl-C: what was measured is kept, in place of the damaged table
"$VERTEBRA" tune "${m[@]}" --train --seconds 1 >"$work/out" 2>"$work/err" &
pid=$!
for ((i = 0; i < 600; i++)); do
  grep -q nonsense "$file" || break
  sleep 0.05
done
kill -INT $pid
wait $pid; status=$?
[ $status = 130 ] || fail "interrupted with $status: $(cat "$work/out" "$work/err")"
grep -q "interrupted after 1 of 2 recurrences" "$work/err" || fail "$(cat "$work/err")"
grep -q '^cpu fp32 1 linscan constant 1 16 ' "$file" || fail "what was measured is lost"
expect 0 "$VERTEBRA" cache ls --json; json tuning.0.damaged false
expect 0 "$VERTEBRA" cache clear; says "1 table of tuning"
[ ! -e "$file" ] || fail "the table is still there"

# wrong use
expect 2 "$VERTEBRA" tune; says "one MODEL is needed"
expect 4 "$VERTEBRA" tune "${m[@]}" --target cuda-emulated; says "no device here runs target cuda-emulated as it is"
expect 0 "$VERTEBRA" tune vit_nano -D depth=1; says "no recurrence that can be computed in more than one form"
expect 1 "$VERTEBRA" tune nothing_such; says "nothing_such"
