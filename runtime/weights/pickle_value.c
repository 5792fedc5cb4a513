/* Values of a pickle: making, finding, printing. */
#include "runtime/weights/pickle.h"

#include <string.h>

/* Room for what a pickle builds, beside its own bytes and the tensors. */
enum { MOST_BYTES = 384 << 20 };
enum { MOST_PRINTED = 4096, MOST_NESTED = 6 };

bool vtb_py_refuse(py_machine *m, const char *fmt, ...) {
  char text[256];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  vtb_fail(m->err, VTB_E_INPUT, "%s: damaged, or no file of weights: byte %zu of its pickle: %s",
           m->path, (size_t)(m->at - m->begin), text);
  return false;
}

void *vtb_py_alloc(py_machine *m, size_t count, size_t size_bytes) {
  if (count > MOST_BYTES / size_bytes || m->arena->used_bytes > MOST_BYTES - count * size_bytes) {
    vtb_fail(m->err, VTB_E_INPUT, "%s: its pickle builds more than %d MB of objects", m->path,
             MOST_BYTES >> 20);
    return NULL;
  }
  void *p = vtb_arena_try(m->arena, count, size_bytes);
  if (!p) vtb_no_memory(m->err, m->path);
  return p;
}

py_value *vtb_py_new(py_machine *m, py_kind kind) {
  py_value *v = vtb_py_alloc(m, 1, sizeof *v);
  if (v) v->kind = kind;
  return v;
}

char *vtb_py_string(py_machine *m, const char *at, size_t n) {
  char *copy = vtb_py_alloc(m, n + 1, 1);
  if (copy && n) memcpy(copy, at, n);
  return copy;
}

bool vtb_py_append(py_machine *m, py_value *to, py_value *item) {
  if (to->items.n == to->items.cap) {
    size_t cap = to->items.cap ? 2 * to->items.cap : 4;
    py_value **at = vtb_py_alloc(m, cap, sizeof *at);
    if (!at) return false;
    if (to->items.n) memcpy(at, to->items.at, to->items.n * sizeof *at);
    to->items.at = at;
    to->items.cap = cap;
  }
  to->items.at[to->items.n++] = item;
  return true;
}

bool vtb_py_is_text(const py_value *v, const char *text) {
  return v && (v->kind == PY_TEXT || v->kind == PY_BYTES) && v->text.n == strlen(text) &&
         memcmp(v->text.at, text, v->text.n) == 0;
}

py_value *vtb_py_member(const py_value *dict, const char *key) {
  if (!dict || dict->kind != PY_DICT) return NULL;
  for (size_t i = dict->items.n; i >= 2; i -= 2)
    if (vtb_py_is_text(dict->items.at[i - 2], key)) return dict->items.at[i - 1];
  return NULL;
}

bool vtb_py_int(const py_value *v, int64_t *out) {
  if (!v || (v->kind != PY_INT && v->kind != PY_BOOL)) return false;
  *out = v->integer;
  return true;
}

const char *vtb_py_kind_name(const py_value *v) {
  static const char *const names[] = {
      [PY_NONE] = "None",        [PY_BOOL] = "a truth value", [PY_INT] = "an integer",
      [PY_LONG] = "an integer",  [PY_FLOAT] = "a number",     [PY_TEXT] = "a text",
      [PY_BYTES] = "bytes",      [PY_LIST] = "a list",        [PY_TUPLE] = "a tuple",
      [PY_SET] = "a set",        [PY_DICT] = "a dict",        [PY_GLOBAL] = "a class or function",
      [PY_DTYPE] = "a dtype",    [PY_STORAGE] = "a storage",  [PY_TENSOR] = "a tensor",
      [PY_OPAQUE] = "an object",
  };
  return names[v->kind];
}

/* ---- printing -------------------------------------------------------------------------------- */

static void print(const py_value *v, vtb_strbuf *out, int depth);

static bool full(const vtb_strbuf *out) { return out->failed || out->n >= MOST_PRINTED; }

static void print_items(const py_value *v, vtb_strbuf *out, int depth) {
  for (size_t i = 0; i < v->items.n && !full(out); i++) {
    if (i) vtb_strbuf_puts(out, ", ");
    print(v->items.at[i], out, depth);
  }
}

