/* Values, their unique text, and the small services of the evaluator: messages, limits,
 * descriptions. */
#include "frontend/lang/builtin.h"

vtb__val vtb__int(int64_t i) { return (vtb__val){.kind = VTB__INT, .u.i = i}; }
vtb__val vtb__float(double f) { return (vtb__val){.kind = VTB__FLOAT, .u.f = f}; }
vtb__val vtb__bool(bool b) { return (vtb__val){.kind = VTB__BOOL, .u.b = b}; }
vtb__val vtb__val_string(const char *s) {
  return (vtb__val){.kind = VTB__STRING, .u.str = {s, NULL, false}};
}

vtb__val vtb__tensor(vtb_value *v, const vtb__layout *l) {
  if (!v) return VTB__ERR;
  return (vtb__val){.kind = VTB__TENSOR, .u.t = {v, l ? l : &vtb__plain}};
}

bool vtb__is_number(vtb__val v) { return v.kind == VTB__INT || v.kind == VTB__FLOAT; }
double vtb__val_number(vtb__val v) { return v.kind == VTB__INT ? (double)v.u.i : v.u.f; }

const char *vtb__kind_text(vtb__kind k) {
  static const char *const text[] = {"none",           "error", "int",  "float", "bool",  "string",
                                     "size",           "path",  "mode", "init",  "block", "list",
                                     "several values", "tensor"};
  return text[k];
}

const char *vtb__function_name(vtb__val v) {
  return v.u.fn.decl ? v.u.fn.decl->name.text : v.u.fn.builtin->name;
}

bool vtb__is_model(vtb__val v) {
  const vtb_decl *d = v.kind == VTB__FUNCTION ? v.u.fn.decl : NULL;
  return d && (d->kind == VTB_DECL_MODEL || d->kind == VTB_DECL_PRESET);
}

static bool path_equal(const vtb__path *x, const vtb__path *y) {
  const vtb_path *a = &x->order, *b = &y->order;
  if (a->order != b->order || strcmp(a->nest, b->nest) != 0 || a->snake != b->snake ||
      a->reversed != b->reversed || a->hflip != b->hflip || a->vflip != b->vflip ||
      a->tflip != b->tflip)
    return false;
  if (x->by || y->by) return x->by && y->by && strcmp(x->key, y->key) == 0;
  if (a->order != VTB_PATH_LIST) return true;
  return a->n == b->n && memcmp(a->list, b->list, (size_t)a->n * sizeof *a->list) == 0;
}

static bool list_equal(vtb__val a, vtb__val b) {
  if (a.u.list.n != b.u.list.n) return false;
  for (size_t i = 0; i < a.u.list.n; i++)
    if (!vtb__val_equal(a.u.list.at[i], b.u.list.at[i])) return false;
  return true;
}

bool vtb__val_equal(vtb__val a, vtb__val b) {
  if (vtb__is_number(a) && vtb__is_number(b)) {
    if (a.kind == VTB__INT && b.kind == VTB__INT) return a.u.i == b.u.i;
    return vtb__val_number(a) == vtb__val_number(b);
  }
  if (a.kind != b.kind) return false;
  switch (a.kind) {
  case VTB__NONE:
    return true;
  case VTB__BOOL:
    return a.u.b == b.u.b;
  case VTB__STRING:
    return vtb_streq(a.u.str.s, b.u.str.s);
  case VTB__SIZE:
    return a.u.size.h == b.u.size.h && a.u.size.w == b.u.size.w &&
           (a.u.size.rank == 3 ? a.u.size.t : 1) == (b.u.size.rank == 3 ? b.u.size.t : 1);
  case VTB__PATH:
    return path_equal(a.u.path, b.u.path);
  case VTB__MODE:
    return vtb_streq(a.u.mode.name, b.u.mode.name) && a.u.mode.chunk == b.u.mode.chunk;
  case VTB__INIT:
    return vtb_streq(a.u.init, b.u.init);
  case VTB__FUNCTION:
    return a.u.fn.decl == b.u.fn.decl && a.u.fn.builtin == b.u.fn.builtin;
  case VTB__LIST:
  case VTB__TUPLE:
    return list_equal(a, b);
  default:
    return false;
  }
}

/* ---- text ------------------------------------------------------------------------------------ */

static void print_path(const vtb__path *path, vtb_strbuf *out) {
  const vtb_path *p = &path->order;
  if (p->order != VTB_PATH_LIST) {
    vtb_path_print_order(p, out);
    return;
  }
  if (path->by) {
    vtb_strbuf_printf(out, "path(by = %s)", path->key);
  } else {
    vtb_strbuf_puts(out, "path([");
    for (int64_t i = 0; i < p->n; i++)
      vtb_strbuf_printf(out, i ? ", %lld" : "%lld", (long long)p->list[i]);
    vtb_strbuf_puts(out, "])");
  }
  if (p->hflip) vtb_strbuf_puts(out, ".hflip");
  if (p->vflip) vtb_strbuf_puts(out, ".vflip");
  if (p->tflip) vtb_strbuf_puts(out, ".tflip");
  if (p->reversed) vtb_strbuf_puts(out, "~");
}

