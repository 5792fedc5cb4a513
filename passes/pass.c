/* The pass manager: the table of passes, pipeline strings, dumps after a pass, verification between
 * passes, timing.
 *
 * A pipeline is names joined by commas, each with optional text in braces: "simplify,fuse{max=64}".
 */
#include "ir/checks.h"
#include "passes/passes_internal.h"

#include <string.h>

typedef struct pass_row { /* one of these functions */
  const char *name;
  vtb_status (*run)(vtb_pass_context *c, vtb_error *err);
  void (*change)(vtb_pass_context *c);                   /* cannot fail */
  void (*visit)(const vtb_pass_context *c, vtb_func *f); /* of each plain function */
} pass_row;

static const pass_row table[] = {
#define X(name, summary) {#name, .run = vtb__pass_##name},
#define M(name, summary) {#name, .change = vtb__change_##name},
#define F(name, summary) {#name, .visit = vtb__visit_##name},
#include "passes/passes.def"
#undef X
#undef M
#undef F
};
enum { N_PASSES = sizeof table / sizeof *table };

/* taps first, so that no later pass has to keep them; extra tokens pass before paths fold, which do
 * not through what takes sequences apart; paths before recurrences, while a recurrence is one op
 * and takes a path whole; tangents of what recurrences become; simplify after these, because they
 * leave reshapes and dead scale arithmetic behind. The second cse is for the slices of parameters
 * that join_products and distribute make, equal where several products read one operand. */
const char *const vtb_pipeline_graph =
    "taps,pass_extra,path_fold,recurrence,tangents,simplify,cse,unscale,join_products,split_concat,"
    "cse,dce";

static const pass_row *find(const char *name) {
  for (size_t i = 0; i < N_PASSES; i++)
    if (vtb_streq(table[i].name, name)) return &table[i];
  return NULL;
}

typedef struct stage {
  const pass_row *pass;
  const char *options; /* NULL if none */
  double seconds;
} stage;
typedef struct stages {
  vtb_arena memory;
  VTB_VEC(stage) list;
} stages;

static vtb_status unknown_pass(const char *name, vtb_error *err) {
  const char *names[N_PASSES];
  for (size_t i = 0; i < N_PASSES; i++) names[i] = table[i].name;
  const char *near = vtb_suggest(name, names, N_PASSES);
  if (near)
    return vtb_fail(err, VTB_E_USAGE, "no pass is named \"%s\"; did you mean \"%s\"?", name, near);
  return vtb_fail(err, VTB_E_USAGE, "no pass is named \"%s\"", name);
}

/* One `name` or `name{options}` at *text, which moves behind it. */
static vtb_status parse_stage(const char **text, stages *out, vtb_error *err) {
  const char *s = *text;
  size_t n = strcspn(s, ",{");
  const char *name = vtb_arena_strndup(&out->memory, s, n);
  s += n;
  stage st = {.pass = find(name)};
  if (!st.pass) return unknown_pass(name, err);
  if (*s == '{') {
    const char *end = strchr(s, '}');
    if (!end)
      return vtb_fail(err, VTB_E_USAGE, "the options of pass \"%s\" have no closing brace",
                      st.pass->name);
    st.options = vtb_arena_strndup(&out->memory, s + 1, (size_t)(end - s - 1));
    s = end + 1;
  }
  vtb_vec_put(&out->memory, &out->list, st);
  if (*s && *s != ',')
    return vtb_fail(err, VTB_E_USAGE, "a comma must follow pass \"%s\"", st.pass->name);
  *text = *s ? s + 1 : s;
  return VTB_OK;
}

static vtb_status parse_pipeline(const char *text, stages *out, vtb_error *err) {
  if (!*text) return VTB_OK;
  for (bool more = true; more;) {
    const char *comma = text;
    vtb_status status = parse_stage(&text, out, err);
    if (status) return status;
    more = *text || (text > comma && text[-1] == ',');
  }
  return VTB_OK;
}

static void dump(const vtb_module *m, const char *pass, const vtb_pipeline_options *o) {
  vtb_strbuf text = {0};
  vtb_strbuf_printf(&text, "// after %s\n", pass);
  vtb_module_print(m, NULL, &text);
  o->say(o->user, text.at);
  vtb_strbuf_free(&text);
}

bool vtb__fusion_declined(const vtb_pass_context *c, const char *name) {
  int fusion = vtb_fusion_find(name);
  return c->decisions && fusion >= 0 && c->decisions->declined >> fusion & 1;
}

static vtb_status run_pass(const pass_row *p, vtb_pass_context *c, vtb_error *err) {
  if (vtb__fusion_declined(c, p->name)) return VTB_OK;
  for (vtb_func *f = c->module->first; f && p->visit; f = f->next)
    if (f->kind == VTB_FUNC_PLAIN) p->visit(c, f);
  if (p->change) p->change(c);
  return p->run ? p->run(c, err) : VTB_OK;
}

static vtb_status run_stage(vtb_pass_context *c, const vtb_pipeline_options *o, stage *s,
                            vtb_error *err) {
  const char *outer = c->options;
  int errors_before = c->diags ? c->diags->n_errors : 0;
  double start = vtb_now();
  c->options = s->options;
  vtb_status status = run_pass(s->pass, c, err);
  vtb_arena_free(&c->module->scratch);
  c->options = outer;
  s->seconds = vtb_now() - start;
  if (!status && c->diags && c->diags->n_errors > errors_before)
    status = vtb_fail(err, VTB_E_INPUT, "pass \"%s\" reported errors", s->pass->name);
  bool wanted = vtb_streq(o->print_after, "all") || vtb_streq(o->print_after, s->pass->name);
  if (!status && wanted && o->say) dump(c->module, s->pass->name, o);
  if (!status && (o->verify_each || vtb_checks())) {
    char when[64];
    snprintf(when, sizeof when, "after pass \"%s\"", s->pass->name);
    status = vtb__verify(c->module, when, err);
  }
  return status;
}

static void say_times(const stages *s, const vtb_pipeline_options *o) {
  double total = 0;
  vtb_strbuf text = {0};
  for (size_t i = 0; i < s->list.n; i++) {
    const stage *at = &s->list.at[i];
    vtb_strbuf_printf(&text, "%-16s %9.3f ms\n", at->pass->name, 1e3 * at->seconds);
    total += at->seconds;
  }
  vtb_strbuf_printf(&text, "%-16s %9.3f ms\n", "all passes", 1e3 * total);
  o->say(o->user, text.at);
  vtb_strbuf_free(&text);
}

vtb_status vtb_run_pipeline(vtb_pass_context *c, const vtb_pipeline_options *o, vtb_error *err) {
  static const vtb_pipeline_options none = {0};
  if (!o) o = &none;
  if (o->print_after && !vtb_streq(o->print_after, "all") && !find(o->print_after))
    return unknown_pass(o->print_after, err);
  const char *own = c->target ? c->target->pipeline : vtb_pipeline_graph;
  stages s = {0};
  vtb_status status = parse_pipeline(o->pipeline ? o->pipeline : own, &s, err);
  if (!status && (o->verify_each || vtb_checks()))
    status = vtb__verify(c->module, "before the passes", err);
  for (size_t i = 0; i < s.list.n && !status; i++) status = run_stage(c, o, &s.list.at[i], err);
  if (o->time && o->say) say_times(&s, o);
  vtb_arena_free(&s.memory);
  return status;
}
