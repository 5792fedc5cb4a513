/* Schedules of trainings: what an option says of one, opened to be asked update by update. */
#include "frontend/compile/driver.h"

#include <string.h>

struct vtb_schedule_source {
  vtb_rule_choice choice;
  vtb_unit *unit;
  VTB_VEC(vtb_override) overrides;
  vtb_pacer *pacer;
  vtb_report *report;
};

static void take_defines(vtb_schedule_source *s) {
  vtb_rule_choice *c = &s->choice;
  for (size_t i = 0; i < c->defines.n; i++) {
    const char *eq = strchr(c->defines.at[i], '=');
    char *name = vtb_arena_strndup(&c->arena, c->defines.at[i], (size_t)(eq - c->defines.at[i]));
    vtb_vec_push(&s->overrides, ((vtb_override){.name = name, .value = eq + 1}));
  }
}

static vtb_status open_unit(vtb_schedule_source *s, const vtb_compile_options *o) {
  vtb_compile_options with = {
      .size = sizeof with, .model = s->choice.file, .search = o->search, .n_search = o->n_search};
  vtb_diags diags = {0};
  s->unit = vtb__compile_unit(&with, &diags);
  vtb_status status = VTB_OK;
  if (s->unit && !diags.n_errors)
    status = vtb_rule_of_unit(&s->choice, VTB_DECL_SCHEDULE, s->unit, &s->report->error);
  if (s->unit && !diags.n_errors && status == VTB_OK)
    s->pacer = vtb_pacer_open(s->unit, s->choice.entry, s->overrides.at, s->overrides.n, &diags);
  vtb__report_take(s->report, &diags);
  return s->pacer || status != VTB_OK ? status : VTB_E_INPUT;
}

vtb_status vtb_schedule_open(const char *text, const vtb_compile_options *o,
                             vtb_schedule_source **out, vtb_report *r) {
  vtb_schedule_source *s = *out = vtb_xcalloc(1, sizeof *s);
  s->report = r;
  VTB_TRY(vtb_rule_parse(text, "schedule", &s->choice, &r->error));
  VTB_TRY(vtb_rule_find(&s->choice, VTB_DECL_SCHEDULE, o, &r->error));
  take_defines(s);
  return open_unit(s, o);
}

vtb_status vtb_schedule_at(vtb_schedule_source *s, const vtb_moment *m, vtb_pace *pace) {
  vtb_diags diags = {0};
  bool ok = vtb_pacer_at(s->pacer, m, pace, &diags);
  if (diags.list.n) vtb__report_take(s->report, &diags);
  return ok ? VTB_OK : VTB_E_INPUT;
}

vtb_status vtb_schedule_try(vtb_schedule_source *s, const vtb_moment *m) {
  enum { PLACES = 500 };
  vtb_moment at = *m;
  vtb_pace pace;
  int64_t step = m->total / PLACES + 1;
  for (at.t = 1; at.t <= m->total; at.t += step) VTB_TRY(vtb_schedule_at(s, &at, &pace));
  at.t = m->total;
  return vtb_schedule_at(s, &at, &pace);
}

bool vtb_schedule_reads(const vtb_schedule_source *s, const char *name) {
  return vtb_pacer_reads(s->pacer, name);
}

vtb_unit *vtb_schedule_unit(const vtb_schedule_source *s) { return s->unit; }

void vtb_schedule_free(vtb_schedule_source *s) {
  if (!s) return;
  vtb_pacer_free(s->pacer);
  if (s->unit) vtb_vec_push(&s->report->units, s->unit); /* diagnostics point into it */
  vtb_vec_free(&s->overrides);
  vtb_rule_free(&s->choice);
  vtb_free(s);
}