static void print_list(vtb__val v, vtb_strbuf *out) {
  vtb_strbuf_putc(out, v.kind == VTB__LIST ? '[' : '(');
  for (size_t i = 0; i < v.u.list.n; i++) {
    if (i) vtb_strbuf_puts(out, ", ");
    vtb__val_print(v.u.list.at[i], out);
  }
  vtb_strbuf_putc(out, v.kind == VTB__LIST ? ']' : ')');
}

void vtb__val_print(vtb__val v, vtb_strbuf *out) {
  switch (v.kind) {
  case VTB__NONE:
    vtb_strbuf_puts(out, "none");
    break;
  case VTB__ERROR:
    vtb_strbuf_puts(out, "?");
    break;
  case VTB__INT:
    vtb_strbuf_printf(out, "%lld", (long long)v.u.i);
    break;
  case VTB__FLOAT:
    vtb_strbuf_double(out, v.u.f);
    break;
  case VTB__BOOL:
    vtb_strbuf_puts(out, v.u.b ? "true" : "false");
    break;
  case VTB__STRING:
    vtb_strbuf_printf(out, "\"%s\"", v.u.str.s);
    break;
  case VTB__SIZE:
    vtb_grid_print(
        &(vtb_grid){v.u.size.rank ? v.u.size.rank : 2, v.u.size.t, v.u.size.h, v.u.size.w}, out);
    break;
  case VTB__PATH:
    print_path(v.u.path, out);
    break;
  case VTB__MODE:
    vtb_strbuf_puts(out, v.u.mode.name);
    if (v.u.mode.chunk) vtb_strbuf_printf(out, "(%lld)", (long long)v.u.mode.chunk);
    break;
  case VTB__INIT:
    vtb_strbuf_puts(out, v.u.init);
    break;
  case VTB__FUNCTION:
    vtb_strbuf_puts(out, vtb__function_name(v));
    break;
  case VTB__LIST:
  case VTB__TUPLE:
    print_list(v, out);
    break;
  case VTB__TENSOR:
    vtb_type_print(&v.u.t.v->type, out);
    vtb__layout_print(v.u.t.layout, out);
    break;
  }
}

static void key_functions(vtb__val v, vtb_strbuf *out) {
  if (v.kind == VTB__FUNCTION) vtb_strbuf_printf(out, "@%p", (const void *)v.u.fn.decl);
  for (size_t i = 0; v.kind == VTB__LIST && i < v.u.list.n; i++) key_functions(v.u.list.at[i], out);
}

void vtb__val_key(vtb__val v, vtb_strbuf *out) {
  vtb__val_print(v, out);
  key_functions(v, out);
}

const char *vtb__type_string(vtb__eval *e, const vtb_type *t) {
  vtb_strbuf s = {0};
  vtb_type_print(t, &s);
  const char *text = vtb_arena_strndup(&e->arena, s.at ? s.at : "", s.n);
  vtb_strbuf_free(&s);
  return text;
}

const char *vtb__describe(vtb__eval *e, vtb__val v) {
  if (v.kind == VTB__TENSOR) {
    const vtb__layout *l = v.u.t.layout;
    const char *what = l->kind == VTB__TOKENS  ? "tokens"
                       : l->kind == VTB__PLAIN ? "a tensor"
                       : l->grid.rank == 1     ? "a series"
                       : l->grid.rank == 2     ? "an image"
                                               : "a video";
    return vtb_arena_printf(&e->arena, "%s %s", what, vtb__type_string(e, &v.u.t.v->type));
  }
  if (v.kind == VTB__NONE) return "none";
  if (v.kind == VTB__FUNCTION)
    return vtb_arena_printf(&e->arena, "the %s %s",
                            v.u.fn.decl ? vtb__decl_kind_text(v.u.fn.decl->kind) : "builtin",
                            vtb__function_name(v));
  if (v.kind == VTB__TUPLE) return vtb_arena_printf(&e->arena, "%zu values", v.u.list.n);
  vtb_strbuf s = {0};
  vtb__val_print(v, &s);
  const char *kind = vtb__kind_text(v.kind);
  const char *article = v.kind == VTB__INT || v.kind == VTB__INIT ? "an" : "a";
  const char *text = s.n > 60 ? vtb_arena_printf(&e->arena, "%s %s", article, kind)
                              : vtb_arena_printf(&e->arena, "the %s %s", kind, s.at ? s.at : "");
  vtb_strbuf_free(&s);
  return text;
}

