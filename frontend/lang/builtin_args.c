/* Arguments of builtin functions, bound to the parameters of their row by name or by place, and
 * checked to be of their kinds. */
#include "frontend/lang/builtin.h"
#include "frontend/lang/habits.h"

#include <stdlib.h>
#include <string.h>

/* ---- a row's parameters ---------------------------------------------------------------------- */

/* The text up to one of the ends, without blanks round it; *at moves behind that end. */
static char *word_of(vtb_arena *arena, const char **at, const char *ends) {
  const char *from = *at + strspn(*at, " ");
  size_t n = strcspn(from, ends);
  *at = from + n;
  while (n && from[n - 1] == ' ') n--;
  return vtb_arena_strndup(arena, from, n);
}

int vtb__builtin_form(vtb_arena *arena, const char **at, vtb__parameter out[VTB__MOST_PARAMETERS]) {
  int n = 0;
  for (; **at && **at != '|'; n++) {
    vtb_check(n < VTB__MOST_PARAMETERS, "a builtin has more than %d parameters",
              VTB__MOST_PARAMETERS);
    out[n] = (vtb__parameter){.name = word_of(arena, at, ":")};
    *at += 1;
    out[n].kind = word_of(arena, at, "=,.|");
    if (**at == '.') out[n].any = true, *at += strlen("...");
    if (**at == '=') *at += 1, out[n].otherwise = word_of(arena, at, ",|");
    if (**at == ',') *at += 1;
  }
  if (**at == '|') *at += 1;
  return n;
}

/* A default that is a literal; VTB__NIL of others. */
static vtb__val literal(vtb_arena *arena, const char *text) {
  char *end;
  double x = strtod(text, &end);
  if (!*end) return strchr(text, '.') ? vtb__float(x) : vtb__int((int64_t)x);
  if (*text == '"') return vtb__val_string(vtb_arena_strndup(arena, text + 1, strlen(text) - 2));
  return strcmp(text, "true") == 0 ? vtb__bool(true) : VTB__NIL;
}

/* ---- messages -------------------------------------------------------------------------------- */

/* "it is pad(x, low, high, axis = none)" */
static bool say_form(vtb__eval *e, const vtb__builtin *row) {
  vtb_strbuf forms = {0};
  for (const char *at = row->parameters; *at;) {
    vtb__parameter p[VTB__MOST_PARAMETERS];
    int n = vtb__builtin_form(&e->arena, &at, p);
    vtb_strbuf_printf(&forms, "%s%s(", forms.n ? " or " : "", row->name);
    for (int i = 0; i < n; i++)
      vtb_strbuf_printf(&forms, "%s%s%s%s%s%s", i ? ", " : "", p[i].name,
                        strcmp(p[i].kind, "named") == 0 ? " = ..." : "", p[i].any ? ", ..." : "",
                        p[i].otherwise ? " = " : "", p[i].otherwise ? p[i].otherwise : "");
    vtb_strbuf_puts(&forms, ")");
  }
  vtb__help(e, "it is %s", forms.at);
  vtb_strbuf_free(&forms);
  vtb__hint_call(e, row->name);
  return false;
}

static bool wrong_kind(vtb__eval *e, const vtb__args *a, const vtb__argument *arg,
                       const char *kind) {
  static const char *const wanted[][2] = {
      {"tensor", "a tensor"}, {"tokens", "a tensor"}, {"int", "an int"}, {"bool", "true or false"},
      {"number", "a number"}, {"string", "a string"}, {"size", "a size"}};
  bool of_tensor = kind[0] == 't';
  const char *want = kind;
  for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
    if (strcmp(wanted[i][0], kind) == 0) want = wanted[i][1];
  vtb__report(e,
              arg->value.kind == VTB__TENSOR && !of_tensor ? VTB_DIAG_NOT_COMPILE_TIME
                                                           : VTB_DIAG_TYPE_MISMATCH,
              arg->span, "'%s' of '%s' is %s, and %s is needed", arg->name, a->name,
              vtb__describe(e, arg->value), want);
  if (strcmp(arg->name, "axis") == 0)
    vtb__hint_axes(e, a->at[0].value);
  else if (arg->value.kind == VTB__LIST && of_tensor)
    vtb__help(e, "vector([1, 2]) is a tensor of a list of numbers");
  else
    vtb__hint_call(e, a->name);
  return false;
}

