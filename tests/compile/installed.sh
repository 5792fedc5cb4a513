#!/usr/bin/env bash
# The example of docs/compile.md, compiled and run against what is installed, alone.
#   installed.sh BUILD
set -u
build=$1 work=$(mktemp -d) tree=$1/test-install
trap 'rm -rf "$work"' EXIT
command -v gcc >/dev/null && command -v pkg-config >/dev/null || { echo "skipped: no gcc or pkg-config"; exit 77; }
nm "$build/libvertebra.so" | grep -q asan && { echo "skipped: sanitizers"; exit 77; }
fail() { echo "FAIL: $*"; exit 1; }

rm -rf "$tree"
DESTDIR=$tree cmake --install "$build" --prefix /usr >"$work/log" || fail "$(cat "$work/log")"
pc=$(dirname "$(find "$tree" -name vertebra.pc)")
flags=$(PKG_CONFIG_PATH=$pc pkg-config --cflags --libs vertebra) || fail "pkg-config does not know vertebra"
sed -n '/^```c$/,/^```$/p' docs/compile.md | sed '/^```/d' >"$work/app.c"
gcc -std=c17 -Wall -Wextra -Werror "$work/app.c" -o "$work/app" $flags -Wl,-rpath,"$(dirname "$pc")" || fail "the example does not compile"

unset VTB_MODELS
cd "$work" # and no models beside it
out=$("$work/app" vil_nano) || fail "the example failed: $out"
grep -q '^class [0-9]' <<<"$out" || fail "no class in: $out"
out=$("$work/app" vil_nanno 2>&1) && fail "a wrong name succeeded"
grep -q 'did you mean' <<<"$out" || fail "no advice in: $out"
printf 'model m() {\n  input image: image[1, 6, 6]\n  output y = imag\n}\n' >wrong.vtb
out=$("$work/app" wrong.vtb 2>&1) && fail "a wrong source succeeded"
grep -q '^wrong.vtb:3:14: ' <<<"$out" || fail "no place in: $out"

shown=$(nm -D --defined-only "$build/libvertebra.so" | awk '{print $3}' | grep -vE '^vtb_(compile_(model|file|onnx|stage)|report_[a-z]+|model_[a-z_]+|session_[a-z_]+|version|abi_version)$')
[ -z "$shown" ] || fail "the library shows $shown"
exit 0
