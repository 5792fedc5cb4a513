/* The machine: a stack, a memo, and a function an opcode. Names of opcodes are those of
 * pickletools. */
#include "runtime/weights/pickle.h"

#include <errno.h>
#include <math.h>
#include <string.h>

enum { MOST_STACK = 1 << 20, MOST_MEMO = 1 << 22 };

/* ---- bytes of the pickle --------------------------------------------------------------------- */

static bool truncated(py_machine *m) { return vtb_py_refuse(m, "the file ends inside a pickle"); }

/* The next n bytes; NULL, with the error set, if there are fewer. */
static const unsigned char *take_bytes(py_machine *m, uint64_t n) {
  const unsigned char *p = m->at;
  if (n > (uint64_t)(m->end - m->at)) {
    truncated(m);
    return NULL;
  }
  m->at += n;
  return p;
}

/* A little-endian number of so many bytes. */
static bool take_size(py_machine *m, int bytes, uint64_t *out) {
  const unsigned char *p = take_bytes(m, (uint64_t)bytes);
  *out = 0;
  for (int i = bytes - 1; p && i >= 0; i--) *out = *out << 8 | p[i];
  return p != NULL;
}

/* A line of protocol 0, without its end. */
static bool take_line(py_machine *m, const char **at, size_t *n) {
  const unsigned char *end = memchr(m->at, '\n', (size_t)(m->end - m->at));
  *at = "";
  *n = 0;
  if (!end) return truncated(m);
  *at = (const char *)m->at;
  *n = (size_t)(end - m->at);
  m->at = end + 1;
  if (*n && (*at)[*n - 1] == '\r') --*n;
  return true;
}

/* ---- the stack ------------------------------------------------------------------------------- */

static bool push(py_machine *m, py_value *v) {
  if (!v) return false;
  if (m->stack.n == MOST_STACK) return vtb_py_refuse(m, "more than %d values wait", MOST_STACK);
  if (vtb_vec_try_push(&m->stack, v)) return true;
  vtb_no_memory(m->err, m->path);
  return false;
}

/* Values above the last mark. */
static size_t above_mark(const py_machine *m) {
  return m->stack.n - (m->marks.n ? m->marks.at[m->marks.n - 1] : 0);
}

static py_value *pop(py_machine *m) {
  if (above_mark(m)) return m->stack.at[--m->stack.n];
  vtb_py_refuse(m, "a value is taken from an empty stack");
  return NULL;
}

static py_value *top(py_machine *m) {
  if (above_mark(m)) return m->stack.at[m->stack.n - 1];
  vtb_py_refuse(m, "a value is looked for on an empty stack");
  return NULL;
}

/* Takes the mark away; the values above it begin at *from and end where the stack does. */
static bool pop_mark(py_machine *m, size_t *from) {
  *from = 0;
  if (!m->marks.n) return vtb_py_refuse(m, "there is no mark");
  *from = m->marks.at[--m->marks.n];
  return true;
}

/* Appends the values above `from`, which leave the stack. */
static bool append_above(py_machine *m, py_value *to, size_t from) {
  for (size_t i = from; i < m->stack.n; i++)
    if (!vtb_py_append(m, to, m->stack.at[i])) return false;
  m->stack.n = from;
  return true;
}

static bool push_new(py_machine *m, py_kind kind) { return push(m, vtb_py_new(m, kind)); }

static bool push_int(py_machine *m, py_kind kind, int64_t x) {
  py_value *v = vtb_py_new(m, kind);
  if (v) v->integer = x;
  return push(m, v);
}

static bool push_float(py_machine *m, double x) {
  py_value *v = vtb_py_new(m, PY_FLOAT);
  if (v) v->number = x;
  return push(m, v);
}

/* n bytes that follow */
static bool push_bytes(py_machine *m, py_kind kind, uint64_t n) {
  const unsigned char *p = take_bytes(m, n);
  py_value *v = p ? vtb_py_new(m, kind) : NULL;
  if (!v) return false;
  v->text.at = (const char *)p;
  v->text.n = (size_t)n;
  return push(m, v);
}

static bool push_sized(py_machine *m, py_kind kind, int bytes_of_size) {
  uint64_t n;
  return take_size(m, bytes_of_size, &n) && push_bytes(m, kind, n);
}

/* ---- plain values ---------------------------------------------------------------------------- */

