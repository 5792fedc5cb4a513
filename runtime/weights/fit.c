/* See fit.h. */
#include "runtime/weights/fit_internal.h"

#include <string.h>

enum { MAX_PREFIXES = 16 };

/* The fate of a tensor of the model. */
typedef enum fate {
  NOT_WANTED,
  MISSING,
  SAME,          /* shape and all */
  RESIZED,       /* a table of positions */
  OTHER_CLASSES, /* as many rows as the file has classes */
  OTHER_SHAPE
} fate;

typedef struct found {
  fate fate;
  const vtb_renamed *have;
  vtb__table table;
} found;

/* A way to read the file's names. */
typedef struct reading {
  size_t set;
  const char *prefix; /* the arena's */
  vtb_renaming names;
  found *of; /* by tensor of the model */
  int n_fit, n_found;
  int64_t file_classes; /* that all tensors of other classes agree on; -1: they do not */
} reading;

typedef struct fitter {
  const vtb_tensor_info *tensors;
  int n;
  const vtb_weights *file;
  const vtb_fit_options *o;
  void *const *buffers;
  vtb_fit_report *report;
  vtb_error *err;
} fitter;

/* ---- one tensor ------------------------------------------------------------------------------ */

static bool is_wanted(const fitter *f, int i) {
  const vtb_tensor_info *t = &f->tensors[i];
  return (t->io == VTB_IO_PARAM || t->io == VTB_IO_BUFFER) && (!f->buffers || f->buffers[i]);
}

/* A single number is [] in some files and [1] in others. */
static bool same_shape(const vtb_tensor_info *t, const vtb_renamed *have) {
  int64_t count = vtb_tensor_info_count(t);
  if (have->count == count && (have->reshape || (t->rank <= 1 && have->rank <= 1 && count == 1)))
    return true;
  if (t->rank != have->rank) return false;
  for (int i = 0; i < t->rank; i++)
    if (t->dim[i] != have->dim[i]) return false;
  return true;
}

/* The file's number of classes where the shapes differ in that axis alone; 0: they do not. */
static int64_t other_classes(const vtb_tensor_info *t, const vtb_renamed *have, int64_t classes) {
  int64_t theirs = 0;
  if (t->rank != have->rank || classes < 1) return 0;
  for (int i = 0; i < t->rank; i++) {
    if (t->dim[i] == have->dim[i]) continue;
    if (theirs || t->dim[i] != classes) return 0;
    theirs = have->dim[i];
  }
  return theirs;
}

static found look_up(const fitter *f, const vtb_renaming *names, int i) {
  const vtb_tensor_info *t = &f->tensors[i];
  found at = {.fate = NOT_WANTED};
  if (!is_wanted(f, i)) return at;
  at.have = vtb_renaming_find(names, t->name);
  if (!at.have)
    at.fate = MISSING;
  else if (same_shape(t, at.have))
    at.fate = SAME;
  else if (vtb__table_plan(t, at.have, f->o, &at.table))
    at.fate = RESIZED;
  else
    at.fate = other_classes(t, at.have, f->o->classes) ? OTHER_CLASSES : OTHER_SHAPE;
  return at;
}

/* ---- a reading ------------------------------------------------------------------------------- */

static void reading_free(reading *r) {
  vtb_renaming_free(&r->names);
  free(r->of);
  *r = (reading){0};
}

static vtb_status read_names(const fitter *f, size_t set, const char *prefix, reading *r) {
  *r = (reading){.set = set, .prefix = prefix};
  vtb_status status = vtb_rename(f->o->names, set, prefix, f->file, &r->names, f->err);
  r->of = calloc((size_t)f->n + 1, sizeof *r->of);
  if (status == VTB_OK && !r->of) status = vtb_no_memory(f->err, "the names of weights");
  for (int i = 0; i < f->n && status == VTB_OK; i++) {
    r->of[i] = look_up(f, &r->names, i);
    fate what = r->of[i].fate;
    if (what == NOT_WANTED || what == MISSING) continue;
    r->n_found++;
    r->n_fit += what != OTHER_SHAPE;
    if (what != OTHER_CLASSES) continue;
    int64_t theirs = other_classes(&f->tensors[i], r->of[i].have, f->o->classes);
    r->file_classes = !r->file_classes || r->file_classes == theirs ? theirs : -1;
  }
  if (status != VTB_OK) reading_free(r);
  return status;
}

