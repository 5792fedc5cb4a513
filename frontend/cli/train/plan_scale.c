/* See plan_scale.h. Two tables: the batch of a rank held, and the batch of all held. */
#include "frontend/cli/train/plan_scale.h"

#include "frontend/cli/train/plan_rehearse.h"
#include "frontend/compile/outline.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_COUNTS = 32, MOST_RANKS = 1 << 20, PER_RANK = 64, MOST_STEPS = 64 };
static const double BENT = 0.9; /* of what as many ranks alone would do */

typedef VTB_VEC(vtb_scaling_point) points;

/* A step of so many images, with so many ranks on a node. */
typedef struct known_step {
  int64_t batch;
  int together;
  plan_step step;
} known_step;

typedef struct scale_plan {
  const char *what;
  const train_options *options;
  vtb_report *report;
  int64_t counts[MOST_COUNTS];
  int n_counts;
  int64_t per_rank, batch; /* of a rank, held; of all, held */
  bool measured;           /* on this processor; else estimated for a GPU */
  vtb_links links;
  char machine[64];
  known_step steps[MOST_STEPS];
  int n_steps;
  double alone; /* images a second of one rank */
} scale_plan;

static void free_step(plan_step *s) {
  vtb_free(s->buckets);
  *s = (plan_step){.buckets = NULL};
}

/* ---- what is asked for ----------------------------------------------------------------------- */

