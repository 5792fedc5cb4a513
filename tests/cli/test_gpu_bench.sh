# The benchmarks of machines with a GPU, tried on the CPU at tiny sizes: every measurement of ours gives a number, the report
# has them, and a second run measures nothing again.
. tests/cli/lib.sh
command -v python3 >/dev/null || exit 77
export PYTHONDONTWRITEBYTECODE=1
bench() { expect "$1" python3 tests/gpu/bench.py --vertebra "$VERTEBRA" --device cpu --quick --ours --seconds 0.01 --out "$work/bench" "${@:2}"; }
bench 0
silent_about failed
says "model/28/b2/vir_nano/train "
# the backward time is a difference: of a mixer so small, noise may make it negative
report=$(cat "$work/bench/report.md")
for row in "copy, GB/s | [0-9]" "product fp32, TFLOP/s | [0-9]" "vil_nano | forward | [0-9.,]* | [0-9.,]* | [0-9]* %" \
  "vir_nano | training | [0-9]" "mlstm | batch 2 tokens 24 .* | vertebra | [0-9.]* | -\?[0-9]" "vil_nano | 28 | 2 | forward | [0-9]" \
  "times torch.compile | 5.00 | not measured"; do
  grep -q "$row" <<<"$report" || fail "the report has no row like \"$row\":
$report"
done
case "$(cat "$work/bench/percent.svg")" in *"vil_nano forward"*) ;; *) fail "the chart lacks a bar" ;; esac

# results stay: nothing is measured twice, and a line that was cut off is
lines=$(wc -l <"$work/bench/results.jsonl")
sed -i '$d' "$work/bench/results.jsonl"
printf '{"id": "directions/28' >>"$work/bench/results.jsonl"
bench 0
says "[1/1] directions/28/vil_nano/forward/quad"
# one line for the machine, one for what was cut off, one measured
[ "$(wc -l <"$work/bench/results.jsonl")" = $((lines + 2)) ] || fail "what was measured was measured again"

# what fails is reported and does not stop the rest
bench 1 --only "ceiling|directions" --again "directions" --vertebra false
says "directions/28/vil_nano/forward/quad"
says "failed"
grep -q "## Without a number" "$work/bench/report.md" || fail "the report does not name what failed"

# the mixers that are measured on a GPU only are there
for cell in retention scan attention; do
  expect 0 "$VERTEBRA" check tests/gpu/cells.vtb --entry ${cell}_cell --image 4x6 -D learn=true
done

# the limits: FLOPs of ViL-B and Vim-Ti at 224 pixels, weights read once a batch, a training step three times as much or more and the update
expect 0 python3 -c '
import sys; sys.path.insert(0, "tests/gpu")
from sizes import MODELS, limit, regions
gflop = lambda name: sum(r.flop for r in regions(MODELS[name], 224)) / 1e9
assert abs(gflop("vil_base") - 37.0) < 0.1 and abs(gflop("vim_tiny") - 3.0) < 0.05, (gflop("vil_base"), gflop("vim_tiny"))
top = {"device": "cuda", "product": 1e15, "copy": 4e12, "exp": 4e12}
one = limit(MODELS["vil_base"], 224, 1, False, top)
assert limit(MODELS["vil_base"], 224, 128, False, top) < 128 * one
update = 28 * sum(r.weights for r in regions(MODELS["vil_base"], 224)) / top["copy"]
assert 3 * one <= limit(MODELS["vil_base"], 224, 1, True, top) - update <= 3.5 * one'
