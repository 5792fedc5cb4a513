#!/usr/bin/env bash
# Models for AArch64 from a machine that is none: test_aarch64.sh BUILD PART
#   runtime   cross-builds what runs them, in BUILD/aarch64
#   nano      vil_nano, as a file and linked in, gives what it gives here; files for other machines are refused in a sentence
#   cell      a selective scan with its gradients gives what its reference case says
#   families  so does every reference case of every family
set -u
top=$PWD build=$1 part=$2
case $build in /*) ;; *) build=$top/$build ;; esac
arm=$build/aarch64 vertebra=$build/vertebra work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAIL: $*"; exit 1; }
need() { command -v "$1" >/dev/null || { echo "skipped: no $1 (apt-get install $2)"; exit 77; }; }
need aarch64-linux-gnu-gcc "gcc-aarch64-linux-gnu libc6-dev-arm64-cross"
need qemu-aarch64 qemu-user
echo 'int main(void) { return 0; }' | aarch64-linux-gnu-gcc -x c - -o "$work/probe" 2>/dev/null ||
  { echo "skipped: aarch64-linux-gnu-gcc links nothing (apt-get install libc6-dev-arm64-cross)"; exit 77; }
there() { qemu-aarch64 -L /usr/aarch64-linux-gnu "$@"; }
export VTB_MODELS=$top/models VTB_TUNING=off NO_COLOR=1 LD_LIBRARY_PATH=

# check CASE...: reference cases as files, compared there
check() {
  local case name pairs=()
  for case in "$@"; do
    name=$(basename "$(dirname "$case")")_$(basename "$case" .safetensors)
    "$vertebra" build "$case" --map tests/golden/cases.map --target cpu:aarch64 -o "$work/$name.so" >"$work/out" 2>&1 ||
      fail "$name: $(cat "$work/out")"
    pairs+=("$work/$name.so" "$case")
  done
  there "$arm/check_built" cpu 2e-4 "${pairs[@]}" || fail "numbers differ there"
}

case $part in
runtime)
  cmake --preset aarch64 -B "$arm" >"$work/out" 2>&1 && cmake --build "$arm" >>"$work/out" 2>&1 || fail "$(tail -n 40 "$work/out")"
  cmake --install "$arm" --prefix "$work/installed" >"$work/out" || fail "$(cat "$work/out")"
  there "$work/installed/bin/vertebra-run" --version | grep -q '^vertebra-run' || fail "what is installed does not run"
  there "$arm/tests/runtime_test_threads" >"$work/out" 2>&1 || fail "threads there: $(cat "$work/out")" ;;

nano)
  cc="-std=c11 -Wall -Wextra -Werror -I$top/runtime -I$work $top/tests/aarch64/scores.c"
  cat >"$work/save.c" <<'C'
#include "frontend/compile/compile.h"
int main(int argc, char **argv) {
  vtb_compile_options o = {.size = sizeof o, .model = "vil_nano"};
  vtb_model *m;
  vtb_session *s;
  vtb_error err;
  return argc != 2 || vtb_compile_model(&o, &m, NULL) || vtb_session_open(m, NULL, &s, &err) || vtb_session_save(s, argv[1], &err);
}
C
  gcc -I"$top" "$work/save.c" -o "$work/save" -L"$build" -lvertebra -Wl,-rpath,"$build" && "$work/save" "$work/w.safetensors" ||
    fail "no weights"
  model=(vil_nano --weights "$work/w.safetensors")
  for level in aarch64 x86-64; do
    "$vertebra" build "${model[@]}" --target cpu:$level -o "$work/$level.so" >"$work/out" 2>&1 || fail "$(cat "$work/out")"
  done
  "$vertebra" build "${model[@]}" --target cpu:aarch64 -o "$work/nano.o" >"$work/out" 2>&1 || fail "$(cat "$work/out")"
  gcc $cc -o "$work/here" "$build/libvertebra_rt.a" -lm || fail "no program"
  aarch64-linux-gnu-gcc $cc -o "$work/file" "$arm/libvertebra_rt.a" -lm || fail "no program of files"
  aarch64-linux-gnu-gcc $cc -DLINKED='"nano.h"' -DMODEL=nano_vtb "$work/nano.o" -static -o "$work/linked" \
    "$arm/libvertebra_rt.a" -lm 2>"$work/out" || fail "no program with the model in it: $(cat "$work/out")"
  "$work/here" "$work/x86-64.so" >"$work/want" || fail "x86-64"
  there "$work/file" "$work/aarch64.so" >"$work/got" || fail "aarch64"
  there "$work/linked" >"$work/got_linked" || fail "aarch64, linked in"
  paste "$work/want" "$work/got" | awk '{ d = $1 - $2; if (!(d * d <= 1e-10)) bad = 1 } END { exit bad || NR != 10 }' ||
    fail "other scores: $(paste "$work/want" "$work/got")"
  cmp "$work/got" "$work/got_linked" || fail "linked in it gives something else"
  there "$arm/vertebra-run" "$work/aarch64.so" | grep -q '1, 1, 28, 28' || fail "vertebra-run does not say what it takes"

  # files for other machines; the second is this one with lesser instructions
  refused() { # SENTENCE COMMAND...
    local want=$1 status=0
    shift
    "$@" >"$work/out" 2>&1 || status=$?
    [ $status = 4 ] && grep -qF -- "$want" "$work/out" || fail "status $status, want 4 and \"$want\": $(cat "$work/out")"
  }
  image=tests/fuzz/corpus/image/rgb.png
  refused "has code for x86-64; this machine has aarch64: build it with --target cpu:aarch64" there "$arm/vertebra-run" "$work/x86-64.so" $image
  case $(uname -m) in x86_64)
    refused "has code for aarch64; this machine has x86-64" "$build/vertebra-run" "$work/aarch64.so" $image
    "$vertebra" build "${model[@]}" --target cpu:x86-64-v4 -o "$work/v4.so" >"$work/out" 2>&1 || fail "$(cat "$work/out")"
    refused "has code for x86-64-v4; this machine has x86-64-v3: build it with --target cpu:x86-64-v3" \
      qemu-x86_64 -cpu Haswell "$build/vertebra-run" "$work/v4.so" $image ;;
  esac ;;

cell) check tests/golden/vim/cell_mixer_v1.safetensors ;;
families) check tests/golden/{delta,heads,mambar,vil,vim,vir,vit,vllama,vrwkv}/*.safetensors ;;
esac
exit 0
