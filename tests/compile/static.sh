#!/usr/bin/env bash
# Models linked into programs of C and C++: they give what the same models as files give, to the bit, from read-only
# pages; names, headers and damage are checked.
#   static.sh BUILD
set -u
top=$PWD
build=$1 work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for tool in gcc readelf pkg-config; do
  command -v $tool >/dev/null || { echo "skipped: no $tool"; exit 77; }
done
nm "$build/libvertebra.so" | grep -qE 'asan|tsan' && { echo "skipped: sanitizers"; exit 77; }
fail() { echo "FAIL: $*"; exit 1; }
export VTB_MODELS=$top/models VTB_TUNING=off
vertebra=$build/vertebra
case $build in /*) ;; *) build=$top/$build vertebra=$top/$vertebra ;; esac
cd "$work" || exit 1
refused() { # WORDS ARGUMENT...: of build
  local words=$1
  shift
  "$vertebra" build "$@" >out 2>&1 && fail "succeeded: build $*"
  grep -qF -- "$words" out || fail "no \"$words\" in: $(cat out)"
}

# weights, by the compiler's library
cat >save.c <<'C'
#include <stdio.h>
#include "frontend/compile/compile.h"
int main(int argc, char **argv) {
  const char *const defines[] = {"depth=1", "dim=16"};
  vtb_compile_options o = {.size = sizeof o, .model = "vil_nano", .defines = defines, .n_defines = 2};
  vtb_model *m = NULL;
  vtb_session *s = NULL;
  vtb_error err = {0};
  int bad = argc != 2 || vtb_compile_model(&o, &m, NULL) || vtb_session_open(m, NULL, &s, &err) ||
            vtb_session_save(s, argv[1], &err);
  if (bad) fprintf(stderr, "%s\n", err.text);
  return bad;
}
C
gcc -std=c11 -I"$top" save.c -o save -L"$build" -lvertebra -Wl,-rpath,"$build" && ./save w.safetensors || fail "no weights"
model=(vil_nano -D depth=1 -D dim=16 --weights w.safetensors --batch 2)
cell=(mlstm --shape q=Bx2x9x6 --shape k=Bx2x9x6 --shape v=Bx2x9x5 --shape i=Bx2x9 --shape f=Bx2x9 --vjp)
for ending in so o; do
  "$vertebra" build "${model[@]}" -o model.$ending >out 2>&1 && "$vertebra" build "${cell[@]}" -o my-cell.$ending >out 2>&1 ||
    fail "$(cat out)"
done
[ "$(nm -g --defined-only model.o my-cell.o | grep -cE ' [RDd] (model|my_cell)_vtb$')" = 2 ] || fail "$(nm -g model.o my-cell.o)"
nm -u model.o my-cell.o | grep -vE 'mem(set|cpy|move)$|^$|:$' && fail "it needs that"
readelf -sW model.o | awk '$5 == "GLOBAL" && $6 == "DEFAULT" && $7 != "UND"' | grep -v ' model_vtb$' && fail "it shows that"
mkdir again && "$vertebra" build "${model[@]}" -o again/model.o >out && cmp model.o again/model.o || fail "two builds differ"
"$vertebra" check model.o >out && grep -q 'inference, batch 2' out || fail "check: $(cat out)"
"$vertebra" run model.o "$top"/tests/fuzz/corpus/image/rgb.png >out 2>&1 && fail "an object ran"
grep -q 'is an object, whose code runs in programs' out || fail "$(cat out)"

# every program of both, with the same inputs
cat >compare.c <<'C'
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "model.h"
#include "my-cell.h"
static void need(vtb_status s, const vtb_error *err) {
  if (s != VTB_OK) {
    fprintf(stderr, "%s\n", err->text);
    exit(1);
  }
}
static vtb_array array_of(vtb_session *s, const char *name) {
  vtb_array a;
  vtb_error err;
  err.text[0] = 0;
  a.size = sizeof a;
  need(vtb_session_array(s, VTB_ARRAY_ANY, name, &a, &err), &err);
  return a;
}
/* The memory is nobody's to write. */
static void read_only(const void *at) {
  char line[512];
  FILE *f = fopen("/proc/self/maps", "r");
  while (f && fgets(line, sizeof line, f)) {
    unsigned long from, to;
    char rights[8];
    if (sscanf(line, "%lx-%lx %7s", &from, &to, rights) == 3 && (unsigned long)at >= from && (unsigned long)at < to &&
        strcmp(rights, "r--p") != 0 && strcmp(rights, "r-xp") != 0) {
      fprintf(stderr, "parameters lie in %s", line);
      exit(1);
    }
  }
  if (f) fclose(f);
}
static int compare(const vtb_static_model *linked, const char *path, vtb_session_role role) {
  vtb_error err;
  vtb_open_options o;
  vtb_session_options so;
  vtb_model *m[2];
  vtb_session *s[2];
  vtb_program_info p;
  int number = 0, compared = 0;
  memset(&err, 0, sizeof err), memset(&o, 0, sizeof o), memset(&so, 0, sizeof so), memset(&p, 0, sizeof p);
  o.size = sizeof o, o.verify = true, so.size = sizeof so, so.role = role, so.threads = 1, p.size = sizeof p;
  need(vtb_model_open(path, &o, &m[0], &err), &err);
  need(vtb_model_open_static(linked, &o, &m[1], &err), &err);
  for (int i = 0; i < 2; i++) need(vtb_session_open(m[i], &so, &s[i], &err), &err);
  for (; vtb_model_program(m[1], number, &p, NULL) == VTB_OK && p.role != role;) number++;
  for (int pass = 0; pass < 2; pass++)
    for (int i = 0; i < p.n_arrays; i++) {
      vtb_array a;
      size_t n = 4;
      a.size = sizeof a;
      need(vtb_model_array(m[1], number, i, &a, &err), &err);
      for (int d = 0; d < a.rank; d++) n *= (size_t)a.dim[d];
      if (a.kind == VTB_ARRAY_PARAMETER) read_only(a.data);
      vtb_array x = array_of(s[0], a.name), y = array_of(s[1], a.name);
      bool given = a.kind == VTB_ARRAY_INPUT || a.kind == VTB_ARRAY_ADJOINT;
      for (size_t k = 0; given && !pass && k < n / 4; k++)
        ((float *)x.data)[k] = ((float *)y.data)[k] = (float)((k * 37 + strlen(a.name)) % 19) / 19 - 0.4f;
      if (pass && memcmp(x.data, y.data, n) != 0) fprintf(stderr, "%s differs\n", a.name), exit(1);
      if (pass && !given && a.kind != VTB_ARRAY_PARAMETER) compared++;
      if (!pass && i == p.n_arrays - 1)
        for (int k = 0; k < 2; k++) need(vtb_session_run(s[k], 0, &err), &err);
    }
  for (int i = 0; i < 2; i++) vtb_session_close(s[i]), vtb_model_release(m[i]);
  return compared;
}
int main(void) {
  int n = compare(&model_vtb, "model.so", VTB_SESSION_INFER) + compare(&my_cell_vtb, "my-cell.so", VTB_SESSION_INFER) +
          compare(&my_cell_vtb, "my-cell.so", VTB_SESSION_VJP);
  printf("%d arrays\n", n);
  return n != 1 + 4 + 4 + 5;
}
C
cp compare.c compare.cpp
warnings="-Wall -Wextra -Wpedantic -Werror -I$top/runtime -I."
depends=$(PKG_CONFIG_PATH=$build pkg-config --static --libs-only-l vertebra_rt | sed 's/-lvertebra_rt//') || fail "no vertebra_rt.pc"
shared="-L$build -lvertebra_rt -Wl,-rpath,$build"
linked() { # WHAT COMMAND...: a program that compares
  local what=$1
  shift
  "$@" -o app 2>out || fail "$what does not link: $(cat out)"
  ./app >out 2>&1 || fail "$what: $(cat out)"
  readelf -dW app | grep -q TEXTREL && fail "$what has relocations in its text"
  readelf -lW app | grep GNU_STACK | grep -q 'RWE' && fail "$what has a stack that runs"
  return 0
}
linked "a program of C" gcc -std=c11 $warnings compare.c model.o my-cell.o -pie -fPIE -Wl,-z,text $shared
linked "a program at a fixed address" gcc -std=c11 $warnings compare.c model.o my-cell.o -no-pie $shared
linked "a program with the runtime in it" gcc -std=c11 $warnings compare.c model.o my-cell.o "$build/libvertebra_rt.a" $depends
command -v g++ >/dev/null && linked "a program of C++" g++ -std=c++17 $warnings compare.cpp model.o my-cell.o $shared
for ld in bfd gold lld mold; do
  gcc -fuse-ld=$ld -x c - -o probe <<<'int main(void) { return 0; }' 2>/dev/null &&
    linked "a program by $ld" gcc -fuse-ld=$ld -std=c11 $warnings compare.c model.o my-cell.o $shared
