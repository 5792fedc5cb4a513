/* The report of a fit: its line, and the sentence where it is an error. */
#include "runtime/weights/fit_internal.h"

#include <ctype.h>
#include <string.h>

enum { SHOWN = 4 };

void vtb_fit_report_free(vtb_fit_report *r) {
  vtb_vec_free(&r->missing);
  vtb_vec_free(&r->unused);
  vtb_vec_free(&r->ignored);
  vtb_vec_free(&r->new_head);
  vtb_vec_free(&r->shapes);
  vtb_vec_free(&r->resized);
  vtb_arena_free(&r->arena);
  *r = (vtb_fit_report){0};
}

/* "a, b, c, d and 8 more" */
static void print_list(vtb_strbuf *out, const vtb_fit_list *l, const char *between) {
  for (size_t i = 0; i < l->n && i < SHOWN; i++)
    vtb_strbuf_printf(out, "%s%.160s", i ? between : "", l->at[i]);
  if (l->n > SHOWN) vtb_strbuf_printf(out, " and %zu more", l->n - SHOWN);
}

static void print_named(vtb_strbuf *out, const char *what, const vtb_fit_list *l) {
  if (!l->n) return;
  vtb_strbuf_printf(out, "; %s: ", what);
  print_list(out, l, ", ");
}

void vtb_fit_summary(const vtb_fit_report *r, vtb_strbuf *out) {
  vtb_strbuf_printf(out, "%d of %d tensors", r->n_loaded, r->n_wanted);
  if (r->names) vtb_strbuf_printf(out, ", names of %s", r->names);
  if (*r->prefix) vtb_strbuf_printf(out, ", those under \"%s\"", r->prefix);
  print_named(out, "new", &r->new_head);
  print_named(out, "resized", &r->resized);
  print_named(out, "missing, and new", &r->missing);
  print_named(out, "not used", &r->unused);
  if (r->ignored.n) vtb_strbuf_printf(out, "; %zu that are no parameters", r->ignored.n);
}

/* The options that let a misfit pass, of those that are needed. */
static const char *helpful(const vtb_fit_report *r, const vtb_fit_options *o) {
  bool missing = r->missing.n && !o->allow_missing, unused = r->unused.n && !o->allow_unused;
  return missing && unused ? " (--allow-missing, --allow-unused)"
         : missing         ? " (--allow-missing)"
         : unused          ? " (--allow-unused)"
                           : "";
}

/* The first parts of the file's names that most of them share, up to a number: "encoder.layer". */
static void print_beginning(vtb_strbuf *out, const vtb_weights *w) {
  size_t best = 0, length = 0, at = 0;
  for (size_t i = 0; i < w->n; i++) {
    const char *name = w->at[i]->name;
    size_t n = 0, same = 0;
    for (size_t next = 0; name[next] && !isdigit((unsigned char)name[next]);) {
      n = next;
      next += strcspn(name + next, "./");
      if (name[next]) next++;
    }
    for (size_t k = i; n && k < w->n && k < i + 64; k++)
      same += strncmp(w->at[k]->name, name, n) == 0;
    if (same <= best) continue;
    best = same;
    length = n;
    at = i;
  }
  if (best > 1) vtb_strbuf_printf(out, "%.*s", (int)length - 1, w->at[at]->name);
}

static vtb_status nothing_fits(const vtb_fit_report *r, const vtb_weights *w,
                               const vtb_fit_options *o, vtb_error *err) {
  vtb_strbuf begin = VTB_CHECKED_STRBUF;
  print_beginning(&begin, w);
  const char *text = vtb_strbuf_text(&begin), *first = w->n ? w->at[0]->name : "";
  vtb_status status;
  if (!w->n)
    status = vtb_fail(err, VTB_E_INPUT, "%s has no tensors", o->path);
  else if (r->shapes.n)
    status =
        vtb_fail(err, VTB_E_INPUT, "nothing in %s fits the model: %s", o->path, r->shapes.at[0]);
  else
    status = vtb_fail(err, VTB_E_INPUT,
                      "nothing in %s is of the model: it has names such as %.100s, the model such "
                      "as %.100s, and no rules for %s%.100s%s are known (docs/weights.md)",
                      o->path, first, r->missing.n ? r->missing.at[0] : "(none)",
                      *text ? "names that begin with \"" : "that", text, *text ? "\"" : "");
  vtb_strbuf_free(&begin);
  return status;
}

static vtb_status other_classes(const vtb_fit_report *r, const vtb_fit_options *o, vtb_error *err) {
  return vtb_fail(err, VTB_E_INPUT, "%s is a classifier of %lld classes, the model of %lld",
                  o->path, (long long)r->file_classes, (long long)o->classes);
}

static void print_fault(vtb_strbuf *out, const vtb_fit_list *l, const char *what) {
  if (!l->n) return;
  vtb_strbuf_printf(out, "%s %zu %s: ", out->n ? ";" : "", l->n, what);
  print_list(out, l, ", ");
}

vtb_status vtb__fit_judge(const vtb_fit_report *r, const vtb_weights *w, const vtb_fit_options *o,
                          vtb_error *err) {
  if (!r->n_loaded && r->n_wanted) return nothing_fits(r, w, o, err);
  vtb_strbuf s = VTB_CHECKED_STRBUF;
  if (!o->allow_missing) print_fault(&s, &r->missing, "missing");
  if (!o->allow_unused) print_fault(&s, &r->unused, "that the model does not have");
  bool another = 2 * r->n_loaded < r->n_wanted;
  print_fault(&s, &r->shapes, "of another shape");
  vtb_status status = vtb_strbuf_check(&s, err);
  if (status == VTB_OK && s.n && r->file_classes && !o->new_head)
    status = other_classes(r, o, err);
  else if (status == VTB_OK && s.n)
    status = vtb_fail(err, VTB_E_INPUT, "%s %s (%d of %d tensors do),%s%s%s%s%s", o->path,
                      another ? "hardly fits the model" : "does not fit the model", r->n_loaded,
                      r->n_wanted, s.at, helpful(r, o),
                      r->names ? "; read with the names of another tool" : "", o->hint ? "; " : "",
                      o->hint ? o->hint : "");
  vtb_strbuf_free(&s);
  return status;
}
