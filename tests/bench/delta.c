/* delta beside the scans: milliseconds of processor time on one thread by class and chunk, kernels
 * alone, taken in turns; the least of many runs each.
 *
 *   delta [tokens [keys [values [heads]]]]
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "codegen/codegen.h"
#include "runtime/launch/threads.h"

typedef struct shape {
  int64_t tokens, keys, values, heads;
} shape;

typedef struct kernel {
  char name[64];
  vtb_program *p;
  void **tensors, *workspace;
  double best;
} kernel;

static vtb_services *services;

static void fail(const char *what) {
  fprintf(stderr, "%s\n", what);
  exit(1);
}

static vtb_program *compile(const char *text) {
  vtb_source source = {.path = "<bench>", .text = text, .n = strlen(text)};
  vtb_diags d = {0};
  vtb_error err = {0};
  vtb_module *m = vtb_module_parse(&source, &d);
  if (!m) {
    vtb_diags_print(&d, stderr);
    fail("the IR does not parse");
  }
  vtb_program *p = NULL;
  m->entry = vtb_module_find(m, "f");
  if (vtb_jit(m, m->entry, NULL, &p, &err)) fail(err.text);
  vtb_module_free(m);
  vtb_diags_free(&d);
  return p;
}

static double processor_seconds(void) {
  struct timespec t;
  if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t)) fail("no processor clock");
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Numbers in [low, high). */
static float *filled(int64_t n, double low, double high, unsigned *seed) {
  float *x = vtb_aligned_alloc((size_t)n * sizeof *x + 64);
  if (!x) fail("out of memory");
  for (int64_t i = 0; i < n; i++) {
    *seed = *seed * 1664525u + 1013904223u;
    x[i] = (float)(low + (high - low) * (double)(*seed >> 8) / (1 << 24));
  }
  return x;
}

static const char *const classes[] = {"scalar", "key"};

static kernel make(const shape *s, bool delta, bool by_key, int64_t chunk) {
  kernel k = {.best = INFINITY};
  char key[64], value[64], decay[64], form[96], text[1024];
  const char *rows = delta ? ", 1" : "", *class_ = classes[by_key];
  sprintf(key, "f32[1, %" PRId64 ", %" PRId64 "%s, %" PRId64 "]", s->tokens, s->heads, rows,
          s->keys);
  sprintf(value, "f32[1, %" PRId64 ", %" PRId64 "%s, %" PRId64 "]", s->tokens, s->heads, rows,
          s->values);
  int n = sprintf(decay, "f32[1, %" PRId64 ", %" PRId64, s->tokens, s->heads);
  if (by_key) n += sprintf(decay + n, ", %" PRId64, s->keys);
  sprintf(decay + n, "]");
  sprintf(form, chunk ? "chunkwise\", chunk = %" PRId64 : "recurrent\"", chunk);
  if (delta)
    sprintf(text,
            "func @f(%%k: %s, %%v: %s, %%b: %s, %%d: %s) -> (%s) {\n  %%w = delta %%k, %%v, %%b, "
            "%%d {class = \"%s\", mode = \"%s} : %s\n  return %%w\n}\n",
            key, value, key, decay, value, class_, form, value);
  else
    sprintf(text,
            "func @f(%%q: %s, %%v: %s, %%k: %s, %%d: %s) -> (%s) {\n  %%y, %%S = linscan %%q, %%k, "
            "%%v, %%d {class = \"%s\", mode = \"%s, last = 0} : %s, f32[1, %" PRId64 ", %" PRId64
            ", %" PRId64 "]\n  return %%y\n}\n",
            key, value, key, decay, value, class_, form, value, s->heads, s->keys, s->values);
  sprintf(k.name, "%-8s %-7s %5" PRId64, delta ? "delta" : "linscan", class_, chunk);
  k.p = compile(text);
  k.tensors = vtb_xcalloc((size_t)k.p->n_tensors, sizeof *k.tensors);
  unsigned seed = 1;
  double length = 1 / sqrt((double)s->keys);
  for (int i = 0; i < k.p->n_tensors; i++)
    k.tensors[i] = filled(vtb_tensor_info_count(&k.p->tensors[i]), i == 3 ? 0.9 : -length,
                          i == 3 ? 1 : length, &seed);
  k.workspace = vtb_aligned_alloc((size_t)k.p->workspace_bytes + 64);
  return k;
}

static void run(kernel *k) {
  double t = processor_seconds();
  if (vtb_program_execute(k->p, k->tensors, k->workspace, services, NULL) != VTB_OK) exit(1);
  t = processor_seconds() - t;
  if (t < k->best) k->best = t;
}

int main(int argc, char **argv) {
  static const int64_t chunks[] = {0, 16, 32, 64, 128};
  enum { N_CHUNKS = sizeof chunks / sizeof *chunks, N = 4 * N_CHUNKS };
  shape s = {argc > 1 ? atoi(argv[1]) : 784, argc > 2 ? atoi(argv[2]) : 64,
             argc > 3 ? atoi(argv[3]) : 64, argc > 4 ? atoi(argv[4]) : 3};
  kernel all[N];
  services = vtb_services_default(1);
  for (int i = 0; i < N; i++) all[i] = make(&s, i / 2 % 2 == 0, i % 2, chunks[i / 4]);
  double start = processor_seconds();
  for (int round = 0; round < 5 || (processor_seconds() - start < 4 && round < 2000); round++)
    for (int i = 0; i < N; i++) run(&all[i]);
  printf("%" PRId64 " tokens, %" PRId64 " heads, %" PRId64 " keys, %" PRId64
         " values; ms\nkernel   class   chunk\n",
         s.tokens, s.heads, s.keys, s.values);
  for (int i = 0; i < N; i++) printf("%s %10.3f\n", all[i].name, 1e3 * all[i].best);
  return 0;
}
