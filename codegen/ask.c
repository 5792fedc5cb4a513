/* Questions are kept by their text (ir/key.h). What is taken has a plan for every architecture, for
 * a module is decided once and built for all. */
#include "codegen/ask.h"

#include <string.h>

#include "codegen/estimate.h"
#include "ir/key.h"
#include "ir/recurrence.h"
#include "ir/rewrite.h"

typedef struct planner {
  vtb_asker head;
  vtb_plan_fn plan;
  vtb_codegen_options code;
  vtb_gpu gpu;
  vtb_map known; /* question -> vtb_answer */
  vtb_arena arena;
  vtb_strbuf question;
} planner;

/* ---- the instructions as a function ---------------------------------------------------------- */

/* The subject of a question: instructions in their order, and what their values are in the
 * function. */
typedef struct asked {
  const vtb_inst *const *insts;
  int n;
  vtb_builder b;
  VTB_VEC(const vtb_value *) outer;
  VTB_VEC(vtb_value *) inner;
} asked;

static bool is_asked(const asked *q, const vtb_inst *i) {
  for (int n = 0; n < q->n; n++)
    if (q->insts[n] == i) return true;
  return false;
}

/* Somebody else reads v; *any: somebody at all. */
static bool is_read(const asked *q, const vtb_value *v, bool *any) {
  vtb_inst **readers;
  size_t n = vtb_value_readers(v, &readers);
  bool read = vtb_is_returned(v);
  for (size_t r = 0; r < n; r++) read |= !is_asked(q, readers[r]);
  *any |= n > 0 || read;
  vtb_free(readers);
  return read;
}

/* Kernels may leave out what nobody reads beside results that are read. Of an instruction that
 * stands nowhere yet all are wanted, but for states that are not computed. */
static bool is_wanted(const asked *q, const vtb_inst *i, int r) {
  bool any = false, read = is_read(q, i->results[r], &any);
  for (int n = 0; n < i->n_results; n++) is_read(q, i->results[n], &any);
  return any ? read : vtb_scan_computes(i, r);
}

static vtb_value *find_value(const asked *q, const vtb_value *v) {
  for (size_t i = 0; i < q->outer.n; i++)
    if (q->outer.at[i] == v) return q->inner.at[i];
  return NULL;
}

static vtb_value *know(asked *q, const vtb_value *v, vtb_value *inner) {
  vtb_vec_push(&q->outer, v);
  vtb_vec_push(&q->inner, inner);
  return inner;
}

/* A view of what is made here is one here. */
static vtb_value *value_of(asked *q, const vtb_value *v) {
  const vtb_value *base = vtb_behind_reshapes(v);
  vtb_value *known = find_value(q, v), *made = base == v ? NULL : find_value(q, base);
  if (known) return known;
  if (made && made->def) return know(q, v, vtb_b_reshape(&q->b, made, &v->type));
  return know(q, v, vtb_func_add_arg(q->b.func, "x", v->type));
}

/* A function of the instructions alone. */
static vtb_func *function_of(vtb_module *m, const vtb_inst *const *insts, int n_insts) {
  vtb_func *f = vtb_func_new(m, "asked", VTB_FUNC_PLAIN, VTB_NO_SPAN);
  asked q = {.insts = insts, .n = n_insts, .b = {.module = m, .func = f}};
  VTB_VEC(vtb_value *) returns = {0};
  for (int n = 0; n < n_insts; n++) {
    const vtb_inst *i = insts[n];
    vtb_value **operands = vtb_xcalloc((size_t)i->n_operands + 1, sizeof *operands);
    for (int o = 0; o < i->n_operands; o++) operands[o] = value_of(&q, i->operands[o]);
    vtb_inst *copy = vtb_inst_clone(&q.b, i, operands);
    if (i->callee) copy->callee = vtb_func_clone(i->callee, m, "body");
    for (int r = 0; r < i->n_results; r++) {
      copy->results[r]->type = i->results[r]->type;
      know(&q, i->results[r], copy->results[r]);
      if (is_wanted(&q, i, r)) vtb_vec_push(&returns, copy->results[r]);
    }
    vtb_free(operands);
  }
  vtb_func_set_returns(f, returns.at, NULL, (int)returns.n);
  m->entry = f;
  vtb_vec_free(&returns);
  vtb_vec_free(&q.outer);
  vtb_vec_free(&q.inner);
  return f;
}

/* ---- the answer ------------------------------------------------------------------------------ */

/* The reason that a plan's error gives, without the instruction, which whoever asks knows. */
static const char *reason(planner *p, const char *text) {
  const char *end = strstr(text, " (no ");
  return vtb_arena_strndup(&p->arena, text, end ? (size_t)(end - text) : strlen(text));
}

static vtb_answer answer(planner *p, vtb_module *m) {
  vtb_launch_plan *plan = NULL, *other = NULL;
  vtb_codegen_options every = p->code;
  vtb_error err = {0};
  vtb_answer a = {0};
  if (p->head.narrow) vtb_storage_guess(m->entry, p->code.precision);
  every.arch = NULL;
  vtb_status status = p->plan(m, m->entry, &p->code, &plan, &err);
  if (status == VTB_OK && p->code.arch) status = p->plan(m, m->entry, &every, &other, &err);
  if (status == VTB_OK) {
    vtb_estimate e = vtb_estimate_plan(plan, &p->gpu, NULL);
    a = (vtb_answer){
        .takes = true, .seconds = e.seconds, .bytes = e.bytes, .launches = (int)e.launches};
  } else {
    a.why = reason(p, err.text);
  }
  vtb_launch_plan_free(plan);
  vtb_launch_plan_free(other);
  return a;
}

static vtb_answer ask(vtb_asker *a, const vtb_inst *const *insts, int n) {
  planner *p = (planner *)a;
  vtb_module *m = vtb_module_new("asked");
  p->question.n = 0;
  vtb_strbuf_puts(&p->question, p->head.narrow ? "narrow " : "");
  vtb_key_body(function_of(m, insts, n), &p->question);
  vtb_answer *known = vtb_map_get(&p->known, p->question.at);
  a->asked++;
  if (!known) {
    a->made++;
    known = VTB_NEW(&p->arena, vtb_answer);
    *known = answer(p, m);
    vtb_map_set(&p->known, p->question.at, known);
  }
  vtb_module_free(m);
  return *known;
}

static void free_all(vtb_asker *a) {
  planner *p = (planner *)a;
  vtb_map_free(&p->known);
  vtb_strbuf_free(&p->question);
  vtb_arena_free(&p->arena);
  vtb_free(p);
}

vtb_asker *vtb_asker_of_plans(vtb_plan_fn plan, const vtb_codegen_options *o) {
  planner *p = vtb_xcalloc(1, sizeof *p);
  *p = (planner){.head = {.ask = ask, .free = free_all},
                 .plan = plan,
                 .code = *o,
                 .gpu = *vtb_gpu_or_default(&o->gpu)};
  p->code.arch = *p->gpu.arch ? p->gpu.arch : NULL;
  vtb_arena_init(&p->arena);
  return &p->head;
}
