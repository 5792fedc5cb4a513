#!/usr/bin/env bash
# example.sh FILE: an example model is what its page says: it checks without a warning (but of cells that run step after
# step), its presets too, and every mode agrees with the interpreter, gradients included.
set -euo pipefail
file=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$VERTEBRA" check "$file" >"$work/check" 2>"$work/warnings" || { cat "$work/warnings"; exit 1; }
if grep -E 'warning|error' "$work/warnings" | grep -v VTB3006; then
  echo "$file: warnings"; exit 1
fi
for preset in $(sed -n 's/^preset \([A-Za-z_0-9]*\).*/\1/p' "$file"); do
  "$VERTEBRA" check "$file" --entry "$preset" >/dev/null 2>"$work/warnings" || { cat "$work/warnings"; exit 1; }
done
"$VERTEBRA" verify "$file" >"$work/verify" 2>&1 || { cat "$work/verify"; exit 1; }
grep -q '^ok' "$work/verify" || { cat "$work/verify"; echo "$file: nothing was verified"; exit 1; }
