/* See tune.h. */
#include "frontend/compile/tune.h"
#include "ir/ops.h"

#include <math.h>
#include <string.h>
#include <time.h>

#include "codegen/label.h"
#include "frontend/compile/tuning.h"
#include "ir/recurrence.h"
#include "runtime/base/random.h"
#include "runtime/launch/threads.h"

/* ---- cases ----------------------------------------------------------------------------------- */

enum { LEAST_CHUNK = 8, MOST_CHUNK = 256, LEAST_ROUNDS = 6, MOST_ROUNDS = 1000 };

static vtb_decay_form form_of(const vtb_inst *i) {
  return i->op == VTB_OP_delta ? vtb_delta_of(i).decay->form : vtb_scan_of(i).decay->form;
}

static void add_form(vtb_tune_case *c, const char *mode, int64_t chunk) {
  vtb_tune_form f = {.chunk = chunk};
  snprintf(f.mode, sizeof f.mode, "%s", mode);
  vtb_vec_push(&c->forms, f);
}

/* One that is within an eighth of another says nothing new. */
static void add_chunk(vtb_tune_case *c, int64_t chunk) {
  if (chunk < LEAST_CHUNK || chunk > MOST_CHUNK || chunk >= c->key.tokens) return;
  for (size_t i = 0; i < c->forms.n; i++) {
    int64_t other = c->forms.at[i].chunk;
    if (other && 8 * (other > chunk ? other - chunk : chunk - other) < chunk) return;
  }
  add_form(c, "chunkwise", chunk);
}

/* Chunks to measure: what the cost model takes, equal parts of the tokens, so that no chunk is
 * nearly empty, then powers of two and thrice such. */
static void add_forms(vtb_tune_case *c) {
  add_form(c, "parallel", 0);
  add_form(c, "recurrent", 0);
  add_chunk(c, vtb_attr_int(c->inst, "chunk", 0));
  for (int64_t parts = 2; parts <= 6; parts++) add_chunk(c, (c->key.tokens + parts - 1) / parts);
  for (int64_t chunk = LEAST_CHUNK; chunk <= MOST_CHUNK; chunk *= 2) add_chunk(c, chunk);
  for (int64_t chunk = 3 * LEAST_CHUNK; chunk <= MOST_CHUNK; chunk *= 2) add_chunk(c, chunk);
}

static bool has_case(const vtb_tune *t, const vtb_tuning_key *key) {
  for (size_t i = 0; i < t->cases.n; i++)
    if (vtb_tuning_same_key(&t->cases.at[i].key, key)) return true;
  return false;
}

static void add_case(vtb_tune *t, const vtb_inst *i) {
  bool scan = i->op == VTB_OP_linscan || i->op == VTB_OP_linscan_grad || i->op == VTB_OP_delta;
  if (!scan || form_of(i) > VTB_FORM_VECTOR) return;
  vtb_tune_case c = {.key = vtb_tuning_key_of(i, t->target, t->code.precision,
                                              vtb_tuning_threads(&t->modes.options, t->target)),
                     .inst = i};
  if (has_case(t, &c.key)) return;
  c.name = vtb_label_of(i, "", &t->arena);
  add_forms(&c);
  vtb_vec_push(&t->cases, c);
}

vtb_status vtb_tune_open(const vtb_compilation *c, int64_t batch, vtb_tune *t) {
  *t = (vtb_tune){0};
  vtb_arena_init(&t->arena);
  vtb_error *err = &c->report->error;
  vtb_compilation untuned = *c; /* the modes that the module has are the cost model's */
  untuned.options.no_tuning = true;
  untuned.options.mode = "auto";
  untuned.options.chunk = 0;
  VTB_TRY(vtb_compile_target(c->options.target, false, &t->target, err));
  VTB_TRY(vtb_compile_code(t->target, &c->options, &t->code, err));
  VTB_TRY(vtb_compilation_modes(&untuned, t->target, &t->code, batch, &t->modes));
  for (const vtb_func *f = t->modes.module->first; f; f = f->next)
    for (const vtb_inst *i = f->first; i; i = i->next) add_case(t, i);
  return VTB_OK;
}

void vtb_tune_close(vtb_tune *t) {
  for (size_t i = 0; i < t->cases.n; i++) vtb_vec_free(&t->cases.at[i].forms);
  vtb_vec_free(&t->cases);
  vtb_compilation_free(&t->modes);
  vtb_arena_free(&t->arena);
  *t = (vtb_tune){0};
}

/* ---- one kernel ------------------------------------------------------------------------------ */

