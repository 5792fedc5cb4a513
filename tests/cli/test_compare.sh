# Runs side by side: seeds in one row, what differs, what cannot be read, tables for terminals and for pages.
. tests/cli/lib.sh
small_images 64 32
tiny_model
cd "$work" || exit 1
run=(tiny.vtb --data data --batch 8 --epochs 6 --val-fraction 0.25 --quiet)

# seeds of one setting are one row, with what they spread; what is no run is said, and the others are compared
mkdir -p report/cells report/cells/other empty
for lr in 1e-9 2e-2; do for seed in 1 2 3; do
  expect 0 "$VERTEBRA" train "${run[@]}" --out "report/cells/lr=$lr/train-$seed" --seed $seed --lr $lr
done; done
cp -r report/cells/lr=1e-9/train-1 report/cells/other/train-1; printf 'no' > report/cells/other/train-1/weights.safetensors
expect 0 "$VERTEBRA" compare report empty
says "| lr 1e-9, 3 seeds | tiny.vtb |"; says " ± "; says "| lr 0.02, seeds 1 2 3 |"; says "% | **100.00 ± 0.00 %** | lr 0.02"
says "not compared: other/train-1: "; says "not compared: empty: cannot open empty/log.jsonl"
[ "$(printf '%s\n' "$out" | grep -c '^| lr ')" = 2 ] || fail "rows: $out"
expect 0 "$VERTEBRA" compare --by-run report; says "| lr=2e-2/train-3 | "; says "| lr 0.02, seed 3 |"
expect 0 "$VERTEBRA" compare report -o seeds.svg --json; json 0.group.runs 3 0.group.ahead false 3.group.ahead true 3.group.mean 1 6.run other/train-1 3.differs.lr 0.02
grep -q "lr 0.02, seed 3" seeds.svg || fail "the legend: $(cat seeds.svg)"
expect 0 env COLUMNS=80 "$VERTEBRA" compare report; says "100.00 ± 0.00 % *"; says "better than every other by more than chance"
[ "$(printf '%s\n' "$out" | sed 's/±/+/g' | grep -v '^not\|^  ' | awk 'length > 80' | wc -l)" = 0 ] || fail "wider than 80: $out"
expect 0 env COLUMNS=80 "$VERTEBRA" compare report --markdown; says "| --- |"
for dim in 8 24; do expect 0 "$VERTEBRA" train "${run[@]}" --out dim$dim -D dim=$dim --epochs 1; done
expect 0 "$VERTEBRA" train "${run[@]}" --out dim16 -D dim=16 --epochs 1 --flip
expect 0 "$VERTEBRA" compare dim8 dim16 dim24; says "| dim 16, flip |"; says "| dim 8 |"
expect 1 "$VERTEBRA" compare empty; says "empty/log.jsonl"
expect 0 "$VERTEBRA" train "${run[@]}" --out named --epochs 1 --label "mine, of course"
expect 0 "$VERTEBRA" compare dim8/ named; says "| mine, of course |"
