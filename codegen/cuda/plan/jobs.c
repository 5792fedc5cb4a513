/* Small launches of a training step as few: jobs of one kernel, which its blocks share out.
 *
 *   if (block < 24) { the first kernel's text } else if (block < 120) { the second's } ...
 *
 * and equal ones stand there once, with the arguments of the job at hand.
 *
 * A step ends each block's way back with sums of parts, casts and other kernels that take less than
 * a launch costs and do not depend on one another. Each moves behind the steps that follow it, as
 * far as none of them touches what it writes or writes what it reads, to the last such launch on
 * its way: their texts become one, in scopes of their own, where vtb_block() counts from the first
 * of the job's blocks. What is moved and joined is decided by addresses alone, so that memory that
 * steps use in turn keeps them in their order; temporaries therefore take turns in a part of the
 * tail (vtb_cuda_temp()).
 */
#include <string.h>

#include "codegen/cuda/cost.h"
#include "codegen/cuda/plan/program.h"
#include "codegen/label.h"

enum { MOST_REFS = 256, MOST_SHARED = 48 << 10 };
static const double most_seconds = 30e-6; /* a launch that is no large one */

typedef VTB_VEC(vtb_cuda_step) steps;

/* One place of the list: a step, or several that become one. */
typedef struct place {
  steps jobs; /* empty: it has moved */
  int n_refs;
} place;

/* ---- what may move --------------------------------------------------------------------------- */

static bool overlap(const vtb_cuda_ref *a, const vtb_cuda_ref *b) {
  if (!((a->access | b->access) & VTB_LAUNCH_WRITE)) return false;
  /* the program's tensors have places in the state */
  if (a->place == VTB_CUDA_STATE && b->place == VTB_CUDA_ARG) return true;
  if (b->place == VTB_CUDA_STATE && a->place == VTB_CUDA_ARG) return true;
  if (a->place != b->place || (a->place == VTB_CUDA_ARG && a->index != b->index)) return false;
  return a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes;
}

static bool is_launch(const vtb_cuda_step *s) { return !s->times && !s->ends_turn; }

static bool conflict(const vtb_cuda_step *a, const vtb_cuda_step *b) {
  if (a->callee || b->callee || !is_launch(a) || !is_launch(b)) return true;
  for (int i = 0; i < a->n_refs; i++)
    for (int k = 0; k < b->n_refs; k++)
      if (overlap(&a->refs[i], &b->refs[k])) return true;
  return false;
}

static bool is_small(const vtb_cuda *c, const vtb_cuda_step *s) {
  const vtb_cuda_kernel *k = s->kernel;
  if (!k || k->arch || k->shared_bytes > MOST_SHARED || k->work.chain > 0) return false;
  for (int u = 0; u < VTB_N_TENSOR_UNITS; u++)
    if (k->work.tensor[u] > 0) return false;
  for (int r = 0; r < s->n_refs; r++)
    if (s->refs[r].map) return false;
  return vtb_gpu_time(vtb_cuda_gpu(c), &k->work).seconds < most_seconds;
}

/* The last place that the step may move to and join; 0: none. */
static size_t target_of(const vtb_cuda *c, const place *at, size_t from, size_t n) {
  const vtb_cuda_step *s = &at[from].jobs.at[0];
  size_t found = 0;
  for (size_t to = from + 1; to < n; to++) {
    const place *p = &at[to];
    for (size_t j = 0; j < p->jobs.n; j++)
      if (conflict(s, &p->jobs.at[j])) return found;
    if (p->jobs.n && is_small(c, &p->jobs.at[0]) && p->n_refs + s->n_refs <= MOST_REFS &&
        p->jobs.at[0].kernel->threads == s->kernel->threads)
      found = to;
  }
  return found;
}

/* ---- one kernel of several ------------------------------------------------------------------- */

/* The arguments of a kernel's text, one after the other: "VTB_IN(float) a0"; false behind the last.
 * *at goes on from "(". */
static bool next_argument(const char **at, char type[64], char name[64]) {
  const char *s = *at + (**at == '(' || **at == ' ' || **at == ','), *end, *space;
  while (*s == ' ') s++;
  if (*s == ')' || *s == 0) return false;
  space = strchr(s, ' ');
  for (end = space; *end != ',' && *end != ')';) end++;
  snprintf(type, 64, "%.*s", (int)(space - s), s);
  snprintf(name, 64, "%.*s", (int)(end - space - 1), space + 1);
  *at = end;
  return true;
}