done
# nothing of it is loaded where everything is static, if this machine has its libraries as archives
if gcc -static-pie -std=c11 $warnings compare.c model.o my-cell.o "$build/libvertebra_rt.a" $depends -o app 2>/dev/null; then
  cat >alone.c <<'C'
#include <stdio.h>
#include "model.h"
int main(void) {
  vtb_model *m;
  vtb_session *s;
  vtb_error err = {0};
  vtb_array y = {.size = sizeof y};
  /* the one is not loaded, the other runs; a library of images is not loaded either */
  if (vtb_model_open("model.so", NULL, &m, &err) || vtb_session_open(m, NULL, &s, &err) != VTB_E_INPUT) return 2;
  puts(err.text);
  vtb_model_release(m);
  err.text[0] = 0;
  if (vtb_model_open_static(&model_vtb, NULL, &m, &err) || vtb_session_open(m, NULL, &s, &err) ||
      vtb_session_run(s, 1, &err) || vtb_session_array(s, VTB_ARRAY_OUTPUT, NULL, &y, &err))
    return puts(err.text), 1;
  if (vtb_session_load_image(s, NULL, 0, IMAGE, &err) != VTB_E_DEVICE) return 3;
  puts(err.text);
  vtb_session_close(s);
  vtb_model_release(m);
  return 0;
}
C
  gcc -static-pie -DIMAGE="\"$top/tests/runtime/images/turned6.jpg\"" -std=c11 $warnings alone.c model.o "$build/libvertebra_rt.a" $depends -o app 2>/dev/null && ./app >out ||
    fail "a program that is all static does not run: $(cat out)"
  [ "$(grep -c 'is linked statically' out)" = 2 ] || fail "$(cat out)"