/* A function that is the instruction alone, in the form: its operands are arguments, its results
 * are returned, but for final states that it does not compute. */
static vtb_module *module_of(const vtb_inst *inst, const vtb_tune_form *form) {
  vtb_module *m = vtb_module_new("tune");
  vtb_func *f = vtb_func_new(m, "tune", VTB_FUNC_PLAIN, (vtb_span){0});
  vtb_builder b = {.module = m, .func = f};
  vtb_value **operands = vtb_xcalloc((size_t)inst->n_operands + 1, sizeof *operands),
            **returns = vtb_xcalloc((size_t)inst->n_results + 1, sizeof *returns);
  for (int i = 0; i < inst->n_operands; i++)
    operands[i] =
        vtb_func_add_arg(f, vtb_arena_printf(&m->arena, "x%d", i), inst->operands[i]->type);
  vtb_inst *made = vtb_inst_clone(&b, inst, operands);
  vtb_attr_set(made, VTB_A_STR("mode", form->mode));
  vtb_attr_remove(made, "chunk");
  if (form->chunk) vtb_attr_set(made, VTB_A_INT("chunk", form->chunk));
  int n = 0;
  bool states = inst->op != VTB_OP_linscan || vtb_attr_int(inst, "last", 1);
  for (int r = 0; r < made->n_results; r++)
    if (states || r % 2 == 0) returns[n++] = made->results[r];
  vtb_func_set_returns(f, returns, NULL, n);
  m->entry = f;
  vtb_free(operands);
  vtb_free(returns);
  return m;
}

static vtb_status compile_form(const vtb_tune *t, const vtb_inst *inst, const vtb_tune_form *form,
                               vtb_program **program, vtb_error *err) {
  vtb_module *m = module_of(inst, form);
  vtb_diags diags = {0};
  vtb_pass_context context = {.module = m,
                              .diags = &diags,
                              .batch = 1,
                              .target = t->target,
                              .precision = t->code.precision,
                              .asker = vtb_backend_asker(t->target, &t->code),
                              .library = t->code.library};
  vtb_status status = vtb_run_pipeline(&context, &(vtb_pipeline_options){0}, err);
  vtb_asker_free(context.asker);
  if (status == VTB_OK)
    status = vtb_backend_of(t->target)->program(m, m->entry, &t->code, program, err);
  vtb_diags_free(&diags);
  vtb_module_free(m);
  return status;
}

/* ---- runs ------------------------------------------------------------------------------------ */

/* Programs of the forms, which share their tensors. */
typedef struct runs {
  vtb_tune_case *of;
  vtb_program **programs; /* NULL: it failed */
  void **buffers;
  void *workspace;
  vtb_services *services;
  int n_tensors;
  bool native;
} runs;

/* Decays below one; nothing becomes denormal, which would be slow. */
static void fill_input(const vtb_tune_case *c, int tensor, float *x, int64_t n) {
  bool decay = tensor == 3;
  double scale = c->inst->op == VTB_OP_delta ? 0.1 : 1;
  for (int64_t i = 0; i < n; i++) {
    double u = vtb_random_unit((uint64_t)tensor + 1, (uint64_t)i);
    x[i] = (float)(decay ? 0.9 + 0.1 * u : scale * (2 * u - 1));
  }
}

static vtb_status take_buffers(runs *r, vtb_error *err) {
  int64_t bytes = 64;
  const vtb_program *p = NULL;
  for (size_t i = 0; i < r->of->forms.n; i++) {
    if (!r->programs[i]) continue;
    p = r->programs[i];
    if (p->workspace_bytes + 64 > bytes) bytes = p->workspace_bytes + 64;
  }
  if (!p) return VTB_OK;
  r->n_tensors = p->n_tensors;
  r->buffers = vtb_xcalloc((size_t)p->n_tensors + 1, sizeof *r->buffers);
  r->workspace = vtb_aligned_alloc((size_t)bytes);
  for (int i = 0; i < p->n_tensors; i++) {
    int64_t n = vtb_tensor_info_count(&p->tensors[i]);
    r->buffers[i] = vtb_aligned_alloc((size_t)n * 4 + 64);
    if (!r->buffers[i]) return vtb_fail(err, VTB_E_MEMORY, "out of memory for tensors to time");
    fill_input(r->of, i, r->buffers[i], n);
  }
  if (!r->workspace) return vtb_fail(err, VTB_E_MEMORY, "out of memory for a workspace");
  return VTB_OK;
}

