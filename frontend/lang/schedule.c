/* Schedules: what an update is made with, by equations of numbers that are evaluated at every
 * update. All of them are known then, so that conditions, loops, lists and functions of the
 * language work as they do everywhere.
 *
 *   schedule halves(every: int = 100) {
 *     rate = lr * pow(0.5, floor((t - 1) / every))
 *   }
 *
 * A body knows the moment (runtime/base/schedule.h) and assigns `rate`; `decay` and `ema` where it
 * changes them. */
#include "frontend/lang/ast_walk.h"
#include "frontend/lang/entry.h"

#include <math.h>

const vtb_moment vtb_moment_example = {.t = 1,
                                       .total = 1000,
                                       .updates_an_epoch = 100,
                                       .batch = 64,
                                       .lr = 1e-3,
                                       .final = 1e-6,
                                       .warmup = 50,
                                       .decay = 0.05,
                                       .ema = 0.999};

/* ---- one update ------------------------------------------------------------------------------ */

static const char *const assigned[] = {"rate", "decay", "ema"};

static bool give(vtb__eval *e, const char *name, double value, bool fixed) {
  const vtb__binding *b = vtb__env_find_here(e->env, name);
  if (!b) {
    vtb__env_bind(e, name, vtb__float(value), fixed ? "given to a schedule" : NULL, VTB_NO_SPAN);
    return true;
  }
  vtb__report(e, VTB_DIAG_SCHEDULE_NAME, b->span, "'%s' means something else in a schedule", name);
  return false;
}

static bool give_moment(vtb__eval *e, const vtb_moment *m) {
  int64_t an_epoch = m->updates_an_epoch > 0 ? m->updates_an_epoch : 1, epoch;
  epoch = (m->t - 1) / an_epoch;
  const struct {
    const char *name;
    double value;
    bool fixed;
  } names[] = {{"t", (double)m->t, true},         {"total", (double)m->total, true},
               {"epoch", (double)epoch, true},    {"updates_an_epoch", (double)an_epoch, true},
               {"batch", (double)m->batch, true}, {"lr", m->lr, true},
               {"final", m->final, true},         {"warmup", (double)m->warmup, true},
               {"decay", m->decay, false},        {"ema", m->ema, false}};
  bool free = true;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    free &= give(e, names[i].name, names[i].value, names[i].fixed);
  const vtb__binding *rate = vtb__env_find_here(e->env, assigned[0]);
  if (!rate) return free;
  vtb__report(e, VTB_DIAG_SCHEDULE_NAME, rate->span, "'rate' is what a schedule assigns");
  return false;
}

/* A name's value behind the body; NAN where it left it alone. */
static double value_of(vtb__eval *e, const char *name, const vtb_moment *m, double below) {
  const vtb__binding *b = vtb__env_find_here(e->env, name);
  if (!b || !b->span.source || b->value.kind == VTB__ERROR) return NAN;
  if (!vtb__is_number(b->value)) {
    vtb__report(e, VTB_DIAG_SCHEDULE_VALUE, b->span, "%s is %s, and a number is needed", name,
                vtb__describe(e, b->value));
    return NAN;
  }
  double v = vtb__val_number(b->value);
  if (v >= 0 && v < below) return v;
  vtb__report(e, VTB_DIAG_SCHEDULE_VALUE, b->span, "%s is %g at update %lld of %lld", name, v,
              (long long)m->t, (long long)m->total);
  vtb__help(e, below == 1 ? "it is at least 0 and below 1" : "it is finite and not negative");
  return NAN;
}

