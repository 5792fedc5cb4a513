# Every code has a paragraph, an example and a remedy.
. tests/cli/lib.sh
expect 0 "$VERTEBRA" explain --list
codes=$(cut -d' ' -f1 "$work/out")
[ "$(printf '%s\n' "$codes" | wc -l)" -ge 40 ] || fail "a short catalogue"
for code in $codes; do expect 0 "$VERTEBRA" explain "$code"; says "Remedy:"; done
expect 1 "$VERTEBRA" explain VTB9999; says "no diagnostic"
