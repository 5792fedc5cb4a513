/* Two directions of one cell as two kernels and as one: milliseconds of processor time on one
 * thread (the least of many runs, taken in turns) and the bytes of tensors that the kernels read
 * and write. Batch 1.
 *
 *   joined [tokens ...]
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "codegen/codegen.h"
#include "runtime/launch/threads.h"

typedef struct cell {
  const char *what, *klass, *mode;
  int64_t heads, keys, values;
} cell;

static void fail(const char *what) {
  fprintf(stderr, "%s\n", what);
  exit(1);
}

static vtb_program *compile(const char *text, const char *pipeline) {
  vtb_source source = {.path = "<bench>", .text = text, .n = strlen(text)};
  vtb_diags d = {0};
  vtb_error err = {0};
  vtb_program *p = NULL;
  vtb_module *m = vtb_module_parse(&source, &d);
  if (!m) {
    vtb_diags_print(&d, stderr);
    fail("the IR does not parse");
  }
  m->entry = vtb_module_find(m, "f");
  vtb_pass_context context = {.module = m, .diags = &d, .batch = 1};
  if (vtb_run_pipeline(&context, &(vtb_pipeline_options){.pipeline = pipeline}, &err) ||
      vtb_jit(m, m->entry, NULL, &p, &err))
    fail(err.text);
  vtb_module_free(m);
  vtb_diags_free(&d);
  return p;
}

/* func @f: the cell along rows and backwards, from the same sequences. */
static void put(vtb_strbuf *s, const cell *c, int64_t n) {
  char key[64], value[64], decay[64], rates[64] = "", state[64];
  bool has_rates = strcmp(c->klass, "rates") == 0;
  sprintf(key, "f32[1, %" PRId64 ", %" PRId64 ", %" PRId64 "]", n, c->heads, c->keys);
  sprintf(value, "f32[1, %" PRId64 ", %" PRId64 ", %" PRId64 "]", n, c->heads, c->values);
  sprintf(state, "f32[1, %" PRId64 ", %" PRId64 ", %" PRId64 "]", c->heads, c->keys, c->values);
  sprintf(decay, "f32[1, %" PRId64 ", %" PRId64 "]", n, c->heads);
  if (has_rates)
    sprintf(rates, ", %%A: f32[%" PRId64 ", %" PRId64 ", %" PRId64 "]", c->heads, c->keys,
            c->values);
  if (strcmp(c->klass, "key") == 0) strcpy(decay, key);
  if (has_rates) strcpy(decay, value);
  vtb_strbuf_printf(s, "func @f(%%q: %s, %%k: %s, %%v: %s, %%d: %s%s) -> (%s, %s) {\n", key, key,
                    value, decay, rates, value, value);
  for (int i = 0; i < 2; i++) {
    vtb_strbuf_printf(
        s, "  %%y%d, %%S%d = linscan %%q, %%k, %%v, %%d%s {class = \"%s\", mode = \"%s\"", i, i,
        has_rates ? ", %A" : "", c->klass, c->mode);
    if (strcmp(c->mode, "chunkwise") == 0) vtb_strbuf_puts(s, ", chunk = 64");
    if (i) vtb_strbuf_printf(s, ", path = \"rows~@1x%" PRId64 "\"", n);
    vtb_strbuf_printf(s, ", last = 0} : %s, %s\n", value, state);
  }
  vtb_strbuf_puts(s, "  return %y0, %y1\n}\n");
}

/* ---- measuring ------------------------------------------------------------------------------- */

static double now(void) {
  struct timespec t;
  if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t)) fail("no clock of processor time");
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void fill(float *x, int64_t n, double from, double to, unsigned *seed) {
  for (int64_t i = 0; i < n; i++) {
    *seed = *seed * 1664525u + 1013904223u;
    x[i] = (float)(from + (to - from) * (double)(*seed >> 8) / (1 << 24));
  }
}

/* Tensors of the program, with values that make a stable recurrence. */
static void **tensors_of(const vtb_program *p, bool has_rates) {
  void **tensors = vtb_xcalloc((size_t)p->n_tensors, sizeof *tensors);
  unsigned seed = 1;
  for (int i = 0; i < p->n_tensors; i++) {
    int64_t n = vtb_tensor_info_count(&p->tensors[i]);
    tensors[i] = vtb_aligned_alloc((size_t)n * sizeof(float) + 64);
    if (!tensors[i]) fail("out of memory");
    if (i == 3)
      fill(tensors[i], n, has_rates ? 0.001 : 0.9, has_rates ? 0.1 : 1, &seed);
    else
      fill(tensors[i], n, i == 4 ? -16 : -1, i == 4 ? -1 : 1, &seed);
  }
  return tensors;
}

static double bytes_of(const vtb_program *p) {
  double bytes = 0;
  for (int k = 0; k < p->n_kernels; k++) bytes += p->kernels[k].launches * p->kernels[k].bytes;
  return bytes;
}

static void measure(const cell *c, int64_t n) {
  static const char *const pipelines[] = {"fuse", "grow{directions},fuse"};
  vtb_program *p[2];
  void **tensors = NULL, *workspace[2];
  vtb_strbuf text = {0};
  double best[2] = {INFINITY, INFINITY}, start;
  put(&text, c, n);
  vtb_services *services = vtb_services_default(1);
  for (int i = 0; i < 2; i++) {
    p[i] = compile(text.at, pipelines[i]);
    workspace[i] = vtb_aligned_alloc((size_t)p[i]->workspace_bytes + 64);
    if (!workspace[i]) fail("out of memory");
  }
  tensors = tensors_of(p[0], strcmp(c->klass, "rates") == 0);
  start = vtb_now();
  for (int run = 0; run < 20 || (vtb_now() - start < 1.5 && run < 4000); run++) {
    int i = run % 2;
    double t = now();
    if (vtb_program_execute(p[i], tensors, workspace[i], services, NULL) != VTB_OK) exit(1);
    t = now() - t;
    if (run > 1 && t < best[i]) best[i] = t;
  }
  printf("%-10s %-10s %6" PRId64 " %9.3f %9.3f %7.2f %9.2f %9.2f\n", c->what, c->mode, n,
         1e3 * best[0], 1e3 * best[1], best[0] / best[1], bytes_of(p[0]) / 1048576,
         bytes_of(p[1]) / 1048576);
  for (int i = 0; i < p[0]->n_tensors; i++) free(tensors[i]);
  free(tensors);
  for (int i = 0; i < 2; i++) {
    free(workspace[i]);
    vtb_program_free(p[i]);
  }
  vtb_services_free(services);
  vtb_strbuf_free(&text);
}

int main(int argc, char **argv) {
  static const cell cells[] = {{"Vim-Ti", "rates", "recurrent", 1, 16, 384},
                               {"ViL-T", "scalar", "parallel", 4, 96, 96},
                               {"ViL-T", "scalar", "chunkwise", 4, 96, 96},
                               {"GLA", "key", "chunkwise", 4, 64, 64}};
  static const int64_t tokens[] = {196, 1024, 4096};
  printf("%-10s %-10s %6s %9s %9s %7s %9s %9s\n", "cell", "mode", "tokens", "two, ms", "one, ms",
         "ratio", "two, MiB", "one, MiB");
  for (size_t c = 0; c < sizeof cells / sizeof *cells; c++)
    for (int i = 0; i < (argc > 1 ? argc - 1 : 3); i++) {
      int64_t n = argc > 1 ? atoll(argv[i + 1]) : tokens[i];
      if (strcmp(cells[c].mode, "parallel") == 0 && n > 1024) continue;
      measure(&cells[c], n);
    }
  return 0;
}
