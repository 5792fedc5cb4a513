#!/usr/bin/env bash
# The example of docs/compile.md, compiled and run against what is installed, alone.
#   installed.sh BUILD
set -u
top=$PWD
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

# the programs of docs/examples, by find_package, with a model that the library itself has written the weights of
cat >save.c <<'C'
#include <stdio.h>
#include <vertebra_compile.h>
int main(int argc, char **argv) {
  const char *const defines[] = {"depth=1", "dim=16", "in_channels=3"};
  vtb_compile_options o = {.size = sizeof o, .model = "vil_nano", .defines = defines, .n_defines = 3};
  vtb_model *m = NULL;
  vtb_session *s = NULL;
  vtb_error err = {0};
  int bad = argc != 2 || vtb_compile_model(&o, &m, NULL) || vtb_session_open(m, NULL, &s, &err) ||
            vtb_session_save(s, argv[1], &err);
  if (bad) fprintf(stderr, "%s\n", err.text);
  return bad;
}
C
gcc -std=c11 -Wall -Wextra -Wpedantic -Werror save.c -o save $flags -Wl,-rpath,"$(dirname "$pc")" || fail "save.c does not compile"
./save w.safetensors || fail "no weights"
"$tree/usr/bin/vertebra" build vil_nano -D depth=1 -D dim=16 -D in_channels=3 --weights w.safetensors --batch 4 -o model.so >log ||
  fail "no model: $(cat log)"
images=("$top"/tests/runtime/images/turned6.jpg "$top"/tests/fuzz/corpus/image/rgb.png)
more=()
example() { # FOLDER: built as a project of its own
  cmake -G Ninja -S "$top/docs/examples/$1" -B "$1" "${more[@]}" -DCMAKE_PREFIX_PATH="$tree/usr" -DCMAKE_BUILD_TYPE=Release >log 2>&1 &&
    cmake --build "$1" >log 2>&1 || fail "docs/examples/$1: $(cat log)"
}
example c
# six images: a run of four rows, and one of two
c/classify model.so "${images[@]}" "${images[@]}" "${images[@]}" >one 2>&1 || fail "classify: $(cat one)"
[ "$(grep -c ': class [0-9]' one)" = 6 ] && [ "$(sort -u one | wc -l)" = 2 ] || fail "classify says: $(cat one)"
# both linked into one program
"$tree/usr/bin/vertebra" build vil_nano -D depth=1 -D dim=16 -D in_channels=3 --weights w.safetensors --batch 1 -o one.so >log || fail "$(cat log)"
more=("-DWEIGHTS=$PWD/w.safetensors;$PWD/w.safetensors" "-DSETTINGS=-D;depth=1;-D;dim=16;-D;in_channels=3")
PATH=$tree/usr/bin:$PATH example static
c/classify one.so "${images[@]}" >want && static/ensemble "${images[@]}" | sed 's/ (.*//' | diff want - || fail "two models that are linked in say something else"
more=()
# and gradient descent: the loss falls, and falls to the same number again
"$tree/usr/bin/vertebra" build vil_nano -D depth=1 -D dim=16 -D in_channels=3 --weights w.safetensors --vjp --batch 4 -o vjp.so >log ||
  fail "no gradients: $(cat log)"
c/sgd vjp.so 12 5 >steps 2>&1 || fail "sgd: $(cat steps)"
[ "$(grep -c '^step' steps)" = 12 ] || fail "sgd says: $(cat steps)"
awk '{ if (NR > 1 && $4 >= last) exit 1; if (NR == 1) first = $4; last = $4 } END { exit !(last < 0.8 * first) }' steps || fail "the loss does not fall: $(cat steps)"
c/sgd vjp.so 12 5 | diff - steps || fail "another time sgd gives something else"
c/sgd model.so 1 1 >out 2>&1 && fail "gradients of a file without"
grep -q 'build it with --vjp' out || fail "no advice in: $(cat out)"
c/classify model.so absent.png >out 2>&1 && fail "an absent image succeeded"
grep -q absent.png out || fail "no name in: $(cat out)"
if command -v g++ >/dev/null; then
  example cpp_server
  for i in $(seq 30); do printf '%s\n' "${images[@]}"; done | cpp_server/server model.so >many || fail "the server failed"
  [ "$(wc -l <many)" = 60 ] || fail "the server gave $(wc -l <many) answers"
  diff <(sort -u one) <(sort -u many) || fail "the server's threads give something else"
  echo absent.png | cpp_server/server model.so | grep -q 'absent.png: error: ' || fail "the server does not say what is wrong"
fi
if command -v rustc >/dev/null; then
  # Debian 12's rustc is the floor: no newer edition, no crates; by cargo where it is
  export PKG_CONFIG_PATH=$pc LD_LIBRARY_PATH=$(dirname "$pc")
  if command -v cargo >/dev/null; then
    RUSTFLAGS="-D warnings" cargo build --offline --quiet --manifest-path "$top/docs/examples/rust/Cargo.toml" --target-dir rust >log 2>&1
    rust=rust/debug/classify
  else
    rustc --edition 2021 -D warnings "$top/docs/examples/rust/src/main.rs" -o rust $(pkg-config --libs-only-L vertebra_rt) >log 2>&1
    rust=./rust
  fi || fail "docs/examples/rust: $(cat log)"
  $rust model.so "${images[@]}" "${images[@]}" "${images[@]}" >out 2>&1 || fail "docs/examples/rust: $(cat out)"
  # its first class of each image is that of the example in C
  awk '!/^  /{ image = $0; next } image { print image ": class " $4; image = "" }' out | diff one - || fail "docs/examples/rust gives something else"
  status=0
  $rust model.so absent.png >out 2>&1 || status=$?
  [ "$status" = 1 ] && grep -q '^classify: .*absent.png' out || fail "docs/examples/rust ends with $status: $(cat out)"
  [ ! -e "$top/docs/examples/rust/target" ] || fail "built into the tree"
fi

names='compile_(entries|model|file|onnx|stage)|report_[a-z]+|model_[a-z_]+|session_[a-z_]+|options_from_environment|version|abi_version'
shown=$(nm -D --defined-only "$build/libvertebra.so" | awk '{print $3}' | grep -vE "^vtb_($names)\$")
[ -z "$shown" ] || fail "the library shows $shown"
exit 0
