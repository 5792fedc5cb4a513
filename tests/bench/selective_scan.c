/* State-steps a second of the selective scan, forward and backward, kernel alone: class rates
 * beside the form that writes every decay, exp(delta A) as a tensor [B, N, E, S] and class full. A
 * state-step is one update of one number of the state at one token. Best of many runs; both
 * directions of a block are two scans, the second one backwards.
 *
 *   selective_scan [threads [batch [channels [states]]]]
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
  int64_t batch, tokens, channels, states;
} shape;

static void fail(const char *what) {
  fprintf(stderr, "%s\n", what);
  exit(1);
}

/* ---- the functions that are measured --------------------------------------------------------- */

static void put_types(vtb_strbuf *s, const shape *c, char *row, char *key, char *rates, char *decay,
                      char *state) {
  int64_t b = c->batch, n = c->tokens, e = c->channels, k = c->states;
  (void)s;
  sprintf(row, "f32[%" PRId64 ", %" PRId64 ", 1, %" PRId64 "]", b, n, e);
  sprintf(key, "f32[%" PRId64 ", %" PRId64 ", 1, %" PRId64 "]", b, n, k);
  sprintf(rates, "f32[1, %" PRId64 ", %" PRId64 "]", k, e);
  sprintf(decay, "f32[%" PRId64 ", %" PRId64 ", 1, %" PRId64 ", %" PRId64 "]", b, n, k, e);
  sprintf(state, "f32[%" PRId64 ", 1, %" PRId64 ", %" PRId64 "]", b, k, e);
}

/* The step sizes as [B, N, 1, 1, E], times the rates, exponentiated. */
static void put_decay(vtb_strbuf *s, const shape *c, const char *decay) {
  vtb_strbuf_printf(
      s,
      "  %%u = reshape %%d {shape = [%" PRId64 ", %" PRId64 ", 1, 1, %" PRId64 "]} : f32[%" PRId64
      ", %" PRId64 ", 1, 1, %" PRId64 "]\n  %%g = mul %%u, %%A : %s\n  %%D = exp %%g : %s\n",
      c->batch, c->tokens, c->channels, c->batch, c->tokens, c->channels, decay, decay);
}

static void put_forward(vtb_strbuf *s, const shape *c, bool stored, bool both) {
  char row[64], key[64], rates[64], decay[96], state[64];
  put_types(s, c, row, key, rates, decay, state);
  vtb_strbuf_printf(s, "func @f(%%q: %s, %%k: %s, %%v: %s, %%d: %s, %%A: %s) -> (%s%s%s) {\n", key,
                    key, row, row, rates, row, both ? ", " : "", both ? row : "");
  if (stored) put_decay(s, c, decay);
  for (int i = 0; i <= both; i++) {
    vtb_strbuf_printf(
        s, "  %%y%d, %%S%d = linscan %%q, %%k, %%v, %s {class = \"%s\", mode = \"recurrent\"", i, i,
        stored ? "%D" : "%d, %A", stored ? "full" : "rates");
    if (i) vtb_strbuf_printf(s, ", path = \"rows~@1x%" PRId64 "\"", c->tokens);
    vtb_strbuf_printf(s, ", last = 0} : %s, %s\n", row, state);
  }
  vtb_strbuf_printf(s, "  return %%y0%s\n}\n", both ? ", %y1" : "");
}

static void put_backward(vtb_strbuf *s, const shape *c, bool stored) {
  char row[64], key[64], rates[64], decay[96], state[64];
  put_types(s, c, row, key, rates, decay, state);
  vtb_strbuf_printf(
      s,
      "func @f(%%q: %s, %%k: %s, %%v: %s, %%d: %s, %%A: %s, %%dy: %s) -> (%s, %s, %s, %s, %s) {\n",
      key, key, row, row, rates, row, key, key, row, row, rates);
  if (stored) put_decay(s, c, decay);
  vtb_strbuf_printf(
      s,
      "  %%dq, %%dk, %%dv, %%dd%s = linscan_grad %%q, %%k, %%v, %s, %%dy {class = \"%s\", mode = ",
      stored ? "" : ", %dA", stored ? "%D" : "%d, %A", stored ? "full" : "rates");
  vtb_strbuf_printf(s, "\"recurrent\"} : %s, %s, %s, %s%s%s\n", key, key, row, stored ? decay : row,
                    stored ? "" : ", ", stored ? "" : rates);
  if (stored)
    vtb_strbuf_printf(
        s,
        "  %%dg = mul %%dd, %%D : %s\n  %%gA = mul %%dg, %%A : %s\n  %%du = reduce_sum %%gA {axes "
        "= [3]} "
        ": %s\n  %%gu = mul %%dg, %%u : %s\n  %%dA = reduce_sum %%gu {axes = [0, 1]} : %s\n",
        decay, decay, row, decay, rates);
  vtb_strbuf_printf(s, "  return %%dq, %%dk, %%dv, %s, %%dA\n}\n", stored ? "%du" : "%dd");
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
  m->entry = vtb_module_find(m, "f");
  vtb_pass_context context = {.module = m, .diags = &d, .batch = 1};
  vtb_program *p = NULL;
  if (vtb_run_pipeline(&context, &(vtb_pipeline_options){.pipeline = "fuse"}, &err) ||
      vtb_jit(m, m->entry, NULL, &p, &err))
    fail(err.text);
  vtb_module_free(m);
  vtb_diags_free(&d);
  return p;
}

