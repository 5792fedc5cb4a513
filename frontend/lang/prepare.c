/* prepare(crop = 0.9, filter = bicubic, ...): what becomes of images before the model sees them.
 *
 * It stands in a model's body, or behind a preset's call, where it holds over what the model says.
 * The module has what was said as text, which goes with programs and built files;
 * runtime/image/prepare.h reads it. */
#include "frontend/lang/value.h"
#include "runtime/base/prepare.h"

#include <math.h>

static const char *const filters[] = {VTB_FILTER_WORDS, NULL};
static const char *const resizes[] = {VTB_RESIZE_WORDS, NULL};
static const char *const names[VTB__PREPARE_FIELDS] = {"crop", "resize", "filter", "mean", "std"};

static bool is_word(const char *const *words, const char *word) {
  for (; *words; words++)
    if (strcmp(*words, word) == 0) return true;
  return false;
}

/* A word of the list, bare or as a string. */
static const char *take_word(vtb__eval *e, const vtb_arg *a, const char *const *words) {
  const vtb_expr *x = a->value;
  const char *word = x->kind == VTB_EXPR_NAME ? x->u.name : NULL;
  if (!word || (!is_word(words, word) && vtb__env_has(e, word))) {
    vtb__val v = vtb__expr(e, x);
    if (v.kind == VTB__ERROR) return NULL;
    if (v.kind != VTB__STRING) {
      vtb__report(e, VTB_DIAG_TYPE_MISMATCH, x->span,
                  "'%s' of 'prepare' is %s, and a word is needed", a->name.text,
                  vtb__describe(e, v));
      return NULL;
    }
    word = v.u.str.s;
  }
  size_t n = 0;
  while (words[n]) n++;
  if (is_word(words, word)) return vtb_arena_printf(&e->arena, "\"%s\"", word);
  vtb__report(e, VTB_DIAG_UNKNOWN_CHOICE, x->span, "'%s' is no %s of 'prepare'", word,
              a->name.text);
  if (!vtb__suggest_help(e, word, words, n)) {
    vtb_strbuf list = {0};
    for (size_t i = 0; i < n; i++)
      vtb_strbuf_printf(&list, "%s%s", !i ? "" : i + 1 == n ? " and " : ", ", words[i]);
    vtb__help(e, "there are %s", list.at);
    vtb_strbuf_free(&list);
  }
  return NULL;
}

static bool bad(vtb__eval *e, const vtb_arg *a, const char *what) {
  vtb__report(e, VTB_DIAG_BAD_PREPARATION, a->value->span, "'%s' of 'prepare' %s", a->name.text,
              what);
  return false;
}

static bool take_number(vtb__eval *e, const vtb_arg *a, vtb__val v, vtb_strbuf *out) {
  bool mean = strcmp(a->name.text, "mean") == 0, crop = strcmp(a->name.text, "crop") == 0;
  if (v.kind == VTB__ERROR) return false;
  if (!vtb__is_number(v)) {
    vtb__report(e, v.kind == VTB__TENSOR ? VTB_DIAG_NOT_COMPILE_TIME : VTB_DIAG_TYPE_MISMATCH,
                a->value->span, "'%s' of 'prepare' is %s, and a number is needed", a->name.text,
                vtb__describe(e, v));
    return false;
  }
  double x = vtb__val_number(v);
  if (crop && !(x > 0 && x <= 1)) return bad(e, a, "is above 0 and at most 1");
  if (!isfinite((float)x)) return bad(e, a, "is a finite number");
  if (!mean && !crop && !((float)x > 0)) return bad(e, a, "is above 0: it is divided by");
  vtb_strbuf_double(out, x);
  return true;
}

/* Words for numbers: ImageNet's, for red, green and blue; those of the data set, so that nothing is
 * said. */
static const char *known_channels(vtb__eval *e, const vtb_arg *a) {
  const char *word = a->value->kind == VTB_EXPR_NAME ? a->value->u.name : "";
  if (vtb__env_has(e, word)) return NULL;
  if (strcmp(word, "data") == 0) return "";
  if (strcmp(word, "imagenet") != 0) return NULL;
  return strcmp(a->name.text, "mean") == 0 ? "[0.485, 0.456, 0.406]" : "[0.229, 0.224, 0.225]";
}