static void close_runs(runs *r) {
  for (size_t i = 0; i < r->of->forms.n; i++)
    if (r->programs[i]) vtb_program_free(r->programs[i]);
  for (int i = 0; i < r->n_tensors && r->buffers; i++) vtb_free(r->buffers[i]);
  vtb_free(r->buffers);
  vtb_free(r->workspace);
  vtb_free(r->programs);
  vtb_services_free(r->services);
}

/* Native code on one thread is this thread's: its processor time is what it takes on a machine
 * that does other things, too. */
static double clock_of(const runs *r) {
  struct timespec t;
  bool own = r->of->key.threads == 1 && r->native;
  if (!own || clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t) != 0) return vtb_now();
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* A run of form i, or several short ones; the least time of one. */
static bool time_form(runs *r, size_t i, bool first) {
  const double least = 1e-3;
  vtb_tune_form *form = &r->of->forms.at[i];
  vtb_error err = {0};
  double spent = 0;
  do {
    double begin = clock_of(r);
    if (vtb_program_execute(r->programs[i], r->buffers, r->workspace, r->services, &err) !=
        VTB_OK) {
      form->failed = true;
      vtb_log("tune: %s: %s", form->mode, err.text);
      return false;
    }
    double each = clock_of(r) - begin;
    spent += each;
    if (!first && (!form->seconds || each < form->seconds)) form->seconds = each;
  } while (!first && spent < least);
  if (first) vtb_program_keep(r->programs[i], ~0u);
  return true;
}

/* Forms that are far behind the fastest are seldom run again. */
static bool is_hopeless(const runs *r, size_t i) {
  const vtb_tune_form *best = vtb_tune_fastest(r->of);
  return best && r->of->forms.at[i].seconds > 3 * best->seconds;
}

static void run_rounds(runs *r, double seconds, size_t number, vtb_tune_progress progress,
                       void *user) {
  double begin = vtb_now(), part = 0;
  for (int round = 0; round < MOST_ROUNDS && (part < 1 || round <= LEAST_ROUNDS); round++) {
    for (size_t i = 0; i < r->of->forms.n; i++) {
      if (r->of->forms.at[i].failed || (round > 3 && round % 4 && is_hopeless(r, i))) continue;
      time_form(r, i, round == 0);
      if (progress && !progress(user, number, part < 1 ? part : 1)) return;
    }
    part = (vtb_now() - begin) / seconds;
  }
}

vtb_status vtb_tune_measure(vtb_tune *t, size_t number, double seconds, vtb_tune_progress progress,
                            void *user, vtb_error *err) {
  vtb_tune_case *c = &t->cases.at[number];
  runs r = {.of = c,
            .programs = vtb_xcalloc(c->forms.n + 1, sizeof *r.programs),
            .native = vtb_backend_of(t->target)->object != NULL};
  bool go_on = true;
  r.services = vtb_services_default((int)c->key.threads);
  vtb_status status =
      r.services ? VTB_OK : vtb_fail(err, VTB_E_MEMORY, "out of memory for threads");
  for (size_t i = 0; i < c->forms.n && status == VTB_OK && go_on; i++) {
    vtb_error why = {0};
    status = compile_form(t, c->inst, &c->forms.at[i], &r.programs[i], &why);
    c->forms.at[i].failed = status != VTB_OK;
    if (status == VTB_E_DEVICE || status == VTB_E_MEMORY) *err = why;
    if (status != VTB_OK && status != VTB_E_DEVICE && status != VTB_E_MEMORY) status = VTB_OK;
    go_on = !progress || progress(user, number, 0);
  }
  if (status == VTB_OK && go_on) status = take_buffers(&r, err);
  if (status == VTB_OK && go_on) run_rounds(&r, seconds, number, progress, user);
  close_runs(&r);
  return status;
}

/* ---- results --------------------------------------------------------------------------------- */

const vtb_tune_form *vtb_tune_fastest(const vtb_tune_case *c) {
  const vtb_tune_form *best = NULL;
  for (size_t i = 0; i < c->forms.n; i++) {
    const vtb_tune_form *f = &c->forms.at[i];
    if (f->seconds > 0 && (!best || f->seconds < best->seconds)) best = f;
  }
  return best;
}

void vtb_tune_rows(const vtb_tune_case *c, vtb_tuning *out) {
  for (size_t i = 0; i < c->forms.n; i++) {
    const vtb_tune_form *f = &c->forms.at[i];
    vtb_tuning_row row = {.key = c->key, .chunk = f->chunk};
    if (!(f->seconds > 0)) continue;
    memcpy(row.mode, f->mode, sizeof row.mode);
    row.nanoseconds = (int64_t)ceil(1e9 * f->seconds);
    vtb_tuning_set(out, &row);
  }
}
