# The tree of modules: names of weights, shapes, and counts that add up to what `check` says of the whole.
. tests/cli/lib.sh
expect 0 "$VERTEBRA" summary vil_tiny
says "      rowwise_from_top_left   [1, 196, 192]      242,504    51.8 M    4.1"; says "parameters   6,391,528 (24.4 MiB in f32)"
silent_about proj_up
whole=$("$VERTEBRA" check vil_tiny | sed -n 's/^  workspace *\([0-9.]* MiB\).*/\1/p')
says "workspace    $whole"
expect 0 "$VERTEBRA" summary vil_tiny --depth 6; says "            igate"; says linscan
expect 0 "$VERTEBRA" summary vil_tiny --depth 0; silent_about patch_embed
expect 1 "$VERTEBRA" summary vil_tinny; says vil_tiny
expect 2 "$VERTEBRA" summary; says "one MODEL"

for model in vil_tiny hybrid_vir_small visionllama_small models/examples/gru_rows.vtb; do
  expect 0 "$VERTEBRA" check $model --json
  parameters=$(printf '%s' "$out" | "$JSON_GET" parameters) flops=$(printf '%s' "$out" | "$JSON_GET" flops)
  macs=$(printf '%s' "$out" | "$JSON_GET" published_macs)
  expect 0 "$VERTEBRA" summary $model --depth 1 --json
  json parameters "$parameters" flops "$flops" published_macs "$macs"
  n=$(printf '%s' "$out" | "$JSON_GET" modules) sum=0
  for ((i = 0; i < n; i++)); do sum=$((sum + $(printf '%s' "$out" | "$JSON_GET" modules.$i.parameters))); done
  own=$((parameters - sum)) # tokens and tables that stand in no module
  [ $own -ge 0 ] && [ $own -le $((parameters / 3)) ] || fail "$model: modules hold $sum of $parameters parameters"
done

for columns in 60 80; do
  COLUMNS=$columns expect 0 "$VERTEBRA" summary vil_tiny
  longest=$(printf '%s\n' "$out" | sed '/^$/q' | awk '{ if (length($0) > n) n = length($0) } END { print n }')
  [ "$longest" -le $columns ] || fail "a line of $longest characters on $columns columns"
done