static bool op_none(py_machine *m) { return push_new(m, PY_NONE); }
static bool op_true(py_machine *m) { return push_int(m, PY_BOOL, 1); }
static bool op_false(py_machine *m) { return push_int(m, PY_BOOL, 0); }

static bool unsigned_int(py_machine *m, int bytes) {
  uint64_t x;
  return take_size(m, bytes, &x) && push_int(m, PY_INT, (int64_t)x);
}
static bool op_binint1(py_machine *m) { return unsigned_int(m, 1); }
static bool op_binint2(py_machine *m) { return unsigned_int(m, 2); }
static bool op_binint(py_machine *m) {
  uint64_t x;
  return take_size(m, 4, &x) && push_int(m, PY_INT, (int32_t)(uint32_t)x);
}

/* Two's complement of any length; what 64 bits cannot hold stays bytes. */
static bool long_of(py_machine *m, uint64_t n) {
  if (n > 8) return push_bytes(m, PY_LONG, n);
  const unsigned char *p = take_bytes(m, n);
  if (!p) return false;
  uint64_t x = n && p[n - 1] & 0x80 ? ~UINT64_C(0) : 0;
  for (uint64_t i = n; i-- > 0;) x = x << 8 | p[i];
  return push_int(m, PY_INT, (int64_t)x);
}
static bool op_long1(py_machine *m) {
  uint64_t n;
  return take_size(m, 1, &n) && long_of(m, n);
}
static bool op_long4(py_machine *m) {
  uint64_t n;
  return take_size(m, 4, &n) && long_of(m, n);
}

static bool op_binfloat(py_machine *m) {
  const unsigned char *p = take_bytes(m, 8);
  uint64_t bits = 0;
  double x;
  for (int i = 0; p && i < 8; i++) bits = bits << 8 | p[i];
  memcpy(&x, &bits, sizeof x);
  return p && push_float(m, x);
}

/* A number of protocol 0; the text is copied to have an end. */
static bool take_number(py_machine *m, char *text, size_t size) {
  const char *at;
  size_t n;
  if (!take_line(m, &at, &n)) return false;
  if (n && at[n - 1] == 'L') n--;
  if (!n || n >= size || memchr(at, 0, n)) return vtb_py_refuse(m, "a number that is none");
  memcpy(text, at, n);
  text[n] = 0;
  return true;
}

static bool op_int(py_machine *m) {
  const char *from = (const char *)m->at;
  char text[64], *end;
  if (!take_number(m, text, sizeof text)) return false;
  if (vtb_streq(text, "00") || vtb_streq(text, "01")) return push_int(m, PY_BOOL, text[1] == '1');
  errno = 0;
  long long x = strtoll(text, &end, 10);
  if (*end) return vtb_py_refuse(m, "a number that is none");
  if (!errno) return push_int(m, PY_INT, x);
  py_value *v = vtb_py_new(m, PY_LONG);
  if (v) v->text.at = from, v->text.n = strlen(text);
  return push(m, v);
}

static bool op_float(py_machine *m) {
  char text[64], *end;
  if (!take_number(m, text, sizeof text)) return false;
  double x = strtod(text, &end);
  return *end ? vtb_py_refuse(m, "a number that is none") : push_float(m, x);
}

/* ---- texts and bytes ------------------------------------------------------------------------- */

static bool op_short_binunicode(py_machine *m) { return push_sized(m, PY_TEXT, 1); }
static bool op_binunicode(py_machine *m) { return push_sized(m, PY_TEXT, 4); }
static bool op_binunicode8(py_machine *m) { return push_sized(m, PY_TEXT, 8); }
static bool op_short_bytes(py_machine *m) { return push_sized(m, PY_BYTES, 1); }
static bool op_bytes(py_machine *m) { return push_sized(m, PY_BYTES, 4); }
static bool op_bytes8(py_machine *m) { return push_sized(m, PY_BYTES, 8); }

/* Escapes of protocol 0 are left as they stand: what names a tensor has none. */
static bool op_unicode(py_machine *m) {
  const char *at;
  size_t n;
  py_value *v = take_line(m, &at, &n) ? vtb_py_new(m, PY_TEXT) : NULL;
  if (v) v->text.at = at, v->text.n = n;
  return push(m, v);
}

