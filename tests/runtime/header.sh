#!/usr/bin/env bash
# runtime/vertebra.h alone, as every dialect that it promises; what it shares with base.h; and what the library shows.
#   header.sh LIBRARY
set -u
library=$1 work=$(mktemp -d) bad=0
trap 'rm -rf "$work"' EXIT
fail() { echo "FAIL: $*"; bad=1; }
header=runtime/vertebra.h

cp $header "$work"
cat >"$work/use.c" <<'C'
#include "vertebra.h"
#include "vertebra.h"
vtb_status use(const char *path, vtb_session **s);
vtb_status use(const char *path, vtb_session **s) {
  vtb_error err;
  vtb_model *m = 0;
  vtb_session_options o;
  vtb_array a;
  a.size = sizeof a;
  o.size = sizeof o;
  err.text[0] = 0;
  vtb_status status = vtb_model_open(path, 0, &m, &err);
  if (status == VTB_OK) status = vtb_session_open(m, 0, s, &err);
  if (status == VTB_OK) status = vtb_session_array(*s, VTB_ARRAY_INPUT, 0, &a, &err);
  return status;
}
C
cp "$work/use.c" "$work/use.cpp"
strict="-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror -fsyntax-only"
compiled=0
for dialect in gcc:c11 gcc:c17 g++:c++17 g++:c++20 clang-19:c11 clang-19:c17 clang++-19:c++17 clang:c11 clang:c17 clang++:c++17; do
  compiler=${dialect%%:*} std=${dialect#*:} suffix=c
  case $std in c++*) suffix=cpp ;; esac
  command -v "$compiler" >/dev/null || continue
  "$compiler" -std="$std" $strict -I "$work" "$work/use.$suffix" || fail "$compiler -std=$std"
  compiled=$((compiled + 1))
done
[ $compiled -ge 2 ] || fail "no compiler was found"
needed=$(objdump -p "$library" | awk '$1 == "NEEDED" && $2 !~ /san[.]so/ { print $2 }' | sort | tr '\n' ' ')
[[ $needed =~ ^(ld-linux[^ ]*\ )?libc.so.6\ libm.so.6\ (libz.so.1\ )?$ ]] || fail "the library needs $needed"
includes=$(grep -o '^#include <.*>' $header | sort | tr '\n' ' ')
[ "$includes" = '#include <stdbool.h> #include <stddef.h> #include <stdint.h> ' ] || fail "it includes $includes"

block() { sed -n '/^#ifndef VTB_STATUS_DEFINED/,/^#endif$/p' "$1"; }
[ -n "$(block $header)" ] && [ "$(block $header)" = "$(block runtime/base/base.h)" ] ||
  fail "vtb_status and vtb_error differ between $header and runtime/base/base.h"

grep -o 'vtb_[a-z_]*(' <(grep -v '^ \*' $header | sed -n '/VTB_API/,/;/p') | tr -d '(' | sort -u >"$work/said"
nm -D --defined-only "$library" | awk '{print $3}' | sort -u >"$work/shown"
[ "$(wc -l <"$work/said")" -gt 15 ] || fail "the header was not understood"
diff "$work/said" "$work/shown" >"$work/diff" || fail "functions of the header (<) and symbols of the library (>): $(cat "$work/diff")"
exit $bad
