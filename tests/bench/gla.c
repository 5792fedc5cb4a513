/* Scans with a vector decay by form: milliseconds of processor time on one thread, forward and
 * gradient, kernel alone, and the scratch memory that holds states and rows. Best of many runs.
 *
 *   gla [tokens [keys [values [heads]]]]
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

static int64_t scratch_bytes; /* of the largest request */
static void *(*scratch_of)(const vtb_services *s, int64_t bytes);

static void *counted_scratch(const vtb_services *s, int64_t bytes) {
  if (bytes > scratch_bytes) scratch_bytes = bytes;
  return scratch_of(s, bytes);
}

static void fail(const char *what) {
  fprintf(stderr, "%s\n", what);
  exit(1);
}

static vtb_program *compile(const shape *c, const char *klass, const char *mode, int64_t chunk,
                            bool grad) {
  char key[64], value[64], state[64], form[96];
  vtb_strbuf s = {0};
  sprintf(key, "f32[1, %" PRId64 ", %" PRId64 ", %" PRId64 "]", c->tokens, c->heads, c->keys);
  sprintf(value, "f32[1, %" PRId64 ", %" PRId64 ", %" PRId64 "]", c->tokens, c->heads, c->values);
  sprintf(state, "f32[1, %" PRId64 ", %" PRId64 ", %" PRId64 "]", c->heads, c->keys, c->values);
  sprintf(form, chunk ? "mode = \"%s\", chunk = %" PRId64 : "mode = \"%s\"", mode, chunk);
  const char *decay = strcmp(klass, "key") == 0 ? key : value;
  vtb_strbuf_printf(&s, "func @f(%%q: %s, %%k: %s, %%v: %s, %%d: %s%s%s) -> (", key, key, value,
                    decay, grad ? ", %dy: " : "", grad ? value : "");
  if (grad)
    vtb_strbuf_printf(&s,
                      "%s, %s, %s, %s) {\n  %%dq, %%dk, %%dv, %%dd = linscan_grad %%q, %%k, %%v, "
                      "%%d, %%dy {class = "
                      "\"%s\", %s} : %s, %s, %s, %s\n  return %%dq, %%dk, %%dv, %%dd\n}\n",
                      key, key, value, decay, klass, form, key, key, value, decay);
  else
    vtb_strbuf_printf(
        &s,
        "%s) {\n  %%y, %%S = linscan %%q, %%k, %%v, %%d {class = \"%s\", %s, last = 0} : %s, %s\n  "
        "return %%y\n}\n",
        value, klass, form, value, state);
  vtb_source source = {.path = "<bench>", .text = s.at, .n = s.n};
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
  vtb_strbuf_free(&s);
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

static double best_time(const vtb_program *p, double seconds) {
  void **tensors = vtb_xcalloc((size_t)p->n_tensors, sizeof *tensors);
  unsigned seed = 1;
  for (int i = 0; i < p->n_tensors; i++)
    tensors[i] = filled(vtb_tensor_info_count(&p->tensors[i]), i == 3 ? 0.9 : -1, 1, &seed);
  void *workspace = vtb_aligned_alloc((size_t)p->workspace_bytes + 64);
  vtb_services *services = vtb_services_default(1), counting = *services;
  scratch_of = services->scratch;
  counting.scratch = counted_scratch;
  scratch_bytes = 0;
  double best = INFINITY, start = processor_seconds();
  for (int run = 0; run < 4 || (processor_seconds() - start < seconds && run < 2000); run++) {
    double t = processor_seconds();
    if (vtb_program_execute(p, tensors, workspace, &counting, NULL) != VTB_OK) exit(1);
    t = processor_seconds() - t;
    if (run > 0 && t < best) best = t;
  }
  vtb_services_free(services);
  for (int i = 0; i < p->n_tensors; i++) free(tensors[i]);
  free(tensors);
  free(workspace);
  return best;
}

static double milliseconds(const shape *c, const char *klass, const char *mode, int64_t chunk,
                           bool grad) {
  vtb_program *p = compile(c, klass, mode, chunk, grad);
  double best = best_time(p, 0.15);
  vtb_program_free(p);
  return 1e3 * best;
}

static void measure(const shape *c, const char *klass, const char *mode, int64_t chunk) {
  double forward = milliseconds(c, klass, mode, chunk, false);
  double forward_mib = (double)scratch_bytes / 1048576,
         gradient = milliseconds(c, klass, mode, chunk, true);
  printf("%-6s %-10s %5" PRId64 " %10.3f ms %8.2f MiB %10.3f ms %8.2f MiB\n", klass, mode, chunk,
         forward, forward_mib, gradient, (double)scratch_bytes / 1048576);
}

int main(int argc, char **argv) {
  static const int64_t chunks[] = {16, 32, 64, 128, 256};
  shape c = {argc > 1 ? atoi(argv[1]) : 1024, argc > 2 ? atoi(argv[2]) : 64,
             argc > 3 ? atoi(argv[3]) : 64, argc > 4 ? atoi(argv[4]) : 4};
  printf("%" PRId64 " tokens, %" PRId64 " heads, %" PRId64 " keys, %" PRId64
         " values\n%-23s %10s %26s\n",
         c.tokens, c.heads, c.keys, c.values, "class, mode, chunk", "forward", "gradient");
  for (int k = 0; k < 2; k++) {
    const char *klass = k ? "value" : "key";
    measure(&c, klass, "recurrent", 0);
    for (int i = 0; i < 5; i++) measure(&c, klass, "chunkwise", chunks[i]);
    if (c.tokens <= 1024) measure(&c, klass, "parallel", 0);
  }
  return 0;
}