fi

# damage: found at once in the manifest, by its hash in the parameters
size=$(stat -c %s model.o)
for at in $((size - 300)) $((size - 9000)); do
  { head -c $at model.o; printf '\377\376'; tail -c +$((at + 3)) model.o; } >bad.o
  gcc -std=c11 $warnings compare.c bad.o my-cell.o $shared -o app || fail "it does not link"
  ./app >out 2>&1 && fail "a damaged model was not found"
  grep -q 'model is damaged' out || fail "$(cat out)"
  "$vertebra" check bad.o >out 2>&1 && fail "check finds nothing"
  grep -q 'is damaged' out || fail "$(cat out)"
done
head -c $((size - 9)) model.o >cut.o
# (not every linker looks)
gcc -std=c11 $warnings compare.c cut.o my-cell.o $shared -o app 2>/dev/null && ./app >out 2>&1 && fail "a cut object runs"
"$vertebra" check cut.o >out 2>&1 && fail "check takes a cut object"

# names, and headers of others
refused "writes .so or .o, which" "${model[@]}" -o model.a
refused "'3 x' is no name for C" "${model[@]}" -o x.o --name '3 x'
refused "'2nd' is no name for C" "${model[@]}" -o 2nd.o
refused "--name is for objects: -o good.o" "${model[@]}" -o x.so --name good
echo '/* mine */' >mine.h
refused "mine.h is there" "${model[@]}" -o mine.o
[ "$(cat mine.h)" = '/* mine */' ] && [ ! -e mine.o ] || fail "a header of somebody else's was touched"
CC=false refused "false could not link" "${model[@]}" -o x.o
[ -z "$(find . -name 'x.*' -o -name '*.tmp-*')" ] || fail "a refused build left a file"
"$vertebra" build "${model[@]}" -o model.o --name other >out && grep -q 'extern const vtb_static_model other_vtb;' model.h ||
  fail "the header is not written anew: $(cat model.h)"
exit 0
