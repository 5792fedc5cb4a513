/* The peak of a machine, by small programs. */
#include "frontend/cli/bench/bench_small.h"
#include "frontend/cli/say/progress.h"

#include <string.h>

static const char text[] = "model product(image: size = 32x32, dim: int = 1024) {\n"
                           "  input x: tokens[image, dim]\n"
                           "  output y = matmul(x, param weight: [dim, dim] ~ normal(0.02))\n"
                           "}\n"
                           "model copy(image: size = 32x32, dim: int = 8) {\n"
                           "  input x: tokens[image, dim]\n"
                           "  output y = 2 * x\n"
                           "}\n";

/* How large: powers of two, which every kind of kernel likes. An emulated device is slow, a real
 * one is filled by large sizes only. */
typedef struct sizes {
  int products[BENCH_PRODUCTS]; /* sides of their square matrices */
  int copies[BENCH_COPIES];     /* sides of the squares of tokens, 8 numbers each */
  bool one_thread;
} sizes;
static const sizes of_processor = {{512, 1024}, {64, 256, 1024, 1536}, true};
static const sizes of_many_cores = {{1024, 2048}, {128, 512, 2048, 4096}, true};
static const sizes of_device = {{4096, 8192}, {256, 1024, 2048, 4096}, false};
static const sizes of_emulator = {{32, 64}, {8, 16, 32, 64}, false};
enum { MANY_CORES = 16, TOKEN_NUMBERS = 8 };

static const sizes *sizes_of(const char *target, int threads) {
  const vtb_target *t = vtb_target_find(target);
  const vtb_backend *b = t ? vtb_backend_of(t) : NULL;
  if (b && b->run_plan) return &of_emulator;
  if (b && b->plan) return &of_device;
  return threads < MANY_CORES ? &of_processor : &of_many_cores;
}

typedef struct measuring {
  const cli_model_options *options;
  vtb_error err;
} measuring;

/* height x width tokens of `dim` numbers. */
static vtb_status compile(measuring *m, const char *entry, int height, int width, int dim,
                          vtb_program **program) {
  bench_small small = {.name = "the machine's peak",
                       .text = text,
                       .entry = entry,
                       .height = height,
                       .width = width,
                       .dim = dim};
  return bench_small_compile(m->options, &small, program);
}

static vtb_status best_of(measuring *m, const vtb_program *p, int64_t threads, double seconds,
                          double *best) {
  return bench_small_best(p, threads, seconds, best, &m->err);
}

/* `work` a run over its seconds, with all threads and, if of_one is not NULL, with one. */
static vtb_status rate(measuring *m, const vtb_program *p, const bench_peak *out, double work,
                       double *all, double *of_one) {
  const double seconds = 0.1;
  double best = 1;
  vtb_status status = best_of(m, p, m->options->threads, seconds, &best);
  *all = work / best;
  if (!of_one) return status;
  if (status == VTB_OK && out->threads > 1) status = best_of(m, p, 1, seconds, &best);
  *of_one = work / best;
  return status;
}

static vtb_status measure_product(measuring *m, const sizes *s, int side, bench_peak *out) {
  vtb_program *p = NULL;
  double all = 0, one = 0, work = 2.0 * side * side * side;
  vtb_status status = compile(m, "product", side, 1, side, &p);
  if (status == VTB_OK) status = rate(m, p, out, work, &all, s->one_thread ? &one : NULL);
  vtb_program_free(p);
  if (all > out->rates.product) out->rates.product = all;
  if (one > out->product_of_one) out->product_of_one = one;
  return status;
}

/* The last one is what memory gives. */
static vtb_status measure_copy(measuring *m, const sizes *s, int i, bench_peak *out) {
  int side = s->copies[i];
  bool last = i == BENCH_COPIES - 1;
  vtb_program *p = NULL;
  double bytes = 2.0 * TOKEN_NUMBERS * sizeof(float) * side * side;
  vtb_status status = compile(m, "copy", side, side, TOKEN_NUMBERS, &p);
  if (status == VTB_OK)
    status = rate(m, p, out, bytes, &out->copy, last && s->one_thread ? &out->copy_of_one : NULL);
  vtb_program_free(p);
  out->rates.copies[out->rates.n_copies].bytes = bytes;
  out->rates.copies[out->rates.n_copies++].rate = out->copy;
  return status;
}

vtb_status bench_peak_measure(const cli_model_options *o, bench_peak *out) {
  measuring m = {.options = o};
  const char *target = o->compile.target ? o->compile.target : VTB_DEFAULT_TARGET;
  const vtb_target *known;
  *out = (bench_peak){.target = target,
                      .precision = o->compile.precision ? o->compile.precision : "fp32",
                      .threads = o->threads > 0 ? (int)o->threads : vtb_default_threads()};
  vtb_status status = vtb_compile_target(target, false, &known, &m.err);
  if (status != VTB_OK) return cli_error(&m.err);
  const sizes *s = sizes_of(target, out->threads);
  cli_progress_note("measuring the machine's peak");
  for (int i = 0; i < BENCH_PRODUCTS && status == VTB_OK; i++)
    status = measure_product(&m, s, s->products[i], out);
  for (int i = 0; i < BENCH_COPIES && status == VTB_OK; i++) status = measure_copy(&m, s, i, out);
  cli_progress_clear();
  return status;
}

void bench_peak_tell(const bench_peak *p, doc *d, cJSON *out) {
  double product = 1e-9 * p->rates.product, copy = 1e-9 * p->copy,
         product_of_one = 1e-9 * p->product_of_one, copy_of_one = 1e-9 * p->copy_of_one;
  doc_put(out, F("product_gflops", product), F("copy_gbytes", copy), F("threads", p->threads),
          F("target", p->target), F("precision", p->precision));
  doc_say(d, 4, "peak on %s, %d thread%s: product %.1f GFLOP/s, copy %.1f GB/s", p->target,
          p->threads, p->threads == 1 ? "" : "s", product, copy);
  if (p->product_of_one > 0)
    doc_put(out, F("one_thread",
                   doc_object(F("product_gflops", product_of_one), F("copy_gbytes", copy_of_one))));
  if (p->product_of_one > 0 && p->threads > 1)
    doc_say(d, 4, "one thread: product %.1f GFLOP/s, copy %.1f GB/s", product_of_one, copy_of_one);
  vtb_strbuf said = {0};
  cJSON *list = cJSON_AddArrayToObject(out, "copies");
  for (int i = 0; i < p->rates.n_copies; i++) {
    double bytes = p->rates.copies[i].bytes, rate = 1e-9 * p->rates.copies[i].rate;
    doc_item(list, F("bytes", bytes), F("gbytes", rate));
    vtb_strbuf_printf(&said, "%s%.1f GB/s of %.2f MiB", i ? ", " : "", rate, bytes / 1048576);
  }
  doc_say(d, 4, "copies by size: %s", vtb_strbuf_text(&said));
  vtb_strbuf_free(&said);
}