/* One number for all channels, or one each. */
static bool take_channels(vtb__eval *e, const vtb_arg *a, vtb_strbuf *out) {
  vtb__val v = vtb__expr(e, a->value);
  if (v.kind != VTB__LIST) return take_number(e, a, v, out);
  if (v.u.list.n != 1 && v.u.list.n != 3)
    return bad(e, a, "is one number, or three, one for each of red, green and blue");
  for (size_t i = 0; i < v.u.list.n; i++) {
    vtb_strbuf_puts(out, i ? ", " : "[");
    if (!take_number(e, a, v.u.list.at[i], out)) return false;
  }
  vtb_strbuf_putc(out, ']');
  return true;
}

static const char *take_value(vtb__eval *e, const vtb_arg *a, int field) {
  if (field == VTB__PREPARE_RESIZE) return take_word(e, a, resizes);
  if (field == VTB__PREPARE_FILTER) return take_word(e, a, filters);
  const char *known = field == VTB__PREPARE_CROP ? NULL : known_channels(e, a);
  if (known) return known;
  vtb_strbuf s = {0};
  bool ok = field == VTB__PREPARE_CROP ? take_number(e, a, vtb__expr(e, a->value), &s)
                                       : take_channels(e, a, &s);
  const char *text = ok ? vtb_arena_strdup(&e->arena, s.at) : NULL;
  vtb_strbuf_free(&s);
  return text;
}

static void take_argument(vtb__eval *e, const vtb_arg *a, int level) {
  int field = 0;
  if (!a->name.text) {
    vtb__report(e, VTB_DIAG_TOO_MANY_ARGUMENTS, a->span,
                "arguments of 'prepare' are given by name: crop = 0.9");
    return;
  }
  while (field < VTB__PREPARE_FIELDS && strcmp(names[field], a->name.text) != 0) field++;
  if (field == VTB__PREPARE_FIELDS) {
    vtb__report(e, VTB_DIAG_UNKNOWN_ARGUMENT, a->span, "'prepare' has no parameter '%s'",
                a->name.text);
    if (!vtb__suggest_help(e, a->name.text, names, VTB__PREPARE_FIELDS))
      vtb__help(e, "it takes crop, resize, filter, mean and std");
    return;
  }
  vtb__prepared *p = &e->prepared[field];
  if (p->text && p->level == level) {
    vtb__report(e, VTB_DIAG_REPEATED_ARGUMENT, a->span, "'%s' of 'prepare' gets two values",
                a->name.text);
    if (!e->stopped) vtb_diag_note(e->diags, p->span, "the other one");
    return;
  }
  const char *text = take_value(e, a, field);
  if (text) *p = (vtb__prepared){text, a->span, level};
}

static void take_all(vtb__eval *e, const vtb_expr *call, int level) {
  const vtb_arg_list *l = &call->u.call.args;
  for (size_t i = 0; i < l->n; i++) take_argument(e, l->at[i], level);
  if (!l->n)
    vtb__report(e, VTB_DIAG_MISSING_ARGUMENT, call->span,
                "'prepare' says nothing: give crop, resize, filter, mean or std");
}

vtb__val vtb__prepare(vtb__eval *e, const vtb_expr *x) {
  if (vtb__called_model(e)) return VTB__NIL; /* its images are made by whoever calls it */
  if (!e->frame || !e->frame->is_model || x->u.call.self)
    return vtb__report(e, VTB_DIAG_MISPLACED, x->span, "prepare belongs to models and presets");
  int errors = e->diags->n_errors;
  take_all(e, x, 0);
  return e->diags->n_errors > errors ? VTB__ERR : VTB__NIL;
}

void vtb__prepare_preset(vtb__eval *e, const vtb_decl *preset, int level) {
  vtb__env env = {0}, *saved = e->env;
  const vtb_file *file = e->file;
  if (!preset->prepare) return;
  e->env = &env;
  e->file = preset->file;
  take_all(e, preset->prepare, level);
  e->env = saved;
  e->file = file;
}

void vtb__set_preparation(vtb__eval *e) {
  vtb_strbuf s = {0};
  for (int f = 0; f < VTB__PREPARE_FIELDS; f++)
    if (e->prepared[f].text && *e->prepared[f].text)
      vtb_strbuf_printf(&s, "%s\"%s\": %s", s.n ? ", " : "{", names[f], e->prepared[f].text);
  if (s.n) {
    vtb_strbuf_putc(&s, '}');
    e->module->prepare = vtb_intern(e->module, s.at);
  }
  vtb_strbuf_free(&s);
}
