# Every row of the papers' ablations that docs/papers.md lists is a model of the size that it says.
. tests/cli/lib.sh
rows=0
while IFS='|' read -r _ row settings parameters gmacs _; do
  settings=${settings//\`/} # shellcheck disable=SC2086
  expect 0 "$VERTEBRA" check $settings
  says "parameters   ${parameters// /} "
  says "; ${gmacs// /} GMACs"
  rows=$((rows + 1))
done < <(grep -E '^\|[^|]*\| `[^|]*` \| [0-9,]+ \|' docs/papers.md)
[ $rows -gt 80 ] || fail "docs/papers.md lists $rows rows"