static bool op_string(py_machine *m) {
  const char *at;
  size_t n;
  if (!take_line(m, &at, &n)) return false;
  if (n < 2 || at[0] != at[n - 1] || !strchr("'\"", at[0]))
    return vtb_py_refuse(m, "a string without quotes");
  py_value *v = vtb_py_new(m, PY_BYTES);
  if (v) v->text.at = at + 1, v->text.n = n - 2;
  return push(m, v);
}

/* ---- lists and dicts ------------------------------------------------------------------------- */

static bool op_empty_list(py_machine *m) { return push_new(m, PY_LIST); }
static bool op_empty_tuple(py_machine *m) { return push_new(m, PY_TUPLE); }
static bool op_empty_dict(py_machine *m) { return push_new(m, PY_DICT); }
static bool op_empty_set(py_machine *m) { return push_new(m, PY_SET); }

static bool from_mark(py_machine *m, py_kind kind) {
  size_t from;
  py_value *v = pop_mark(m, &from) ? vtb_py_new(m, kind) : NULL;
  return v && append_above(m, v, from) && push(m, v);
}
static bool op_list(py_machine *m) { return from_mark(m, PY_LIST); }
static bool op_tuple(py_machine *m) { return from_mark(m, PY_TUPLE); }
static bool op_frozenset(py_machine *m) { return from_mark(m, PY_SET); }

static bool tuple_of(py_machine *m, size_t n) {
  py_value *v = vtb_py_new(m, PY_TUPLE);
  if (above_mark(m) < n) return vtb_py_refuse(m, "a value is taken from an empty stack");
  return v && append_above(m, v, m->stack.n - n) && push(m, v);
}
static bool op_tuple1(py_machine *m) { return tuple_of(m, 1); }
static bool op_tuple2(py_machine *m) { return tuple_of(m, 2); }
static bool op_tuple3(py_machine *m) { return tuple_of(m, 3); }

/* The values from `from` on go to the one below them. Objects that behave as a list or a dict keep
 * what they are given in their state. */
static bool extend(py_machine *m, size_t from, py_kind kind) {
  size_t base = m->marks.n ? m->marks.at[m->marks.n - 1] : 0;
  if (from <= base || from > m->stack.n) return vtb_py_refuse(m, "there is nothing to extend");
  py_value *to = m->stack.at[from - 1];
  if (to->kind == PY_OPAQUE) {
    if (!to->object.state && !(to->object.state = vtb_py_new(m, kind))) return false;
    to = to->object.state;
  }
  if (to->kind != kind) return vtb_py_refuse(m, "%s is extended", vtb_py_kind_name(to));
  if (kind == PY_DICT && (m->stack.n - from) % 2) return vtb_py_refuse(m, "a key has no value");
  return append_above(m, to, from);
}

static bool extend_by(py_machine *m, size_t n, py_kind kind) {
  if (above_mark(m) <= n) return vtb_py_refuse(m, "a value is taken from an empty stack");
  return extend(m, m->stack.n - n, kind);
}
static bool op_append(py_machine *m) { return extend_by(m, 1, PY_LIST); }
static bool op_setitem(py_machine *m) { return extend_by(m, 2, PY_DICT); }

static bool extend_by_mark(py_machine *m, py_kind kind) {
  size_t from;
  return pop_mark(m, &from) && extend(m, from, kind);
}
static bool op_appends(py_machine *m) { return extend_by_mark(m, PY_LIST); }
static bool op_setitems(py_machine *m) { return extend_by_mark(m, PY_DICT); }
static bool op_additems(py_machine *m) { return extend_by_mark(m, PY_SET); }

static bool op_dict(py_machine *m) {
  size_t from;
  py_value *v = pop_mark(m, &from) ? vtb_py_new(m, PY_DICT) : NULL;
  if (!v) return false;
  if ((m->stack.n - from) % 2) return vtb_py_refuse(m, "a key has no value");
  return append_above(m, v, from) && push(m, v);
}

/* ---- the stack and the memo ------------------------------------------------------------------ */

static bool op_mark(py_machine *m) {
  if (m->marks.n == MOST_STACK) return vtb_py_refuse(m, "more than %d marks", MOST_STACK);
  if (vtb_vec_try_push(&m->marks, m->stack.n)) return true;
  vtb_no_memory(m->err, m->path);
  return false;
}

static bool op_pop_mark(py_machine *m) {
  size_t from;
  if (!pop_mark(m, &from)) return false;
  m->stack.n = from;
  return true;
}