static bool is_better(const reading *a, const reading *b) {
  return a->n_fit > b->n_fit || (a->n_fit == b->n_fit && a->n_found > b->n_found);
}

/* Takes the reading if it is better than the best. */
static vtb_status consider(const fitter *f, size_t set, const char *prefix, reading *best) {
  reading r;
  VTB_TRY(read_names(f, set, prefix, &r));
  if (best->of && !is_better(&r, best)) {
    reading_free(&r);
    return VTB_OK;
  }
  reading_free(best);
  *best = r;
  return VTB_OK;
}

static vtb_status consider_sets(const fitter *f, const char *prefix, reading *best) {
  size_t n = f->o->names ? f->o->names->sets.n : 0;
  vtb_status status = consider(f, VTB_NO_SET, prefix, best);
  for (size_t i = 0; i < n && status == VTB_OK && best->n_fit < f->report->n_wanted; i++)
    status = consider(f, i, prefix, best);
  return status;
}

/* First parts of names, "backbone." and "model.backbone.", that at least two tensors have. */
static vtb_status find_prefixes(const fitter *f, vtb_map *prefixes) {
  for (size_t i = 0; i < f->file->n; i++) {
    const char *name = f->file->at[i]->name;
    size_t n = 0;
    for (int depth = 0; depth < 2; depth++) {
      n += strcspn(name + n, "./");
      if (!name[n]) break;
      n++;
      char *prefix = vtb_strprintf("%.*s", (int)n, name);
      if (!prefix) return vtb_no_memory(f->err, name);
      uintptr_t seen = (uintptr_t)vtb_map_get(prefixes, prefix);
      bool room = seen || prefixes->n < MAX_PREFIXES;
      bool kept = !room || vtb_map_try_set(prefixes, prefix, (void *)(seen + 1));
      free(prefix);
      if (!kept) return vtb_no_memory(f->err, name);
    }
  }
  return VTB_OK;
}

static char *keep(const fitter *f, const char *text) {
  size_t n = strlen(text) + 1;
  char *copy = vtb_arena_try(&f->report->arena, n, 1);
  if (copy) memcpy(copy, text, n);
  return copy;
}

static vtb_status choose_reading(const fitter *f, reading *best) {
  vtb_map prefixes = {0};
  vtb_status status = consider_sets(f, "", best);
  if (status == VTB_OK && best->n_fit < f->report->n_wanted) status = find_prefixes(f, &prefixes);
  for (size_t i = 0; i < prefixes.n && status == VTB_OK; i++) {
    char *prefix = keep(f, prefixes.at[i].key);
    if ((uintptr_t)prefixes.at[i].value < 2) continue;
    status = prefix ? consider_sets(f, prefix, best) : vtb_no_memory(f->err, "names");
  }
  vtb_map_free(&prefixes);
  return status;
}

/* ---- the report ------------------------------------------------------------------------------ */

static vtb_status list(const fitter *f, vtb_fit_list *to, const char *text) {
  char *copy = text ? keep(f, text) : NULL;
  return copy && vtb_vec_try_push(to, copy) ? VTB_OK : vtb_no_memory(f->err, "a report");
}

static vtb_status list_shapes(const fitter *f, const vtb_tensor_info *t, const vtb_renamed *have) {
  vtb_strbuf s = VTB_CHECKED_STRBUF;
  vtb_strbuf_printf(&s, "%s is ", t->name);
  vtb_shape_print(&s, have->rank, have->dim);
  vtb_strbuf_puts(&s, ", the model's ");
  vtb_shape_print(&s, t->rank, t->dim);
  vtb_status status = list(f, &f->report->shapes, s.failed ? NULL : s.at);
  vtb_strbuf_free(&s);
  return status;
}

static vtb_status list_resized(const fitter *f, const char *name, const vtb__table *t) {
  char *text =
      vtb_strprintf("%s from %lldx%lld to %lldx%lld", name, (long long)t->from.height,
                    (long long)t->from.width, (long long)t->to.height, (long long)t->to.width);
  vtb_status status = list(f, &f->report->resized, text);
  free(text);
  return status;
}

static bool has_class_axis(const fitter *f, const vtb_tensor_info *t) {
  bool has = false;
  for (int i = 0; i < t->rank; i++) has |= t->dim[i] == f->o->classes;
  return has && f->o->classes > 0;
}