/* ---- observers ------------------------------------------------------------------------------- */

static void observe_tensor(vtb__eval *e, vtb__val v, vtb_strbuf *out) {
  const vtb__layout *l = v.u.t.layout;
  vtb_strbuf_puts(out, vtb__describe(e, v));
  if (l->kind != VTB__TOKENS) return;
  int64_t extra = vtb__layout_extra(l);
  vtb_strbuf_printf(out, " of a grid %s", vtb__grid_text(e, &l->grid));
  if (extra)
    vtb_strbuf_printf(out, " and %lld extra token%s (%lld first, %lld within, %lld last)",
                      (long long)extra, extra == 1 ? "" : "s", (long long)l->head,
                      (long long)l->mid, (long long)l->tail);
  for (; l->via; l = l->via->outer) vtb_strbuf_printf(out, ", along %s", l->via->path);
}

void vtb__observe(vtb__eval *e, vtb_span at, vtb__val v) {
  const vtb_instantiate_options *o = e->options;
  if (!o || !o->observe || !at.source || v.kind == VTB__ERROR) return;
  vtb_strbuf out = {0};
  bool several = v.kind == VTB__LIST || v.kind == VTB__TUPLE;
  size_t n = several ? v.u.list.n : 1;
  for (size_t i = 0; i < n && i < 4; i++) {
    vtb__val part = several ? v.u.list.at[i] : v;
    if (i) vtb_strbuf_puts(&out, "; ");
    if (part.kind == VTB__TENSOR)
      observe_tensor(e, part, &out);
    else
      vtb_strbuf_puts(&out, vtb__describe(e, part));
  }
  if (n > 4) vtb_strbuf_printf(&out, "; %zu more", n - 4);
  if (out.n) o->observe(o->observer, at, out.at);
  vtb_strbuf_free(&out);
}

/* ---- messages and limits --------------------------------------------------------------------- */

vtb__val vtb__report(vtb__eval *e, int code, vtb_span span, const char *fmt, ...) {
  if (e->stopped) return VTB__ERR;
  va_list ap;
  va_start(ap, fmt);
  vtb_strbuf s = {0};
  vtb_strbuf_vprintf(&s, fmt, ap);
  va_end(ap);
  vtb_diag_error(e->diags, code, span, "%s", s.at ? s.at : "");
  vtb_strbuf_free(&s);
  return VTB__ERR;
}

void vtb__help(vtb__eval *e, const char *fmt, ...) {
  if (e->stopped) return;
  va_list ap;
  va_start(ap, fmt);
  vtb_strbuf s = {0};
  vtb_strbuf_vprintf(&s, fmt, ap);
  va_end(ap);
  vtb_diag_help(e->diags, "%s", s.at ? s.at : "");
  vtb_strbuf_free(&s);
}

void vtb__report_shape(vtb__eval *e, const vtb_param *p) {
  vtb__report(e, VTB_DIAG_MISSING_BINDING, p->span, "the shape of '%s' is not given", p->name.text);
  vtb__help(e,
            "models call it; `vertebra build --shape %s=SIZES`, as x=Bx196x192 with B for the "
            "batch, makes a program of it alone",
            p->name.text);
}

bool vtb__suggest_help(vtb__eval *e, const char *name, const char *const *names, size_t n) {
  const char *near = e->stopped ? NULL : vtb_suggest(name, names, n);
  if (near) vtb_diag_help(e->diags, "did you mean '%s'?", near);
  return near != NULL;
}

bool vtb__tick(vtb__eval *e, vtb_span span) {
  if (e->stopped) return false;
  if (++e->n_steps <= VTB__MAX_STEPS) return true;
  vtb__report(e, VTB_DIAG_TOO_LARGE, span, "evaluation takes more than %d steps", VTB__MAX_STEPS);
  e->stopped = true;
  return false;
}

int64_t vtb__batches_of(const vtb__eval *e, vtb_dim d) {
  bool known = vtb_is_batch(e->batch) == vtb_is_batch(d.size);
  if (!known || !vtb_streq(d.name, "B") || d.size % e->batch != 0) return 0;
  return d.size / e->batch;
}

vtb__val vtb__batch_word(vtb__eval *e, int64_t n) {
  return vtb__val_string(n == 1 ? "batch"
                                : vtb_arena_printf(&e->arena, "%lld * batch", (long long)n));
}

int64_t vtb__batches_meant(vtb__val word) {
  if (word.kind != VTB__STRING) return 0;
  char *end;
  long long n = strtoll(word.u.str.s, &end, 10);
  if (end == word.u.str.s) return strcmp(end, "batch") == 0;
  return strcmp(end, " * batch") == 0 ? n : 0;
}