bool vtb__schedule_at(vtb__eval *e, const vtb_decl *d, const vtb__env *params, const vtb_moment *m,
                      vtb_pace *pace) {
  vtb__env env = *params;
  int errors = e->diags->n_errors;
  e->env = &env;
  e->decl = d;
  e->file = d->file;
  *pace = (vtb_pace){NAN, NAN, NAN};
  if (!give_moment(e, m)) return false;
  vtb__body_value(e, &d->body);
  if (e->diags->n_errors > errors || e->stopped) {
    vtb_diag_note(e->diags, d->name.span, "update %lld of %lld", (long long)m->t,
                  (long long)m->total);
    return false;
  }
  *pace = (vtb_pace){value_of(e, assigned[0], m, INFINITY), value_of(e, assigned[1], m, INFINITY),
                     value_of(e, assigned[2], m, 1)};
  if (e->diags->n_errors > errors) return false;
  if (!isnan(pace->rate)) return true;
  vtb__report(e, VTB_DIAG_SCHEDULE_RATE, d->name.span,
              "schedule '%s' assigns no rate at update %lld of %lld", d->name.text, (long long)m->t,
              (long long)m->total);
  return false;
}

/* ---- a schedule that stays open -------------------------------------------------------------- */

struct vtb_pacer {
  vtb__opened opened;
  vtb_instantiate_options options;
};

static const char *last_schedule(const vtb_unit *u) {
  const vtb_file *root = u->files.at[0];
  const char *found = NULL;
  for (size_t i = 0; i < root->decls.n; i++)
    if (root->decls.at[i]->kind == VTB_DECL_SCHEDULE) found = root->decls.at[i]->name.text;
  return found;
}

vtb_pacer *vtb_pacer_open(vtb_unit *u, const char *name, const vtb_override *overrides, size_t n,
                          vtb_diags *diags) {
  if (!vtb__is_usable(u)) return NULL;
  if (!name) name = last_schedule(u);
  if (!name) {
    vtb_diag_error(diags, VTB_DIAG_NO_ENTRY, (vtb_span){.source = u->files.at[0]->source},
                   "'%s' declares no schedule", u->files.at[0]->source->path);
    return NULL;
  }
  vtb_pacer *p = vtb_xcalloc(1, sizeof *p);
  p->options = (vtb_instantiate_options){.overrides = overrides, .n_overrides = n};
  bool ok = vtb__entry_open(&p->opened, u, name, &p->options, diags);
  const vtb_decl *d = p->opened.entry.decl;
  if (ok && d->kind != VTB_DECL_SCHEDULE) {
    vtb__report(&p->opened.e, VTB_DIAG_NO_ENTRY, d->name.span, "'%s' is %s, not a schedule",
                d->name.text, vtb__decl_kind_an(d->kind));
    ok = false;
  }
  if (ok) ok = vtb__entry_check(&p->opened.e, &p->opened.entry);
  p->options = (vtb_instantiate_options){0}; /* overrides are the caller's */
  if (ok) return p;
  vtb_pacer_free(p);
  return NULL;
}

void vtb_pacer_free(vtb_pacer *p) {
  if (!p) return;
  vtb__entry_close(&p->opened);
  vtb_free(p);
}

/* Memory that an update takes is given back behind it, and with it constants, which lie there. */
bool vtb_pacer_at(vtb_pacer *p, const vtb_moment *m, vtb_pace *pace, vtb_diags *diags) {
  vtb__eval *e = &p->opened.e;
  vtb_arena own = e->arena;
  vtb_arena_init(&e->arena);
  e->diags = diags;
  e->errors_before = diags->n_errors;
  e->n_steps = 0;
  bool ok = vtb__schedule_at(e, p->opened.entry.decl, p->opened.env, m, pace);
  vtb_map_free(&e->consts);
  e->consts = (vtb_map){0};
  vtb_arena_free(&e->arena);
  e->arena = own;
  return ok && !e->stopped;
}

typedef struct reader {
  vtb__visitor visitor;
  const char *name;
  bool found;
} reader;

static bool look(vtb__visitor *v, const vtb_expr *x) {
  reader *r = (reader *)v;
  r->found |= x->kind == VTB_EXPR_NAME && strcmp(x->u.name, r->name) == 0;
  return true;
}

bool vtb_pacer_reads(const vtb_pacer *p, const char *name) {
  reader r = {{.expr = look}, name, false};
  vtb__walk_stmts(&r.visitor, &p->opened.entry.decl->body);
  return r.found;
}
