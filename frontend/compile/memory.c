/* See memory.h. */
#include "frontend/compile/memory.h"

#include <string.h>

typedef struct fit {
  const vtb_memory_wish *wish;
  vtb_report *report;
  vtb_memory_plan best, least; /* rows 0: there is none yet */
  bool statistics;             /* of the rows of a run: pieces have others */
} fit;

/* ---- one plan -------------------------------------------------------------------------------- */

/* Buffers follow the rows that a run sees. */
static bool has_statistics(const vtb_func *f) {
  for (int r = 0; r < f->n_returns; r++) {
    const char *name = f->return_names ? f->return_names[r] : NULL;
    for (int a = 0; a < f->n_args && name && vtb_starts_with(name, "updated."); a++)
      if (f->arg_info[a].role == VTB_ROLE_BUFFER &&
          vtb_streq(f->arg_info[a].official, name + strlen("updated.")))
        return true;
  }
  return false;
}

int64_t vtb_memory_of(const vtb_outline *o, int64_t ready) {
  const vtb_footprint *f = &o->takes;
  int64_t times = ready > 1 && !o->plan ? ready : 1;
  return f->workspace + f->kept + f->others + times * f->inputs;
}

static vtb_status measure(fit *t, const vtb_compilation *c, vtb_memory_plan *p) {
  const vtb_memory_wish *w = t->wish;
  vtb_outline o;
  vtb_status status = vtb_outline_make(c, p->rows, NULL, &o);
  p->seconds = (double)p->pieces * o.estimate.seconds;
  p->bytes = vtb_memory_of(&o, w->ready);
  if (status == VTB_OK && w->beside) status = w->beside(w->user, p->rows, &p->bytes);
  vtb_outline_free(&o);
  return status;
}

static bool keeps_within(const fit *t, const vtb_memory_plan *p) {
  return p->bytes <= t->wish->limit;
}

/* The plan of so many pieces that asks for so many blocks to run again. */
static vtb_status try_plan(fit *t, int64_t pieces, int64_t recompute, vtb_memory_plan *p,
                           vtb_report *r) {
  const vtb_memory_wish *w = t->wish;
  vtb_compilation c = {0};
  *p = (vtb_memory_plan){.pieces = pieces, .rows = w->batch / pieces};
  vtb_status status = w->open(w->user, pieces, recompute, r, &c);
  if (status == VTB_OK) {
    const vtb_func *entry = vtb_module_find(c.module, c.func);
    p->recompute = c.recomputed;
    t->statistics |= has_statistics(entry);
    status = measure(t, &c, p);
  }
  vtb_compilation_free(&c);
  if (status != VTB_OK) return status;
  if (!t->least.rows || p->bytes < t->least.bytes) t->least = *p;
  if (keeps_within(t, p) && (!t->best.rows || p->seconds < t->best.seconds)) t->best = *p;
  return VTB_OK;
}

/* ---- all of them ----------------------------------------------------------------------------- */

/* The plan of so many pieces that recomputes least; *whole: it recomputes nothing. */
static vtb_status try_pieces(fit *t, int64_t pieces, bool *whole, vtb_report *r) {
  const vtb_memory_wish *w = t->wish;
  vtb_memory_plan p;
  VTB_TRY(try_plan(t, pieces, w->recompute, &p, r));
  *whole = keeps_within(t, &p);
  if (*whole || w->recompute) return VTB_OK;
  VTB_TRY(try_plan(t, pieces, INT64_MAX, &p, r));
  if (!keeps_within(t, &p)) return VTB_OK;
  int64_t few = 0, enough = p.recompute, all = enough;
  while (enough - few > 1) {
    int64_t some = (few + enough) / 2;
    VTB_TRY(try_plan(t, pieces, some, &p, r));
    *(keeps_within(t, &p) ? &enough : &few) = some;
  }
  if (t->best.pieces == pieces && !t->best.blocks) t->best.blocks = all + 1;
  return VTB_OK;
}

/* More pieces, until nothing needs to be recomputed. A batch whose samples meet has none: its step
 * in pieces is refused, which is no error of this search. */
static vtb_status try_all(fit *t) {
  const vtb_memory_wish *w = t->wish;
  bool whole = false;
  int64_t first = w->pieces ? w->pieces : 1;
  VTB_TRY(try_pieces(t, first, &whole, t->report));
  for (int64_t n = first + 1; n <= w->batch && !w->pieces && !whole; n++) {
    if (w->batch % n) continue;
    if (t->statistics && t->best.rows) break;
    vtb_report *quiet = vtb_need(vtb_report_new());
    vtb_status status = try_pieces(t, n, &whole, quiet);
    vtb_report_free(quiet);
    if (status != VTB_OK) break;
  }
  return VTB_OK;
}

vtb_status vtb_memory_fit(const vtb_memory_wish *w, vtb_memory_plan *out, vtb_report *r) {
  fit t = {.wish = w, .report = r};
  VTB_TRY(try_all(&t));
  *out = t.best.rows ? t.best : t.least;
  return t.best.rows ? VTB_OK : VTB_E_USAGE;
}

/* ---- of options ------------------------------------------------------------------------------ */

static vtb_status open_step(void *user, int64_t pieces, int64_t recompute, vtb_report *r,
                            vtb_compilation *c) {
  vtb_compile_options o = *(const vtb_compile_options *)user;
  (void)pieces;
  o.memory = 0;
  o.recompute = recompute;
  return vtb_compilation_open(c, &o, r);
}

vtb_status vtb_memory_decide(vtb_compile_options *o, vtb_report *r) {
  const vtb_memory_wish wish = {.limit = o->memory,
                                .batch = o->batch ? o->batch : 1,
                                .pieces = 1,
                                .recompute = o->recompute,
                                .open = open_step,
                                .user = o};
  vtb_memory_plan plan = {0};
  if (!o->training || !o->memory) return VTB_OK;
  vtb_status status = vtb_memory_fit(&wish, &plan, r);
  if (status != VTB_OK && plan.rows)
    return vtb_memory_refuse(
        plan.bytes, plan.recompute ? ", recomputing all blocks but the last" : "", &r->error);
  o->recompute = plan.recompute;
  return status;
}
