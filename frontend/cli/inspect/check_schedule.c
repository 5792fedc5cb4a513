/* Schedules of a file, as `vertebra check` tells them: the rates of a run of a thousand updates. */
#include "frontend/cli/inspect/check.h"

#include <math.h>

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

bool check_schedules(const char *what, vtb_unit *unit, vtb_status *status) {
  const vtb_decl_info *decls;
  size_t n = unit ? vtb_unit_decls(unit, &decls) : 0;
  bool has = false;
  for (size_t i = 0; i < n; i++) {
    vtb_decl_kind k = decls[i].kind;
    if (k == VTB_DECL_MODEL || k == VTB_DECL_PRESET || k == VTB_DECL_OPTIMIZER) return false;
    has |= k == VTB_DECL_SCHEDULE;
  }
  *status = VTB_OK;
  for (size_t i = 0; i < n && *status == VTB_OK; i++)
    if (decls[i].kind == VTB_DECL_SCHEDULE) *status = tell_schedule(what, unit, decls[i].name);
  return has;
}