/* {'a': 1}, or without braces a=1 */
static void print_pairs(const py_value *v, vtb_strbuf *out, bool named, int depth) {
  for (size_t i = 0; i + 1 < v->items.n && !full(out); i += 2) {
    const py_value *key = v->items.at[i];
    if (i) vtb_strbuf_puts(out, ", ");
    if (named && key->kind == PY_TEXT)
      vtb_strbuf_write(out, key->text.at, key->text.n);
    else
      print(key, out, depth);
    vtb_strbuf_puts(out, named ? "=" : ": ");
    print(v->items.at[i + 1], out, depth);
  }
}

static void print_text(const py_value *v, vtb_strbuf *out) {
  vtb_strbuf_putc(out, '\'');
  vtb_strbuf_write(out, v->text.at, v->text.n < MOST_PRINTED ? v->text.n : MOST_PRINTED);
  vtb_strbuf_putc(out, '\'');
}

static void print_tensor(const py_tensor *t, vtb_strbuf *out) {
  vtb_strbuf_puts(out, "tensor");
  vtb_shape_print(out, t->rank < 0 ? 0 : t->rank, t->dim);
}

static void print_object(const py_value *v, vtb_strbuf *out, int depth) {
  const char *last = strrchr(v->object.name, '.');
  const py_value *of = v->object.state ? v->object.state : v->object.args;
  vtb_strbuf_printf(out, "%s(", last ? last + 1 : v->object.name);
  if (of && of->kind == PY_DICT)
    print_pairs(of, out, true, depth);
  else if (of && of->kind == PY_TUPLE)
    print_items(of, out, depth);
  else if (of)
    print(of, out, depth);
  vtb_strbuf_putc(out, ')');
}

static void print_nested(const py_value *v, vtb_strbuf *out, int depth) {
  if (depth == MOST_NESTED || full(out)) {
    vtb_strbuf_puts(out, "...");
  } else if (v->kind == PY_OPAQUE) {
    print_object(v, out, depth + 1);
  } else {
    static const char brackets[] = {
        [PY_LIST] = '[', [PY_TUPLE] = '(', [PY_SET] = '{', [PY_DICT] = '{'};
    char open = brackets[v->kind];
    vtb_strbuf_putc(out, open);
    if (v->kind == PY_DICT)
      print_pairs(v, out, false, depth + 1);
    else
      print_items(v, out, depth + 1);
    if (v->kind == PY_TUPLE && v->items.n == 1) vtb_strbuf_putc(out, ',');
    vtb_strbuf_putc(out, open == '(' ? ')' : (char)(open + 2));
  }
}

static void print(const py_value *v, vtb_strbuf *out, int depth) {
  switch (v->kind) {
  case PY_NONE:
    vtb_strbuf_puts(out, "None");
    break;
  case PY_BOOL:
    vtb_strbuf_puts(out, v->integer ? "True" : "False");
    break;
  case PY_INT:
    vtb_strbuf_printf(out, "%lld", (long long)v->integer);
    break;
  case PY_FLOAT:
    vtb_strbuf_double(out, v->number);
    break;
  case PY_TEXT:
  case PY_BYTES:
    print_text(v, out);
    break;
  case PY_TENSOR:
    print_tensor(v->tensor, out);
    break;
  case PY_GLOBAL:
    vtb_strbuf_puts(out, v->global.name);
    break;
  case PY_DTYPE:
    vtb_strbuf_puts(out, v->dtype.type->name);
    break;
  case PY_LONG:
  case PY_STORAGE:
    vtb_strbuf_puts(out, "...");
    break;
  case PY_LIST:
  case PY_TUPLE:
  case PY_SET:
  case PY_DICT:
  case PY_OPAQUE:
    print_nested(v, out, depth);
    break;
  }
}

void vtb_py_print(const py_value *v, vtb_strbuf *out) {
  if (v->kind == PY_OPAQUE && v->object.state && v->object.state->kind == PY_DICT)
    print_pairs(v->object.state, out, true, 0);
  else if (v->kind == PY_TEXT || v->kind == PY_BYTES)
    vtb_strbuf_write(out, v->text.at, v->text.n < MOST_PRINTED ? v->text.n : MOST_PRINTED);
  else
    print(v, out, 0);
}
