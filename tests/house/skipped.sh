#!/usr/bin/env bash
# `./dev test` names the tests that were skipped, with what they say of it, before ctest's summary.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
printf '%s\n' '1/3 Testing: a/tool' '1/3 Test: a/tool' 'Output:' '-----' 'looks for it' 'no nvcc: skipped' '<end of output>' \
  '2/3 Testing: b/b' '2/3 Test: b/b' 'Output:' '-----' 'not me: skipped' '<end of output>' \
  '3/3 Testing: a/data' '3/3 Test: a/data' 'Output:' '-----' 'skipped: VTB_GOLDEN is not set' 'bye' '<end of output>' >"$work/log"
printf '%s\n' '1/3 Test #12: a/tool ........***Skipped   0.06 sec' '2/3 Test   #3: b/b ....   Passed   1.0 sec' \
  '3/3 Test   #7: a/data .........***Skipped   0.06 sec' '' '100% tests passed, 0 tests failed out of 3' '' 'the rest' >"$work/ctest"
printf '%s\n' '1/3 Test #12: a/tool ........***Skipped   0.06 sec' '2/3 Test   #3: b/b ....   Passed   1.0 sec' \
  '3/3 Test   #7: a/data .........***Skipped   0.06 sec' '' '2 skipped:' '  a/data: VTB_GOLDEN is not set' '  a/tool: no nvcc' '' \
  '100% tests passed, 0 tests failed out of 3' '' 'the rest' >"$work/want"
awk -v last="$work/log" -f "$here/../skipped.awk" "$work/ctest" >"$work/got" 2>"$work/err" || cat "$work/err"
diff "$work/want" "$work/got"
# the status is ctest's
grep -q 'ctest .*|$' "$here/../../dev" && grep -q 'set -euo pipefail' "$here/../../dev"
