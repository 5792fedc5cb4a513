#!/bin/bash
# A study from its cells to its report: it goes on after a kill, a failing cell stops nothing, two runs have the same
# results, several processes share one.
. "$(dirname "$0")/lib.sh"
: "${JSON_GET:?path of json_get}"
small_images 60 40
cd "$work" || exit 1
cat > short.yaml <<'YAML'
epochs: 2
batch: 10
YAML
tiny=(vil_nano -D depth=1 --image 8)
study=("${tiny[@]}" -D dim=16 --vary paths=uni,bi,quad --train short.yaml --data data)
results() { out=$(cat "$1/results.json"); json "${@:2}"; }

# ---- a whole run, with timing: every file is there, and the second start has nothing to do
expect 0 "$VERTEBRA" ablate "${study[@]}" --bench --rounds 1 --seconds 0.02 -o whole
says "page: whole/index.html"
says "at a time"
results whole cells.0.status done cells.2.status done cells.0.settings.paths uni cells.2.settings.paths quad \
  cells.0.train.score top1 cells.0.bench.timed forward study.arrangement grid cells.2.train.seeds.0.val 1 \
  peaks 1
grep -q 'id="paths"' whole/index.html || fail "no picture of the traversals in the page"
[ "$(head -1 whole/results.csv | cut -d, -f1-5)" = model,paths,label,status,img_size ] || fail "$(head -1 whole/results.csv)"
stamp=$(stat -c %Y.%y whole/cells/*/train-0.json)
expect 0 "$VERTEBRA" ablate "${study[@]}" --bench --rounds 1 --seconds 0.02 -o whole
[ "$stamp" = "$(stat -c %Y.%y whole/cells/*/train-0.json)" ] || fail "a finished study trains again"

# ---- records that are cut off are none: their steps are done again
for step in check eval-0; do head -c 100 "whole/cells/paths=uni/$step.json" > cut && cp cut "whole/cells/paths=uni/$step.json"; done
expect 0 "$VERTEBRA" ablate "${study[@]}" --bench --rounds 1 --seconds 0.02 -o whole
says "is damaged: its step is done again"
results whole cells.0.status done
[ "$stamp" = "$(stat -c %Y.%y whole/cells/*/train-0.json)" ] || fail "what is not damaged is done again"

# ---- killed half-way, it goes on; its results are those of a whole run, but for the columns of time
still() { awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) skip[i] = $i ~ /samples_per_sec|step_time|infer_spread|_mib|infer_batch/ }
  { n = split($0, f, ","); line = ""; for (i = 1; i <= n; i++) if (!skip[i]) line = line "," f[i]; print line }' "$1/results.csv"; }
"$VERTEBRA" ablate "${study[@]}" --jobs 1 -o killed > /dev/null 2>&1 &
pid=$!
for ((i = 0; i < 600; i++)); do
  [ "$(ls killed/cells/*/train-0.json 2>/dev/null | wc -l)" -ge 1 ] && break
  sleep 0.05
done
children=$(cat "/proc/$pid/task/$pid/children" 2>/dev/null)
kill -9 $pid
wait $pid 2>/dev/null
for child in $children; do
  for ((i = 0; i < 100; i++)); do kill -0 "$child" 2>/dev/null || break; sleep 0.05; done
  kill -0 "$child" 2>/dev/null && fail "a step outlives the study"
done
before=$(stat -c %y.%n killed/cells/*/train-0.json)
[ "$(wc -l <<< "$before")" -lt 3 ] || fail "the study was over before it was killed"
expect 0 "$VERTEBRA" ablate "${study[@]}" --jobs 1 -o killed
while read -r line; do grep -qF "$line" <<< "$(stat -c %y.%n killed/cells/*/train-0.json)" || fail "$line was done again"; done <<< "$before"
[ "$(still whole)" = "$(still killed)" ] || fail "other results:
$(still whole)
$(still killed)"

expect 0 "$VERTEBRA" ablate "${study[@]}" -o killed --against whole
says "against whole"
results killed against.cells 3 against.only_new 0 against.cells.0.score.difference 0
grep -q 'id="against"' killed/index.html || fail "the page does not compare"

# ---- asked to end, it leaves a report of what there is
"$VERTEBRA" ablate "${study[@]}" --jobs 1 -o asked > asked.out 2> asked.err &
pid=$!
for ((i = 0; i < 600; i++)); do [ -e asked/results.json ] && ls asked/cells/*/train-0 >/dev/null 2>&1 && break; sleep 0.05; done
kill -TERM $pid
wait $pid
[ $? = 143 ] || fail "not ended by the signal: $(cat asked.err)"
results asked cells.2.status pending
grep -q "goes on with it" asked.err || fail "no word of how it goes on: $(cat asked.err)"

# ---- cells that cannot be, that fail, that find no memory: the rest is done
mkdir damaged && head -c 500 data/train-images-idx3-ubyte > damaged/train-images-idx3-ubyte
cp data/train-labels-idx1-ubyte data/t10k-* damaged/
expect 1 "$VERTEBRA" ablate "${tiny[@]}" --vary dim=-1,16 --vary data=damaged,data --train short.yaml -o mixed
says "impossible: VTB"
says "failed: train of seed 0"
results mixed cells.0.status impossible cells.1.status impossible cells.2.status failed cells.3.status done
if ! nm "$VERTEBRA" 2>/dev/null | grep -q __asan_init; then # it needs more addresses than the limit leaves
  expect 1 bash -c 'ulimit -v 2000000; exec "$@"' - "$VERTEBRA" ablate vil_nano --vary batch=1,60000 --bench --rounds 1 --seconds 0.02 -o memory
  says "failed: bench: out of memory"
  results memory cells.0.status done cells.1.status failed
fi

# ---- a folder of classes has no test split: val judges; data that are not there are told at once
"$MAKE_DATA" classes photos 10 red green
expect 0 "$VERTEBRA" ablate vil_nano -D depth=1 -D dim=16 --vary paths=uni,bi --train short.yaml --data photos -o photos-report
says "photos has no test split"
says "val top1 %"
results photos-report cells.0.status done cells.1.status done cells.0.train.rank best
[ ! -e "$(echo photos-report/cells/*/eval-0.json)" ] || fail "evaluated on test"
expect 1 "$VERTEBRA" ablate vil_nano --vary paths=uni,bi --train short.yaml --data nowhere -o nowhere-report
says "no data set at nowhere"
[ ! -e nowhere-report ] || fail "something ran"

# ---- another study does not write into the folder; one that is larger may
expect 2 "$VERTEBRA" ablate "${tiny[@]}" -D dim=16 --vary paths=uni -o whole
says "--extend"
stamp=$(stat -c %y whole/cells/*/train-0.json | sort)
expect 0 "$VERTEBRA" ablate "${tiny[@]}" -D dim=16 --vary paths=uni,bi,quad,oct --train short.yaml --data data --extend -o whole
results whole cells.3.settings.paths oct cells.3.status done
[ "$stamp" = "$(stat -c %y whole/cells/*paths=[ubq]*/train-0.json | sort)" ] || fail "what both studies have is done again"
exit 0