static void write_arguments(const vtb_cuda_kernel *k, size_t job, vtb_strbuf *out) {
  const char *at = k->text;
  char type[64], name[64];
  while (next_argument(&at, type, name))
    vtb_strbuf_printf(out, "%s%s job%zu_%s", out->n > 1 ? ", " : "", type, job, name);
}

/* The arguments of the job at hand, of n that have one text. */
static void choose_arguments(const vtb_cuda_kernel *k, size_t first, size_t n, vtb_strbuf *out) {
  const char *at = k->text;
  char type[64], name[64];
  while (next_argument(&at, type, name)) {
    vtb_strbuf_printf(out, "    %s %s = ", type, name);
    for (size_t j = 0; j + 1 < n; j++)
      vtb_strbuf_printf(out, "job == %zu ? job%zu_%s : ", j, first + j, name);
    vtb_strbuf_printf(out, "job%zu_%s;\n", first + n - 1, name);
  }
}

/* How many jobs from the first on have its text and as many blocks. */
static size_t count_equal(const steps *jobs, size_t first) {
  size_t n = 1;
  while (first + n < jobs->n && jobs->at[first + n].kernel == jobs->at[first].kernel &&
         jobs->at[first + n].grid == jobs->at[first].grid)
    n++;
  return n;
}

static void write_text(const steps *jobs, vtb_strbuf *out) {
  int64_t begin = 0;
  vtb_strbuf_puts(out, "(");
  for (size_t j = 0; j < jobs->n; j++) write_arguments(jobs->at[j].kernel, j, out);
  vtb_strbuf_puts(out, ") {\n  const int block = vtb_block();\n  ");
  for (size_t j = 0, n; j < jobs->n; j += n) {
    const vtb_cuda_step *s = &jobs->at[j];
    const char *body = strstr(s->kernel->text, ") {\n") + 4;
    long long each = (long long)s->grid, first = (long long)begin;
    n = count_equal(jobs, j);
    begin += s->grid * (int64_t)n;
    if (j + n < jobs->n) vtb_strbuf_printf(out, "if (block < %lld) ", (long long)begin);
    vtb_strbuf_puts(out, "{\n");
    if (n > 1) vtb_strbuf_printf(out, "    const int job = (block - %lld) / %lld;\n", first, each);
    vtb_strbuf_printf(out,
                      "    const auto vtb_block = [block] { return (block - %lld) %% %lld; };\n",
                      first, each);
    choose_arguments(s->kernel, j, n, out);
    vtb_strbuf_printf(out, "%.*s  }%s", (int)(strlen(body) - 2), body,
                      j + n < jobs->n ? " else " : "\n}\n");
  }
}

static void add_work(vtb_work *w, const vtb_work *job) {
  w->blocks += job->blocks;
  w->bytes += job->bytes;
  w->issue += job->issue;
  w->special += job->special;
  w->wavefronts += job->wavefronts;
  w->after += job->after;
  w->phases |= job->phases;
  if (job->threads > w->threads) w->threads = job->threads;
  if (job->shared_bytes > w->shared_bytes) w->shared_bytes = job->shared_bytes;
  if (job->registers > w->registers) w->registers = job->registers;
  if (job->flight > w->flight) w->flight = job->flight;
}

