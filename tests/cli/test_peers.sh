# `bench --peers` with peers of a script, which the option --python names in place of Python: who is asked for what and
# when, the table, those that have no numbers.
. tests/cli/lib.sh
tiny=(vil_nano -D dim=16 -D depth=1 --image 8 --threads 1 --peers --python "$work/stub" --seconds 0.01)
export TMPDIR=$work/tmp log=$work/log
mkdir "$TMPDIR"
cat >"$work/stub" <<'END'
#!/usr/bin/env bash
[ "$1" = -c ] && case $2 in *'A peer of `vertebra bench --peers`'*) ;; *) exit 1 ;; esac
while read -r job; do
  case $job in
    '{"open":'*)
      echo "$3 $job" >>"$log.open"
      case=$(sed 's/.*"case":"\([^"]*\)".*/\1/' <<<"$job") onnx=$(sed 's/.*"onnx":"\([^"]*\)".*/\1/' <<<"$job")
      [ -s "$case" ] && { [ -s "$onnx" ] || [ -z "$onnx" ]; } || { echo '{"missing":"no files"}'; continue; }
      case $3 in
        openvino) echo '{"missing":"it is not installed"}' ;;
        torch) echo "Killed, say" >&2; exit 1 ;;
        *) echo "{\"about\":\"1.2, of $3\",\"difference\":2e-7}" ;;
      esac ;;
    *)
      echo "$3" >>"$log"
      [ -z "${slow:-}" ] || { touch "$log.slow"; sleep 60; }
      case $3 in onnxruntime) echo '{"times":[3000,1000,2000],"cpu":7}' ;; *) echo "${odd:-{\"times\":[4000]\}}" ;; esac ;;
  esac
done
END
chmod +x "$work/stub"

# peers take turns, and another one begins each round; times in ms, ratios to ours
expect 0 "$VERTEBRA" bench "${tiny[@]}" --rounds 3 --json
json peers 5 timed forward peers.0.name Vertebra peers.0.rounds 3 peers.0.about "$("$VERTEBRA" --version | sed 's/[^0-9]*\([0-9.]*\).*/\1/')"
json peers.1.name "ONNX Runtime" peers.1.best_ms 1000000 peers.1.median_ms 2000000 peers.1.best_cpu_ms 7000 peers.1.about "1.2, of onnxruntime" \
  peers.1.rounds.2.runs 3 peers.1.difference 2e-07 peers.1.img_size 8x8 peers.1.batch 1 peers.1.threads 1 peers.1.model vil_nano
json peers.2.name OpenVINO peers.2.missing "it is not installed" peers.2.rounds 0 peers.4.best_ms 4000000
json peers.3.name PyTorch peers.3.missing "its process ended: Killed, say"
printf '%s' "$out" | "$JSON_GET" peers.0.best_ms peers.1.best_ms peers.1.ratio_of_bests peers.0.median_ms peers.1.median_ms peers.1.ratio_of_medians |
  awk '{ x[NR] = $1 } function near(a, b) { return a > 0.999 * b && a < 1.001 * b }
       END { exit !(x[1] > 0 && near(x[3], x[2] / x[1]) && near(x[6], x[5] / x[4])) }' || fail "ratios are not those of the times: $out"
[ "$(tr '\n' ' ' <"$log")" = "onnxruntime torch.compile onnxruntime torch.compile torch.compile onnxruntime " ] ||
  fail "turns: $(tr '\n' ' ' <"$log")"
[ -z "$(ls "$TMPDIR")" ] || fail "files are left: $(ls "$TMPDIR")"
for word in '"train":false' '"threads":1' '"dim":"16"' '"image":"8x8"' '"form":"[^"]*/models/vil.py"' '"entry":"vil"' '"inputs":\["x"\]'; do
  grep -q "$word" "$log.open" || fail "no $word in $(cat "$log.open")"
done