/* The file lacks only a classifier: tensors of the model's classes and no other. */
static bool lacks_head_only(const fitter *f, const reading *r) {
  for (int i = 0; i < f->n; i++)
    if (r->of[i].fate == MISSING && !has_class_axis(f, &f->tensors[i])) return false;
  return f->o->new_head;
}

static vtb_status report_model(const fitter *f, const reading *r) {
  vtb_fit_report *to = f->report;
  bool headless = lacks_head_only(f, r);
  bool heads = f->o->new_head && r->file_classes > 0;
  vtb_status status = VTB_OK;
  for (int i = 0; i < f->n && status == VTB_OK; i++) {
    const vtb_tensor_info *t = &f->tensors[i];
    const found *at = &r->of[i];
    to->n_loaded += at->fate == SAME || at->fate == RESIZED;
    if (at->fate == MISSING)
      status = list(f, headless ? &to->new_head : &to->missing, t->name);
    else if (at->fate == OTHER_CLASSES && heads)
      status = list(f, &to->new_head, t->name);
    else if (at->fate == OTHER_CLASSES || at->fate == OTHER_SHAPE)
      status = list_shapes(f, t, at->have);
    else if (at->fate == RESIZED)
      status = list_resized(f, t->name, &at->table);
  }
  return status;
}

static vtb_status report_file(const fitter *f, const reading *r) {
  vtb_map used = {0};
  vtb_status status = VTB_OK;
  for (int i = 0; i < f->n && status == VTB_OK; i++) {
    const vtb_renamed *have = r->of[i].have;
    for (int k = 0; have && k < have->n_from && status == VTB_OK; k++)
      if (!vtb_map_try_set(&used, have->from[k]->name, f->report))
        status = vtb_no_memory(f->err, "a report");
  }
  for (size_t i = 0; i < f->file->n && status == VTB_OK; i++) {
    const char *name = f->file->at[i]->name;
    if (vtb_map_has(&used, name)) continue;
    bool ignored = vtb_names_ignore(
        f->o->names, name + (vtb_starts_with(name, r->prefix) ? strlen(r->prefix) : 0));
    status = list(f, ignored ? &f->report->ignored : &f->report->unused, name);
  }
  vtb_map_free(&used);
  return status;
}

static vtb_status make_report(const fitter *f, const reading *r) {
  vtb_fit_report *to = f->report;
  to->prefix = r->prefix;
  to->n_in_file = (int)f->file->n;
  to->names = r->set == VTB_NO_SET ? NULL : keep(f, vtb_names_label(f->o->names, r->set));
  if (r->set != VTB_NO_SET && !to->names) return vtb_no_memory(f->err, "a report");
  to->file_classes = r->file_classes > 0 ? r->file_classes : 0;
  vtb_status status = report_model(f, r);
  return status == VTB_OK ? report_file(f, r) : status;
}

/* ---- filling --------------------------------------------------------------------------------- */

static vtb_status fill_buffers(const fitter *f, const reading *r) {
  vtb_status status = VTB_OK;
  for (int i = 0; i < f->n && status == VTB_OK; i++) {
    const found *at = &r->of[i];
    if (at->fate == RESIZED)
      status = vtb__table_read(&at->table, at->have, f->buffers[i], f->err);
    else if (at->fate == SAME && f->tensors[i].is_int)
      status = vtb_renamed_read_i32(at->have, f->buffers[i], f->err);
    else if (at->fate == SAME)
      status = vtb_renamed_read_f32(at->have, f->buffers[i], f->err);
  }
  return status;
}

vtb_status vtb_fit(const vtb_tensor_info *tensors, int n, const vtb_weights *w,
                   const vtb_fit_options *o, void *const *buffers, vtb_fit_report *r,
                   vtb_error *err) {
  fitter f = {tensors, n, w, o, buffers, r, err};
  reading best = {0};
  *r = (vtb_fit_report){.prefix = ""};
  vtb_arena_init(&r->arena);
  for (int i = 0; i < n; i++) r->n_wanted += is_wanted(&f, i);
  vtb_status status = choose_reading(&f, &best);
  if (status == VTB_OK) status = make_report(&f, &best);
  if (status == VTB_OK) status = vtb__fit_judge(r, w, o, err);
  if (status == VTB_OK && buffers) status = fill_buffers(&f, &best);
  reading_free(&best);
  return status;
}