/* A mark counts as a value here. */
static bool op_pop(py_machine *m) {
  return m->marks.n && !above_mark(m) ? op_pop_mark(m) : pop(m) != NULL;
}

static bool op_dup(py_machine *m) { return push(m, top(m)); }

/* Numbers of the memo are given out one after the other, so that none is beyond the pickle's own
 * length. */
static bool put_memo(py_machine *m, uint64_t i) {
  py_value *v = top(m);
  if (!v) return false;
  if (i >= MOST_MEMO || i > (uint64_t)(m->at - m->begin))
    return vtb_py_refuse(m, "place %llu of the memo", (unsigned long long)i);
  while (m->memo.n <= i)
    if (!vtb_vec_try_push(&m->memo, NULL)) {
      vtb_no_memory(m->err, m->path);
      return false;
    }
  m->memo.at[i] = v;
  return true;
}

static bool get(py_machine *m, uint64_t i) {
  if (i >= m->memo.n || !m->memo.at[i])
    return vtb_py_refuse(m, "place %llu of the memo is empty", (unsigned long long)i);
  return push(m, m->memo.at[i]);
}

static bool take_place(py_machine *m, uint64_t *i) {
  char text[24], *end;
  if (!take_number(m, text, sizeof text)) return false;
  *i = strtoull(text, &end, 10);
  return *end ? vtb_py_refuse(m, "a place of the memo that is no number") : true;
}

static bool op_put(py_machine *m) {
  uint64_t i;
  return take_place(m, &i) && put_memo(m, i);
}
static bool op_binput(py_machine *m) {
  uint64_t i;
  return take_size(m, 1, &i) && put_memo(m, i);
}
static bool op_long_binput(py_machine *m) {
  uint64_t i;
  return take_size(m, 4, &i) && put_memo(m, i);
}
static bool op_memoize(py_machine *m) { return put_memo(m, m->memo.n); }
static bool op_get(py_machine *m) {
  uint64_t i;
  return take_place(m, &i) && get(m, i);
}
static bool op_binget(py_machine *m) {
  uint64_t i;
  return take_size(m, 1, &i) && get(m, i);
}
static bool op_long_binget(py_machine *m) {
  uint64_t i;
  return take_size(m, 4, &i) && get(m, i);
}

/* ---- classes, functions, objects ------------------------------------------------------------- */

static bool op_global(py_machine *m) {
  const char *module, *name;
  size_t n_module, n_name;
  if (!take_line(m, &module, &n_module) || !take_line(m, &name, &n_name)) return false;
  return push(m, vtb_py_global(m, module, n_module, name, n_name));
}

static bool op_stack_global(py_machine *m) {
  py_value *name = pop(m), *module = name ? pop(m) : NULL;
  if (!module) return false;
  if (module->kind != PY_TEXT || name->kind != PY_TEXT)
    return vtb_py_refuse(m, "the name of a class that is no text");
  return push(m, vtb_py_global(m, module->text.at, module->text.n, name->text.at, name->text.n));
}

/* callee, args -> callee(*args) */
static bool call(py_machine *m) {
  py_value *args = pop(m), *callee = args ? pop(m) : NULL;
  return callee && push(m, vtb_py_call(m, callee, args));
}

/* The same with a dict of named arguments on top, which nothing here needs. */
static bool op_newobj_ex(py_machine *m) { return pop(m) && call(m); }

/* mark, args...; the class is named behind the opcode */
static bool op_inst(py_machine *m) {
  if (!op_tuple(m)) return false;
  py_value *args = pop(m);
  return args && op_global(m) && push(m, args) && call(m);
}

/* mark, class, args... */
static bool op_obj(py_machine *m) {
  size_t from;
  py_value *args = pop_mark(m, &from) ? vtb_py_new(m, PY_TUPLE) : NULL;
  if (!args) return false;
  if (m->stack.n == from) return vtb_py_refuse(m, "an object has no class");
  py_value *callee = m->stack.at[from];
  if (!append_above(m, args, from + 1)) return false;
  m->stack.n = from;
  return push(m, vtb_py_call(m, callee, args));
}

static bool op_build(py_machine *m) {
  py_value *state = pop(m), *object = state ? top(m) : NULL;
  return object && vtb_py_build(m, object, state);
}

static bool op_binpersid(py_machine *m) {
  py_value *id = pop(m);
  return id && push(m, vtb_py_persistent(m, id));
}