# every combination; the table, its sentences, and the same as lines
expect 0 env COLUMNS=80 "$VERTEBRA" bench "${tiny[@]}" --rounds 1 --batch 1,2 --csv "$work/t.csv"
says "vil_nano 8x8, batch 2, 1 thread"; says "ONNX Runtime     1000000"; says "missing: it is not installed"; says "PyTorch: missing: its process ended: Killed, say"
awk 'length > 80' "$work/out" | grep . && fail "wider than 80 columns"
[ "$(cut -d, -f1,4,5 "$work/t.csv" | grep -c 'vil_nano,[12],')" = 10 ] || fail "cells: $(cat "$work/t.csv")"
grep -q '^model,img_size,threads,batch,name,best_ms,median_ms,ratio_of_bests,ratio_of_medians,best_cpu_ms,gflops,difference,about,missing$' "$work/t.csv" ||
  fail "columns: $(head -1 "$work/t.csv")"

# some peers alone; a training step has no file; answers that are none
rm -f "$log.open"
expect 0 "$VERTEBRA" bench "${tiny[@]}" --rounds 1 --train --no-update --peer onnxruntime --json; json peers 2 timed "forward, backward"
grep -q '^onnxruntime .*"train":true,"onnx":"".*"optimizer":"".*"labels":"labels"' "$log.open" || fail "a step: $(cat "$log.open")"
odd='no JSON' expect 0 "$VERTEBRA" bench "${tiny[@]}" --rounds 1 --peer torch.compile; says "its answer is no JSON: no JSON"
odd='{}' expect 0 "$VERTEBRA" bench "${tiny[@]}" --rounds 1 --peer torch.compile; says "its answer has no times"

# what is stopped leaves nothing
slow=1 "$VERTEBRA" bench "${tiny[@]}" --rounds 1 --peer onnxruntime >by.out 2>&1 &
pid=$!
waits_for test -e "$log.slow"
kill -INT $pid
wait $pid && fail "it did not stop" || [ $? = 130 ] || fail "another status than Ctrl-C's"
rm by.out
[ -z "$(ls "$TMPDIR")" ] || fail "files are left: $(ls "$TMPDIR")"

# without the packages, or without a Python
if [ -x /usr/bin/python3 ] && ! /usr/bin/python3 -c 'import numpy' 2>/dev/null; then
  expect 0 "$VERTEBRA" bench "${tiny[@]}" --python /usr/bin/python3 --rounds 1 --peer onnxruntime
  says "ONNX Runtime: missing: the package numpy is not installed: /usr/bin/python3 -m pip install numpy"
fi
expect 1 "$VERTEBRA" bench "${tiny[@]}" --python "$work/none"; says "cannot begin $work/none"; says "--python FILE names another"
expect 2 "$VERTEBRA" bench "${tiny[@]}" --peer torches; says "no peer is called 'torches'"
expect 2 "$VERTEBRA" bench "${tiny[@]}" --target cpu; says "leave out --target"
expect 2 "$VERTEBRA" bench "${tiny[@]}" --trace "$work/t.json"; says "without --vary, --trace and --compare"
expect 2 "$VERTEBRA" bench --peers; says "--peers is beside a MODEL"
expect 2 "$VERTEBRA" bench vil_nano vim_nano; says "one MODEL"
expect 1 "$VERTEBRA" bench "${tiny[@]}" -D dim=no; says "dim"

# another processor's code is this one's numbers, measured alone, too
expect 0 "$VERTEBRA" bench vil_nano -D depth=1 --image 8 --cpu x86-64-v2 --runs 1
expect 2 "$VERTEBRA" bench vil_nano --cpu pentium --runs 1; says "unknown cpu \"pentium\""
expect 0 "$VERTEBRA" bench vil_nano -D depth=1 --image 8 --cpu x86-64-v2 --runs 1 --rounds 1 --batch 1,2 --json
json cells.0.command "vertebra bench vil_nano -D depth=1 --image 8 --batch 1 --seconds 1 --json --cpu x86-64-v2 --runs 1"