static int by_size(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

static vtb_status read_counts(const char *text, scale_plan *p) {
  for (const char *at = text; p->n_counts < MOST_COUNTS;) {
    char *end;
    long long n = strtoll(at, &end, 10);
    if (end == at || n < 1 || n > MOST_RANKS || (*end && *end != ',')) break;
    p->counts[p->n_counts++] = n;
    if (!*end) {
      qsort(p->counts, (size_t)p->n_counts, sizeof *p->counts, by_size);
      return VTB_OK;
    }
    at = end + 1;
  }
  return cli_usage_error("train",
                         "--plan-scale takes numbers of ranks, 8,64,512: up to %d of them, each "
                         "from 1 to %d",
                         MOST_COUNTS, MOST_RANKS);
}

/* --batch is that of all on the fewest ranks. */
static vtb_status share_out(scale_plan *p) {
  int64_t fewest = p->counts[0], all = p->options->model.compile.batch;
  p->batch = all ? all : PER_RANK * fewest;
  p->per_rank = p->batch / fewest;
  if (p->per_rank * fewest == p->batch) return VTB_OK;
  return cli_usage_error("train", "--batch %lld cannot be shared out to %lld ranks: %lld or %lld",
                         (long long)p->batch, (long long)fewest,
                         (long long)(p->per_rank ? p->per_rank * fewest : fewest),
                         (long long)((p->per_rank + 1) * fewest));
}

/* ---- steps ----------------------------------------------------------------------------------- */

static vtb_compile_options compile_options(const scale_plan *p) {
  const train_options *o = p->options;
  vtb_compile_options with = cli_compile_options(&o->model, o->source ? o->source : p->what);
  with.training = true;
  if (!with.optimizer) with.optimizer = CLI_DEFAULT_OPTIMIZER;
  with.average = o->train.optim.ema_decay > 0;
  return with;
}

static vtb_status estimated(scale_plan *p, int64_t batch, plan_step *out) {
  vtb_compile_options with = compile_options(p);
  vtb_compilation c = {0};
  vtb_outline outline = {0};
  with.ranks = 2; /* as below */
  vtb_status status = vtb_compilation_open(&c, &with, p->report);
  if (status == VTB_OK) status = vtb_outline_make(&c, batch, NULL, &outline);
  if (status == VTB_OK) {
    out->step = vtb_scaling_of_plan(outline.plan, &outline.launches, &out->buckets);
    snprintf(p->machine, sizeof p->machine, "%s", outline.gpu.name);
  }
  vtb_outline_free(&outline);
  vtb_compilation_free(&c);
  return status;
}

static int threads_of(const scale_plan *p) {
  return p->options->model.threads ? (int)p->options->model.threads : vtb_default_threads();
}

/* One of two ranks is compiled, whatever their number: it does what each of more does. */
static vtb_status rehearsed(scale_plan *p, int64_t batch, int together, plan_step *out) {
  vtb_compile_options with = compile_options(p);
  vtb_compilation c = {0};
  vtb_program *program = NULL;
  with.ranks = 2;
  cli_say("timing %d x %lld images on this machine\n", together, (long long)batch);
  vtb_status status = vtb_compilation_open(&c, &with, p->report);
  if (status == VTB_OK) status = vtb_compilation_program(&c, batch, false, &program);
  if (status == VTB_OK)
    status = plan_rehearse(program, threads_of(p), together, out, &p->report->error);
  vtb_program_free(program);
  vtb_compilation_free(&c);
  return status;
}

/* The step of a rank among so many; the plan's. */
static vtb_status step_of(scale_plan *p, int64_t batch, double ranks,
                          const vtb_scaling_step **out) {
  int together = p->measured ? (int)fmin(ranks, p->links.per_node) : 0;
  for (int i = 0; i < p->n_steps; i++)
    if (p->steps[i].batch == batch && p->steps[i].together == together) {
      *out = &p->steps[i].step.step;
      return VTB_OK;
    }
  if (p->n_steps == MOST_STEPS)
    return vtb_fail(&p->report->error, VTB_E_USAGE, "--plan-scale: too many numbers of ranks");
  known_step *k = &p->steps[p->n_steps++];
  *k = (known_step){.batch = batch, .together = together};
  *out = &k->step.step;
  return p->measured ? rehearsed(p, batch, together, &k->step) : estimated(p, batch, &k->step);
}

static vtb_status point_of(scale_plan *p, int64_t batch, double ranks, vtb_scaling_point *out) {
  const vtb_scaling_step *step = NULL;
  vtb_status status = step_of(p, batch, ranks, &step);
  if (status == VTB_OK) *out = vtb_scaling_at(step, &p->links, ranks);
  return status;
}

/* ---- links ----------------------------------------------------------------------------------- */

/* Few ranks are taken to share this machine, even if it has fewer cores. */
static double ranks_of_a_node(const scale_plan *p) {
  int64_t most = p->counts[p->n_counts - 1], given = p->options->ranks_per_node;
  int cores = vtb_default_threads(), fit = cores / threads_of(p);
  return given ? (double)given : most <= 4 * cores ? (double)most : fit > 1 ? fit : 1;
}

static vtb_status measure_links(scale_plan *p) {
  vtb_links *l = &p->links;
  *l = (vtb_links){.name = "cpu", .direct = true, .per_node = ranks_of_a_node(p)};
  snprintf(p->machine, sizeof p->machine, "this processor");
  if (l->per_node > PLAN_MOST_TOGETHER)
    return vtb_fail(&p->report->error, VTB_E_USAGE,
                    "--ranks-per-node: more than %d ranks cannot be timed together",
                    PLAN_MOST_TOGETHER);
  l->far_bytes = 0.8 * 1.25e9 / l->per_node;
  l->far_latency = 50e-6;
  vtb_status status = plan_measure_links(l->per_node < 2 ? 2 : (int)l->per_node, threads_of(p), l,
                                         &p->report->error);
  snprintf(l->what, sizeof l->what,
           "%.0f ranks a node, %.2g GB/s and %.0f us measured here; 10 Gb/s between nodes assumed",
           l->per_node, 1e-9 * l->near_bytes, 1e6 * l->near_latency);
  return status;
}

static vtb_status prepare(scale_plan *p) {
  const vtb_target *target;
  vtb_scaling_point first = {0};
  vtb_error *err = &p->report->error;
  vtb_status status = vtb_compile_target(p->options->model.compile.target, false, &target, err);
  if (status != VTB_OK) return status;
  const vtb_backend *backend = vtb_backend_of(target);
  p->measured = !backend->plan;
  if (p->measured) {
    status = measure_links(p);
  } else {
    vtb_gpu gpu;
    status = vtb_compile_gpu(p->options->model.compile.machine, cli_how(), &gpu, err);
    const vtb_links *known = status == VTB_OK ? vtb_links_find(gpu.name) : NULL;
    p->links = known ? *known : *vtb_links_find(vtb_gpu_default()->name);
    if (p->options->ranks_per_node) p->links.per_node = (double)p->options->ranks_per_node;
  }
  if (status == VTB_OK) status = point_of(p, p->per_rank, 1, &first);
  if (status == VTB_OK) p->alone = first.images / first.seconds;
  return status;
}

/* ---- tables ---------------------------------------------------------------------------------- */

static double of_ideal(const scale_plan *p, const vtb_scaling_point *at) {
  return at->images / at->seconds / (at->ranks * p->alone);
}

static vtb_status hold_rank(scale_plan *p, points *out) {
  vtb_status status = VTB_OK;
  for (int i = 0; i < p->n_counts && status == VTB_OK; i++) {
    vtb_scaling_point at;
    status = point_of(p, p->per_rank, (double)p->counts[i], &at);
    if (status == VTB_OK) vtb_vec_push(out, at);
  }
  return status;
}

static bool is_crowded(const scale_plan *p, double ranks) {
  return p->measured && fmin(ranks, p->links.per_node) * threads_of(p) > vtb_default_threads();
}

/* The largest cost: waiting, or that fewer images at a time take longer each, as do images on cores
 * that others compute on. */
static const char *costs_most(const scale_plan *p, const vtb_scaling_point *at) {
  double waits = at->exposed + at->slowed + at->spread;
  double small = at->seconds - waits - at->images / (at->ranks * p->alone);
  if (small > fmax(waits, 0.02 * at->seconds))
    return is_crowded(p, at->ranks)                        ? "few cores"
           : at->images >= at->ranks * (double)p->per_rank ? "caches, memory"
                                                           : "small batches";
  return vtb_scaling_limit_names[at->limit];
}

/* The counts that the batch can be shared out to. */
static vtb_status hold_all(scale_plan *p, points *out) {
  vtb_status status = VTB_OK;
  for (int i = 0; i < p->n_counts && status == VTB_OK; i++) {
    vtb_scaling_point at;
    if (p->batch % p->counts[i]) continue;
    status = point_of(p, p->batch / p->counts[i], (double)p->counts[i], &at);
    if (status == VTB_OK) vtb_vec_push(out, at);
  }
  return status;
}

/* The fewest ranks, of powers of two, on which less than BENT of the ideal is left; 0: none. */
static vtb_status bend(scale_plan *p, int64_t *ranks, vtb_scaling_point *at) {
  *ranks = 0;
  for (int64_t n = 2; n <= MOST_RANKS && !*ranks; n *= 2) {
    VTB_TRY(point_of(p, p->per_rank, (double)n, at));
    if (of_ideal(p, at) < BENT) *ranks = n;
  }
  return VTB_OK;
}

/* ---- what is told ---------------------------------------------------------------------------- */

typedef struct scale_report {
  points held, shared;
  int64_t bends; /* 0: nowhere */
  vtb_scaling_point bent;
  double ms, gradients; /* of a rank alone; bytes */
  int buckets;
} scale_report;

static void summarise(const scale_plan *p, scale_report *r) {
  const vtb_scaling_step *s = &p->steps[0].step.step;
  r->ms = 1e3 * (s->work + s->rest);
  r->buckets = s->n_buckets;
  for (int i = 0; i < s->n_buckets; i++) r->gradients += s->buckets[i].bytes;
}

static void add_points(const scale_plan *p, doc *d, const char *name, const points *list) {
  static const doc_column columns[] = {
      {"ranks", "ranks", .width = 6},
      {"nodes", "nodes", .width = 5},
      {"batch", "batch", .width = 8},
      {"ms", "ms", .width = 9, .format = "%.2f"},
      {"images_per_second", "images/s", .width = 10},
      {"of_ideal", "ideal", .width = 6, .format = "%.0f %%", .scale = 100},
      {"sums_ms", "sums ms", .width = 7, .format = "%.2f"},
      {.key = "exposed_ms"},
      {.key = "slowed_ms"},
      {.key = "spread_ms"},
      {.heading = "waits", .width = 7, .format = "%.2f"},
      {"costs_most", "costs most", .width = -1},
  };
  doc_table *t = DOC_TABLE(d, cJSON_AddArrayToObject(d->json, name), columns);
  t->gap = 1;
  for (size_t i = 0; i < list->n; i++) {
    const vtb_scaling_point *at = &list->at[i];
    doc_row(d, t, V(at->ranks), V(at->nodes), V(at->images), V(1e3 * at->seconds),
            V(at->images / at->seconds), V(of_ideal(p, at)), V(1e3 * at->exchange),
            V(1e3 * at->exposed), V(1e3 * at->slowed), V(1e3 * at->spread),
            V(1e3 * (at->exposed + at->slowed + at->spread)), V(costs_most(p, at)));
  }
}

static void tell_scale(const scale_plan *p, const scale_report *r) {
  doc *d = doc_new(doc_object(F("machine", p->machine), F("links", p->links.what),
                              F("batch_per_rank", p->per_rank), F("ms_alone", r->ms),
                              F("gradient_bytes", r->gradients), F("buckets", r->buckets)));
  doc_say(d, 0,
          "%s on %s, %lld images a rank: %.4g ms alone (%s), %.3g MB in %d buckets are summed",
          p->what, p->machine, (long long)p->per_rank, r->ms, p->measured ? "timed" : "estimated",
          1e-6 * r->gradients, r->buckets);
  doc_say(d, 0, "links: %s%s", p->links.what, p->measured ? "" : " (data sheets, not measured)");
  doc_say(d, 0, "\n%lld images a rank, on more ranks more in all:", (long long)p->per_rank);
  add_points(p, d, "same_batch_per_rank", &r->held);
  if (r->bends)
    doc_say(d, 0, "below %.0f %% of ideal from %lld ranks on: %s", 100 * BENT, (long long)r->bends,
            costs_most(p, &r->bent));
  else
    doc_say(d, 0, "above %.0f %% of ideal up to %d ranks", 100 * BENT, MOST_RANKS);
  doc_say(d, 0, "\n%lld images in all, fewer a rank: the same experiment%s", (long long)p->batch,
          r->shared.n ? ":" : ", which none of these ranks can share");
  add_points(p, d, "same_batch", &r->shared);
  if (r->bends) doc_put(d->json, F("bends_at", r->bends), F("bends_for", costs_most(p, &r->bent)));
  cli_tell(d);
}

vtb_status plan_scale(const char *what, const train_options *o, const char *counts) {
  scale_plan p = {.what = what, .options = o, .report = o->model.report};
  scale_report r = {.bends = 0};
  VTB_TRY(read_counts(counts, &p));
  VTB_TRY(share_out(&p));
  vtb_status status = prepare(&p);
  if (status == VTB_OK) status = hold_rank(&p, &r.held);
  if (status == VTB_OK) status = bend(&p, &r.bends, &r.bent);
  if (status == VTB_OK) status = hold_all(&p, &r.shared);
  if (status == VTB_OK) summarise(&p, &r);
  if (status == VTB_OK) tell_scale(&p, &r);
  for (int i = 0; i < p.n_steps; i++) free_step(&p.steps[i].step);
  vtb_vec_free(&r.held);
  vtb_vec_free(&r.shared);
  return cli_report(&o->model, status);
}