/* ---- measuring ------------------------------------------------------------------------------- */

/* Small steps, negative rates, so that states neither vanish nor grow. */
static float *filled(int64_t n, bool steps, bool rates, unsigned *seed) {
  float *x = vtb_aligned_alloc((size_t)n * sizeof *x + 64);
  if (!x) fail("out of memory");
  for (int64_t i = 0; i < n; i++) {
    *seed = *seed * 1664525u + 1013904223u;
    double u = (double)(*seed >> 8) / (1 << 24);
    x[i] = (float)(steps ? 0.001 + 0.1 * u : rates ? -1 - 15 * u : 2 * u - 1);
  }
  return x;
}

/* With one thread the processor's time, which other programs disturb less. */
static double now(int threads) {
  struct timespec t;
  if (threads != 1 || clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t)) return vtb_now();
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Seconds of the best run. */
static double best_time(const vtb_program *p, int n_args, int threads) {
  void **tensors = vtb_xcalloc((size_t)p->n_tensors, sizeof *tensors);
  unsigned seed = 1;
  for (int i = 0; i < p->n_tensors; i++)
    tensors[i] = filled(vtb_tensor_info_count(&p->tensors[i]), i == 3, i == 4 && n_args > 4, &seed);
  void *workspace = vtb_aligned_alloc((size_t)p->workspace_bytes + 64);
  vtb_services *services = vtb_services_default(threads);
  double best = INFINITY, start = vtb_now();
  for (int run = 0; run < 5 || (vtb_now() - start < 0.7 && run < 2000); run++) {
    double t = now(threads);
    if (vtb_program_execute(p, tensors, workspace, services, NULL) != VTB_OK) exit(1);
    t = now(threads) - t;
    if (run > 0 && t < best) best = t;
  }
  vtb_services_free(services);
  for (int i = 0; i < p->n_tensors; i++) free(tensors[i]);
  free(tensors);
  free(workspace);
  return best;
}

static void measure(const char *what, const shape *c, vtb_strbuf *text, int n_scans, int n_args,
                    int threads) {
  vtb_program *p = compile(text->at);
  double seconds = best_time(p, n_args, threads);
  double steps = (double)n_scans * (double)c->batch * (double)c->tokens * (double)c->channels *
                 (double)c->states;
  printf("%7" PRId64 "  %-26s %10.3f ms %10.2f e9 state-steps/s %10.1f MiB\n", c->tokens, what,
         1e3 * seconds, steps / seconds * 1e-9, (double)p->workspace_bytes / 1048576);
  vtb_program_free(p);
  vtb_strbuf_free(text);
}

int main(int argc, char **argv) {
  static const int64_t tokens[] = {197, 1025, 4097};
  int threads = argc > 1 ? atoi(argv[1]) : 0;
  shape c = {argc > 2 ? atoi(argv[2]) : 1, 0, argc > 3 ? atoi(argv[3]) : 384,
             argc > 4 ? atoi(argv[4]) : 16};
  printf("batch %" PRId64 ", %" PRId64 " channels, %" PRId64 " states, %d threads\n%7s\n", c.batch,
         c.channels, c.states, threads ? threads : vtb_default_threads(), "tokens");
  for (int i = 0; i < 3; i++) {
    c.tokens = tokens[i];
    vtb_strbuf s = {0};
    put_forward(&s, &c, false, false);
    measure("forward", &c, &s, 1, 5, threads);
    put_forward(&s, &c, false, true);
    measure("forward, both directions", &c, &s, 2, 5, threads);
    put_forward(&s, &c, true, false);
    measure("forward, decays stored", &c, &s, 1, 5, threads);
    put_backward(&s, &c, false);
    measure("backward", &c, &s, 1, 6, threads);
    put_backward(&s, &c, true);
    measure("backward, decays stored", &c, &s, 1, 6, threads);
  }
  return 0;
}
