/* See words.h. */
#include "frontend/compile/words.h"

#include "codegen/targets.h"
#include "ir/recurrence.h"
#include "passes/cost/gpu.h"
#include "passes/target.h"
#include "runtime/base/names.h"

#include <string.h>

/* Names as they are found, and memory of those that are made. */
typedef struct list {
  VTB_VEC(const char *) names;
  const vtb_search *search;
  vtb_arena arena;
} list;

static bool has(const list *l, const char *name) {
  for (size_t i = 0; i < l->names.n; i++)
    if (strcmp(l->names.at[i], name) == 0) return true;
  return false;
}

static void targets(list *l) {
  size_t n;
  const vtb_target *all = vtb_targets(&n);
  for (size_t i = 0; i < n; i++)
    if (vtb_backend_of(&all[i]) && vtb_target_runs(&all[i])) vtb_vec_push(&l->names, all[i].name);
}

static void modes(list *l) {
  for (int i = 0; i < VTB_N_MODES; i++) vtb_vec_push(&l->names, vtb_mode_names[i]);
}

static void precisions(list *l) {
  for (int i = 0; i < VTB_N_PRECISIONS; i++) vtb_vec_push(&l->names, vtb_precision_names[i]);
}

static size_t put_name(const char *names[VTB_MOST_STAGES], size_t n, const char *name) {
  for (size_t i = 0; i < n; i++)
    if (strcmp(names[i], name) == 0) return n;
  names[n] = name;
  return n + 1;
}

size_t vtb_stage_names(const char *names[VTB_MOST_STAGES]) {
  size_t n = 0, n_targets;
  const vtb_target *targets = vtb_targets(&n_targets);
#define X(name, level, write) n = put_name(names, n, #name);
#include "frontend/compile/stages.def"
#undef X
  for (size_t i = 0; i < n_targets; i++) {
    const vtb_backend *b = vtb_backend_of(&targets[i]);
    for (const vtb_backend_text *t = b ? b->texts : NULL; t && t->stage && n < VTB_MOST_STAGES; t++)
      n = put_name(names, n, t->stage);
  }
  return n;
}

static void stages(list *l) {
  const char *names[VTB_MOST_STAGES];
  size_t n = vtb_stage_names(names);
  for (size_t i = 0; i < n; i++) vtb_vec_push(&l->names, names[i]);
}

static void machines(list *l) {
  size_t n;
  const vtb_gpu *all = vtb_gpus(&n);
  for (size_t i = 0; i < n; i++) vtb_vec_push(&l->names, all[i].name);
}

static void rules_of(list *l, vtb_decl_kind kind, const char *path) {
  vtb_diags quiet = {0};
  const vtb_decl_info *all;
  vtb_unit *unit = vtb_unit_load(path, l->search, &quiet);
  size_t n = unit ? vtb_unit_decls(unit, &all) : 0;
  for (size_t i = 0; i < n; i++)
    if (all[i].kind == kind && !has(l, all[i].name)) /* several folders may have it */
      vtb_vec_push(&l->names, vtb_arena_strdup(&l->arena, all[i].name));
  vtb_unit_free(unit);
  vtb_diags_free(&quiet);
}

/* Most files declare none: those are not parsed. */
static void rules(list *l, vtb_decl_kind kind, const char *word) {
  size_t n_files, n;
  char **files = vtb_search_files(l->search ? l->search : vtb_search_default(), &n_files), *text;
  for (size_t i = 0; i < n_files; i++) {
    if (vtb_file_read(files[i], 1 << 24, &text, &n, NULL) == VTB_OK) {
      if (strstr(text, word)) rules_of(l, kind, files[i]);
      vtb_free(text);
    }
    vtb_free(files[i]);
  }
  vtb_free(files);
}

static void optimizers(list *l) { rules(l, VTB_DECL_OPTIMIZER, "optimizer "); }
static void schedules(list *l) { rules(l, VTB_DECL_SCHEDULE, "schedule "); }

static const struct {
  const char *name;
  void (*find)(list *l);
} tables[] = {{"targets", targets},    {"modes", modes},       {"precisions", precisions},
              {"stages", stages},      {"machines", machines}, {"optimizers", optimizers},
              {"schedules", schedules}};

bool vtb_words(const char *table, const vtb_search *search, const char *between, const char *last,
               vtb_strbuf *out) {
  for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
    list l = {.search = search};
    if (!vtb_streq(tables[i].name, table)) continue;
    vtb_arena_init(&l.arena);
    tables[i].find(&l);
    vtb_strbuf_names(out, l.names.at, l.names.n, between, last);
    vtb_vec_free(&l.names);
    vtb_arena_free(&l.arena);
    return true;
  }
  return false;
}

void vtb_words_expand(const char *text, vtb_strbuf *out) {
  for (const char *end; *text; text++) {
    char table[24];
    end = *text == '{' ? strchr(text, '}') : NULL;
    if (end) snprintf(table, sizeof table, "%.*s", (int)(end - text - 1), text + 1);
    if (end && vtb_words(table, NULL, ", ", " or ", out))
      text = end;
    else
      vtb_strbuf_putc(out, *text);
  }
}

/* ---- precisions ------------------------------------------------------------------------------ */

/* The names of a set of precisions, as a sentence lists them. */
static void put_precisions(unsigned set, vtb_strbuf *out) {
  const char *names[VTB_N_PRECISIONS];
  size_t n = 0;
  for (int i = 0; i < VTB_N_PRECISIONS; i++)
    if (set >> i & 1) names[n++] = vtb_precision_names[i];
  vtb_strbuf_names(out, names, n, ", ", " and ");
}

vtb_status vtb_precision_find(const char *name, vtb_precision *out, vtb_error *err) {
  *out = VTB_PRECISION_FP32;
  for (int i = 0; i < VTB_N_PRECISIONS; i++) {
    if (name && !vtb_streq(name, vtb_precision_names[i])) continue;
    *out = (vtb_precision)i;
    return VTB_OK;
  }
  vtb_strbuf names = {0};
  put_precisions(~0u, &names);
  vtb_fail(err, VTB_E_USAGE, "no precision is named '%s': there are %s", name, names.at);
  vtb_strbuf_free(&names);
  return VTB_E_USAGE;
}

vtb_status vtb_target_knows(const vtb_target *t, vtb_precision p, vtb_error *err) {
  if (t->precisions >> p & 1) return VTB_OK;
  vtb_strbuf names = {0};
  put_precisions(t->precisions, &names);
  vtb_fail(err, VTB_E_USAGE, "target %s does not know precision %s: it computes in %s", t->name,
           vtb_precision_names[p], names.at);
  vtb_strbuf_free(&names);
  return VTB_E_USAGE;
}
