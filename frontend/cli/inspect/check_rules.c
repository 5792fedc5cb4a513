/* Schedules and optimizers of a file, as `vertebra check` tells them: the rates of a run of a
 * thousand updates; what an optimizer remembers of a vector and of a matrix. */
#include "frontend/cli/inspect/check.h"

#include <math.h>
#include <string.h>

static vtb_status tell_schedule(const char *what, vtb_unit *unit, const char *name) {
  enum { ROWS = 10 };
  static const doc_column columns[] = {{.key = "update", .heading = "update", .width = 6},
                                       {.key = "epoch", .heading = "epoch", .width = 5},
                                       {.key = "rate", .heading = "rate", .format = "%.4g"},
                                       {.key = "decay", .heading = "decay", .format = "%.4g"},
                                       {.key = "ema", .heading = "ema", .format = "%.6g"}};
  vtb_diags diags = {0};
  vtb_pacer *pacer = vtb_pacer_open(unit, name, NULL, 0, &diags);
  vtb_moment m = vtb_moment_example;
  vtb_pace pace;
  doc *d = doc_new(doc_object(F("file", what), F("schedule", name)));
  doc_say(d, 2,
          "%s of %s, in %lld updates of %lld epochs with --lr %g and --warmup-updates %lld:", name,
          what, (long long)m.total, (long long)(m.total / m.updates_an_epoch), m.lr,
          (long long)m.warmup);
  doc_table *t = DOC_TABLE(d, cJSON_AddArrayToObject(d->json, "rates"), columns);
  for (int i = 0; pacer && i <= ROWS; i++) {
    m.t = i < ROWS ? 1 + m.total * i / ROWS : m.total;
    if (!vtb_pacer_at(pacer, &m, &pace, &diags)) break;
    doc_row(d, t, V(m.t), V((m.t - 1) / m.updates_an_epoch), V(pace.rate), doc_known(V(pace.decay)),
            doc_known(V(pace.ema)));
  }
  vtb_status status = pacer && !diags.n_errors ? VTB_OK : VTB_E_INPUT;
  vtb_diags_print(&diags, stderr);
  if (status == VTB_OK)
    cli_tell(d);
  else
    doc_free(d);
  vtb_pacer_free(pacer);
  vtb_diags_free(&diags);
  return status;
}

static void put_state(const vtb_type *t, const char *name, vtb_strbuf *out) {
  vtb_strbuf_printf(out, "%s%s", out->n ? ", " : "", name);
  for (int a = 0; a < t->rank && t->dim[a].size >= 0; a++)
    vtb_strbuf_printf(out, "%s%lld%s", a ? ", " : " [", (long long)t->dim[a].size,
                      a + 1 < t->rank ? "" : "]");
  if (!t->rank) vtb_strbuf_puts(out, " []");
}

static void tell_states(doc *d, doc_table *t, const vtb_func *f, const char *kind) {
  vtb_strbuf states = {0};
  for (int r = 0; r < f->n_returns; r++) {
    const char *name = f->return_names[r];
    if (strcmp(name, "w") != 0 && !vtb_starts_with(name, "total."))
      put_state(&f->returns[r]->type, name, &states);
  }
  doc_row(d, t, V(kind), V(states.n ? states.at : "nothing"));
  vtb_strbuf_free(&states);
}

static vtb_status tell_optimizer(const char *what, vtb_unit *unit, const char *name) {
  static const doc_column columns[] = {{.key = "tensor", .heading = "tensor", .width = -16},
                                       {.key = "states", .heading = "states", .width = -1}};
  static const struct {
    const char *kind;
    vtb_updated_tensor as;
  } tensors[] = {{"vector [64]", {"norm.bias", 0, 64}}, {"matrix [96, 64]", {"fc.weight", 96, 64}}};
  bool shaped = vtb_optimizer_is_shaped(unit, name);
  vtb_diags diags = {0};
  doc *d = doc_new(doc_object(F("file", what), F("optimizer", name)));
  doc_say(d, 2, "%s of %s, evaluated %s, remembers:", name, what,
          shaped ? "for each shape of tensor" : "once for tensors of all shapes");
  doc_table *t = DOC_TABLE(d, cJSON_AddArrayToObject(d->json, "states"), columns);
  for (size_t i = 0; i < (shaped ? 2 : 1) && !diags.n_errors; i++) {
    const vtb_instantiate_options o = {.tensor = shaped ? &tensors[i].as : NULL};
    vtb_module *m = vtb_instantiate(unit, name, &o, &diags);
    if (m && !diags.n_errors) tell_states(d, t, m->entry, shaped ? tensors[i].kind : "any");
    vtb_module_free(m);
  }
  vtb_status status = diags.n_errors ? VTB_E_INPUT : VTB_OK;
  vtb_diags_print(&diags, stderr);
  if (status == VTB_OK)
    cli_tell(d);
  else
    doc_free(d);
  vtb_diags_free(&diags);
  return status;
}

bool check_rules(const char *what, vtb_unit *unit, const vtb_diags *diags, vtb_status *status) {
  const vtb_decl_info *decls;
  size_t n = unit ? vtb_unit_decls(unit, &decls) : 0;
  bool has = false;
  for (size_t i = 0; i < n; i++) {
    vtb_decl_kind k = decls[i].kind;
    if (k == VTB_DECL_MODEL || k == VTB_DECL_PRESET) return false;
    has |= k == VTB_DECL_SCHEDULE || k == VTB_DECL_OPTIMIZER;
  }
  *status = diags->n_errors ? VTB_E_INPUT : VTB_OK;
  if (has) vtb_diags_print(diags, stderr);
  for (size_t i = 0; i < n && *status == VTB_OK; i++)
    if (decls[i].kind == VTB_DECL_SCHEDULE)
      *status = tell_schedule(what, unit, decls[i].name);
    else if (decls[i].kind == VTB_DECL_OPTIMIZER)
      *status = tell_optimizer(what, unit, decls[i].name);
  return has;
}
