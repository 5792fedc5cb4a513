# Every code has a paragraph, an example and a remedy.
. tests/cli/lib.sh
expect 0 "$VERTEBRA" explain --list
codes=$(cut -d' ' -f1 "$work/out")
[ "$(printf '%s\n' "$codes" | wc -l)" -ge 40 ] || fail "a short catalogue"
for code in $codes; do expect 0 "$VERTEBRA" explain "$code"; says "Remedy:"; done
expect 1 "$VERTEBRA" explain VTB9999; says "no diagnostic"

# A function of the language or of std, each once, and what it is near to.
expect 0 "$VERTEBRA" help pad; says "pad(x: tensor, low: int, high: int, axis: string = none)"; says "a function of the language"
expect 0 "$VERTEBRA" help linear; says "fn linear(name: string, x: tensor, out: int"; says "use std.nn"
[ "$(printf "%s\n" "$out" | grep -c "^use std.nn")" = 1 ] || fail "more than one linear"; says "schedule linear("
expect 0 "$VERTEBRA" help mlstm --json; says '"module":	"std.mlstm"'
expect 2 "$VERTEBRA" help pd; says "did you mean 'pad'?"
expect 2 "$VERTEBRA" help chek; says "did you mean 'check'?"
expect 0 "$VERTEBRA" help check; says "usage: vertebra check"