/* ---- the whole ------------------------------------------------------------------------------- */

static bool op_proto(py_machine *m) {
  uint64_t version;
  if (!take_size(m, 1, &version)) return false;
  return version <= 5 ? true
                      : vtb_py_refuse(m, "protocol %llu is not known", (unsigned long long)version);
}

/* Says how long the next part is, which the opcodes show by themselves. */
static bool op_frame(py_machine *m) {
  uint64_t n;
  return take_size(m, 8, &n);
}

static bool op_extension(py_machine *m) {
  return vtb_py_refuse(m, "an object of the registry of extensions, which no weights need");
}
static bool op_buffer(py_machine *m) {
  return vtb_py_refuse(m, "data that lies outside the pickle");
}
static bool op_persid(py_machine *m) {
  return vtb_py_refuse(m, "a reference by text to something outside the pickle");
}

typedef bool (*opcode)(py_machine *m);
static const opcode opcodes[256] = {
    ['('] = op_mark,
    ['0'] = op_pop,
    ['1'] = op_pop_mark,
    ['2'] = op_dup,
    ['F'] = op_float,
    ['I'] = op_int,
    ['J'] = op_binint,
    ['K'] = op_binint1,
    ['L'] = op_int,
    ['M'] = op_binint2,
    ['N'] = op_none,
    ['P'] = op_persid,
    ['Q'] = op_binpersid,
    ['R'] = call,
    ['S'] = op_string,
    ['T'] = op_bytes,
    ['U'] = op_short_bytes,
    ['V'] = op_unicode,
    ['X'] = op_binunicode,
    ['a'] = op_append,
    ['b'] = op_build,
    ['c'] = op_global,
    ['d'] = op_dict,
    ['}'] = op_empty_dict,
    ['e'] = op_appends,
    ['g'] = op_get,
    ['h'] = op_binget,
    ['i'] = op_inst,
    ['j'] = op_long_binget,
    ['l'] = op_list,
    [']'] = op_empty_list,
    ['o'] = op_obj,
    ['p'] = op_put,
    ['q'] = op_binput,
    ['r'] = op_long_binput,
    ['s'] = op_setitem,
    ['t'] = op_tuple,
    [')'] = op_empty_tuple,
    ['u'] = op_setitems,
    ['G'] = op_binfloat,
    [0x80] = op_proto,
    [0x81] = call,
    [0x82] = op_extension,
    [0x83] = op_extension,
    [0x84] = op_extension,
    [0x85] = op_tuple1,
    [0x86] = op_tuple2,
    [0x87] = op_tuple3,
    [0x88] = op_true,
    [0x89] = op_false,
    [0x8a] = op_long1,
    [0x8b] = op_long4,
    ['B'] = op_bytes,
    ['C'] = op_short_bytes,
    [0x8c] = op_short_binunicode,
    [0x8d] = op_binunicode8,
    [0x8e] = op_bytes8,
    [0x8f] = op_empty_set,
    [0x90] = op_additems,
    [0x91] = op_frozenset,
    [0x92] = op_newobj_ex,
    [0x93] = op_stack_global,
    [0x94] = op_memoize,
    [0x95] = op_frame,
    [0x96] = op_bytes8,
    [0x97] = op_buffer,
    [0x98] = op_buffer,
};

void vtb_py_begin(py_machine *m, const char *path, const void *data, size_t n, vtb_arena *arena,
                  vtb_error *err) {
  *m = (py_machine){.path = path, .begin = data, .at = data, .arena = arena, .err = err};
  m->end = m->begin + n;
}

void vtb_py_end(py_machine *m) {
  vtb_vec_free(&m->stack);
  vtb_vec_free(&m->memo);
  vtb_vec_free(&m->marks);
  vtb_map_free(&m->storages);
}

static bool step(py_machine *m) {
  const unsigned char *p = take_bytes(m, 1);
  if (!p) return false;
  if (!opcodes[*p]) return vtb_py_refuse(m, "0x%02x is no opcode", *p);
  return opcodes[*p](m);
}

vtb_status vtb_py_load(py_machine *m, py_value **out) {
  m->stack.n = m->memo.n = m->marks.n = 0;
  while (m->at < m->end && *m->at != '.')
    if (!step(m)) return m->err->status;
  if (m->at == m->end) return truncated(m), m->err->status;
  m->at++;
  *out = pop(m);
  return *out ? VTB_OK : m->err->status;
}