/* ---- binding --------------------------------------------------------------------------------- */

/* Checks what is given, and makes it what the function expects of the kind. */
static bool check(vtb__eval *e, const vtb__args *a, vtb__argument *arg, const char *kind) {
  vtb__val *v = &arg->value;
  if (strcmp(kind, "value") == 0) return true;
  if (strcmp(kind, "number") == 0 && vtb__is_number(*v)) {
    *v = vtb__float(vtb__val_number(*v));
    return true;
  }
  if (strcmp(kind, "size") == 0 && v->kind == VTB__INT) {
    *v = (vtb__val){.kind = VTB__SIZE, .u.size = {0, v->u.i, v->u.i, v->u.i}};
    return true;
  }
  if (strcmp(kind, "tokens") == 0 && v->kind == VTB__TENSOR) {
    if (v->u.t.layout->kind == VTB__TOKENS) return true;
    vtb__report(e, VTB_DIAG_NEEDS_TOKENS, a->span, "%s takes tokens, not %s", a->name,
                vtb__describe(e, *v));
    return false;
  }
  return strcmp(kind, vtb__kind_text(v->kind)) == 0 || wrong_kind(e, a, arg, kind);
}

typedef struct given {
  const vtb_arg_list *list; /* the last of the values; what is before them is `self` */
  const vtb__val *at;
  bool *used;
  size_t n, next; /* next: the first that may be one by place */
  bool by_place;  /* all names are those of a function that the row calls */
  vtb_span span;
} given;

static const vtb_arg *written(const given *g, size_t i) {
  size_t self = g->n - g->list->n;
  return i < self ? NULL : g->list->at[i - self];
}

static const char *written_name(const given *g, size_t i) {
  return written(g, i) ? written(g, i)->name.text : NULL;
}

static vtb_span span_of(const given *g, size_t i) {
  return written(g, i) ? written(g, i)->span : g->span;
}

/* The argument of that name, or the next by place; false if there is none. */
static bool take_given(given *g, const char *name, vtb__argument *out) {
  size_t i = 0;
  while (i < g->n && (g->by_place || g->used[i] || !vtb_streq(written_name(g, i), name))) i++;
  if (i == g->n) {
    while (g->next < g->n && (g->used[g->next] || written_name(g, g->next))) g->next++;
    i = g->next;
  }
  if (i == g->n) return false;
  g->used[i] = true;
  *out = (vtb__argument){name, g->at[i], true, span_of(g, i)};
  return true;
}

/* A list of tensors where any number of them is taken. */
static bool take_list(vtb__eval *e, const given *g, const vtb__parameter *p, vtb__args *a) {
  vtb__argument given_as = a->at[a->n];
  size_t more = given_as.value.u.list.n;
  vtb__argument *at =
      VTB_NEW_ARRAY(&e->arena, vtb__argument, a->n + more + g->n + VTB__MOST_PARAMETERS);
  memcpy(at, a->at, a->n * sizeof *at);
  a->at = at;
  for (size_t i = 0; i < more; i++) {
    at[a->n] = given_as;
    at[a->n].value = given_as.value.u.list.at[i];
    if (!check(e, a, &at[a->n++], p->kind)) return false;
  }
  return true;
}

static bool bind_one(vtb__eval *e, const vtb__builtin *row, given *g, const vtb__parameter *p,
                     vtb__args *a) {
  vtb__argument *arg = &a->at[a->n];
  if (strcmp(p->kind, "named") == 0) {
    a->more = VTB_NEW_ARRAY(&e->arena, vtb__argument, g->n);
    return true;
  }
  if (take_given(g, p->name, arg)) {
    bool tensors = p->any && strcmp(p->kind, "tensor") == 0;
    if (tensors && arg->value.kind == VTB__LIST) return take_list(e, g, p, a);
    a->n++;
    if (arg->value.kind == VTB__NONE && vtb_streq(p->otherwise, "none")) return true;
    return check(e, a, arg, p->kind);
  }
  if (p->any) return true;
  if (!p->otherwise) {
    vtb__report(e, VTB_DIAG_MISSING_ARGUMENT, a->span, "builtin '%s' needs '%s'", a->name, p->name);
    return say_form(e, row);
  }
  *arg = (vtb__argument){p->name, literal(&e->arena, p->otherwise), false, a->span};
  a->n++;
  return check(e, a, arg, arg->value.kind == VTB__NONE ? "value" : p->kind);
}