static vtb_cuda_kernel *kernel_of(vtb_cuda *c, const steps *jobs) {
  vtb_strbuf text = {0}, key = {0}, ops = {0};
  vtb_cuda_kernel *k = VTB_NEW(&c->arena, vtb_cuda_kernel);
  const vtb_cuda_kernel *one = jobs->at[0].kernel;
  *k = (vtb_cuda_kernel){
      .c = c, .kind = "jobs", .threads = one->threads, .label = one->label, .spent = true};
  memcpy(k->origin, one->origin, sizeof k->origin);
  for (size_t j = 0; j < jobs->n; j++) {
    one = jobs->at[j].kernel;
    if (one->shared_bytes > k->shared_bytes) k->shared_bytes = one->shared_bytes;
    k->n_args += one->n_args;
    k->flops += one->flops;
    k->label = vtb_label_merge(k->label, one->label, &c->arena);
    add_work(&k->work, &one->work);
    vtb_strbuf_printf(&ops, "%s%s", j ? "; " : "", one->ops);
  }
  write_text(jobs, &text);
  vtb_strbuf_printf(&key, "jobs %d %lld ", k->threads, (long long)k->shared_bytes);
  vtb_strbuf_write(&key, text.at, text.n);
  vtb_cuda_kernel *known = vtb_map_get(&c->kernels, key.at);
  if (known) {
    known->label = vtb_label_merge(known->label, k->label, &c->arena);
    k = known;
  } else {
    k->text = vtb_arena_strdup(&c->arena, text.at);
    k->ops = vtb_arena_strdup(&c->arena, ops.at);
    vtb_vec_push(&c->kernel_list, k);
    vtb_map_set(&c->kernels, key.at, k);
  }
  vtb_strbuf_free(&text);
  vtb_strbuf_free(&key);
  vtb_strbuf_free(&ops);
  return k;
}

static vtb_cuda_step step_of(vtb_cuda *c, const place *p) {
  vtb_cuda_step s = p->jobs.at[0];
  if (p->jobs.n == 1) return s;
  s = (vtb_cuda_step){.kernel = kernel_of(c, &p->jobs)};
  s.refs = VTB_NEW_ARRAY(&c->arena, vtb_cuda_ref, p->n_refs + 1);
  for (size_t j = 0; j < p->jobs.n; j++) {
    const vtb_cuda_step *job = &p->jobs.at[j];
    memcpy(&s.refs[s.n_refs], job->refs, (size_t)job->n_refs * sizeof *job->refs);
    s.n_refs += job->n_refs;
    s.grid += job->grid;
  }
  return s;
}

/* Beside the jobs that have its text. */
static void add_job(place *p, const vtb_cuda_step *s) {
  size_t at = p->jobs.n;
  vtb_vec_push(&p->jobs, *s);
  for (size_t j = 0; j + 1 < p->jobs.n; j++)
    if (p->jobs.at[j].kernel == s->kernel && p->jobs.at[j].grid == s->grid) at = j + 1;
  for (size_t j = p->jobs.n - 1; j > at; j--) p->jobs.at[j] = p->jobs.at[j - 1];
  p->jobs.at[at] = *s;
  p->n_refs += s->n_refs;
}

/* ---- a function ------------------------------------------------------------------------------ */

void vtb__cuda_join_jobs(vtb_cuda *c, vtb_cuda_func *f) {
  size_t first = f->n_prepared, n = f->steps.n - first, kept = first;
  place *at = vtb_xcalloc(n + 1, sizeof *at);
  for (size_t i = 0; i < n; i++) {
    vtb_vec_push(&at[i].jobs, f->steps.at[first + i]);
    at[i].n_refs = f->steps.at[first + i].n_refs;
  }
  for (size_t i = n; i-- > 0;) {
    size_t to = is_small(c, &at[i].jobs.at[0]) ? target_of(c, at, i, n) : 0;
    if (!to) continue;
    add_job(&at[to], &at[i].jobs.at[0]);
    at[i].jobs.n = 0;
  }
  for (size_t i = 0; i < n; i++) {
    if (at[i].jobs.n) f->steps.at[kept++] = step_of(c, &at[i]);
    vtb_vec_free(&at[i].jobs);
  }
  f->steps.n = kept;
  vtb_free(at);
}

void vtb__cuda_drop_kernels(vtb_cuda *c) {
  size_t kept = 0;
  for (size_t i = 0; i < c->funcs.n; i++)
    for (size_t s = 0; s < c->funcs.at[i].steps.n; s++)
      if (c->funcs.at[i].steps.at[s].kernel) c->funcs.at[i].steps.at[s].kernel->number = -1;
  for (size_t i = 0; i < c->kernel_list.n; i++) {
    vtb_cuda_kernel *k = c->kernel_list.at[i];
    if (k->number >= 0) continue;
    k->number = (int)kept;
    c->kernel_list.at[kept++] = k;
  }
  c->kernel_list.n = kept;
}
