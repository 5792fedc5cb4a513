# The studies that come with the program, the papers' tables among them: all their cells are possible, and one runs.
. tests/cli/lib.sh
cd "$work" || exit 1
for file in "$VTB_MODELS"/studies/*.yaml; do
  name=$(basename "$file" .yaml)
  sample=
  case $name in *_modes | *_resolutions) sample="--sample 1" ;; esac
  # shellcheck disable=SC2086
  expect 0 "$VERTEBRA" ablate "$name" $sample --dry-run
  says "nothing was run"; silent_about "impossible"
done
expect 0 "$VERTEBRA" ablate vim_class_token --where 'class_token == double' --seeds 1 -D dim=8 -D depth=1 \
  --updates 2 --limit 64 --batch 16 -o "$work/report"
grep -qE '"status":[[:space:]]*"done"' "$work/report/results.json" || fail "no cell is done"