static bool surplus(vtb__eval *e, const vtb__builtin *row, const given *g, vtb__args *a) {
  for (size_t i = 0; i < g->n; i++) {
    if (g->used[i]) continue;
    if (a->more && written_name(g, i)) {
      a->more[a->n_more++] = (vtb__argument){written_name(g, i), g->at[i], true, span_of(g, i)};
      continue;
    }
    const char *name = written_name(g, i),
               *habit = name ? vtb__habit(VTB__HABIT_PARAMETER, name) : NULL;
    if (name)
      vtb__report(e, VTB_DIAG_UNKNOWN_ARGUMENT, span_of(g, i), "builtin '%s' has no parameter '%s'",
                  a->name, name);
    else
      vtb__report(e, VTB_DIAG_TOO_MANY_ARGUMENTS, span_of(g, i),
                  "builtin '%s' takes fewer arguments", a->name);
    if (!habit) return say_form(e, row);
    vtb__help(e, "%s", habit);
    return false;
  }
  return true;
}

/* The first form of the row that takes so many arguments, else the last. */
static int find_form(vtb__eval *e, const vtb__builtin *row, size_t n,
                     vtb__parameter out[VTB__MOST_PARAMETERS]) {
  const char *at = row->parameters;
  int count;
  do count = vtb__builtin_form(&e->arena, &at, out);
  while (*at && (size_t)count < n);
  return count;
}

bool vtb__args_bind(vtb__eval *e, const vtb__builtin *row, const vtb_arg_list *list,
                    const vtb__val *values, size_t n, vtb__args *a) {
  vtb__parameter p[VTB__MOST_PARAMETERS];
  int count = find_form(e, row, n, p);
  given g = {list,   values, VTB_NEW_ARRAY(&e->arena, bool, n + 1),
             n,      0,      count && strcmp(p[count - 1].kind, "named") == 0,
             a->span};
  a->at = VTB_NEW_ARRAY(&e->arena, vtb__argument, n + VTB__MOST_PARAMETERS);
  for (int i = 0; i < count; i++) {
    size_t bound; /* a parameter that takes any number does until nothing is left by place */
    do {
      bound = a->n;
      if (!bind_one(e, row, &g, &p[i], a)) return false;
    } while (p[i].any && a->n > bound);
  }
  return surplus(e, row, &g, a);
}

/* ---- asking for them ------------------------------------------------------------------------- */

const vtb__argument *vtb__arg_of(const vtb__args *a, const char *name) {
  for (size_t i = 0; i < a->n; i++)
    if (strcmp(a->at[i].name, name) == 0) return &a->at[i];
  vtb_bug("builtin '%s' has no parameter '%s'", a->name, name);
}

bool vtb__sides(vtb__eval *e, const vtb__args *a, const char *name, int rank, int64_t *out) {
  static const char *const forms[] = {"an int", "an int, or one like 7x14",
                                      "an int, or one like 4x7x7"};
  vtb_grid size = vtb__arg(a, name).u.size, g = size;
  if (!g.rank) g.rank = rank;
  if (g.rank == rank) {
    vtb_grid_sides(&g, out);
    return true;
  }
  vtb__report(e, VTB_DIAG_BAD_SIZE, a->span, "%s of %s is %s, and the grid has %d ax%ss", name,
              a->name, vtb__grid_text(e, &size), rank, rank == 1 ? "i" : "e");
  if (!e->stopped) vtb_diag_help(e->diags, "give %s", forms[rank - 1]);
  return false;
}

bool vtb__channels_last(vtb__eval *e, const vtb__args *a, vtb__val x) {
  if (x.u.t.layout->kind != VTB__IMAGE) return true;
  vtb__report(e, VTB_DIAG_IMAGE_AXIS, a->span,
              "%s works along the last axis, and that of %s is its width", a->name,
              vtb__describe(e, x));
  bool by_name = false;
  for (size_t i = 0; i < a->n; i++) by_name |= strcmp(a->at[i].name, "axis") == 0;
  vtb__help(e,
            "%spixels(x) of std.conv has the channels last, as tokens, and to_image(y) is the way "
            "back; patch_embed(\"embed\", x, 64, 4x4, 4x4) of std.nn makes tokens of patches",
            by_name ? "axis = \"channels\", or \"width\" if that is meant; " : "");
  return false;
}
