/* Types: equality, broadcast, text; names made safe for the text form. */
#include "ir/internal.h"

#include <assert.h>
#include <inttypes.h>

vtb_dim vtb__dim(int64_t size, const char *name) { return (vtb_dim){size, name}; }

vtb_type vtb_type_make(vtb_dtype dtype, int rank, const int64_t *sizes) {
  vtb_check(rank >= 0 && rank <= VTB_MAX_RANK, "type of rank %d", rank);
  vtb_type t = {.dtype = dtype, .rank = rank};
  for (int i = 0; i < rank; i++) t.dim[i].size = sizes[i];
  return t;
}

vtb_type vtb_type_scalar(void) { return (vtb_type){.dtype = VTB_F32}; }

bool vtb_type_equal(const vtb_type *a, const vtb_type *b) {
  if (a->dtype != b->dtype || a->rank != b->rank) return false;
  return vtb_type_same_axes(a, b, a->rank);
}

int64_t vtb_type_count(const vtb_type *t) {
  assert(t->rank >= 0 && t->rank <= VTB_MAX_RANK);
  int64_t n = 1;
  for (int i = 0; i < t->rank; i++)
    if (__builtin_mul_overflow(n, vtb_bound_size(t->dim[i].size, 1), &n)) return INT64_MAX;
  return n;
}

static const char *const dtype_names[] = {
    [VTB_F32] = "f32", [VTB_I32] = "i32", [VTB_BF16] = "bf16", [VTB_F16] = "f16"};
enum { N_DTYPES = sizeof dtype_names / sizeof *dtype_names };

const char *vtb_dtype_name(vtb_dtype d) { return dtype_names[d]; }

bool vtb_dtype_find(const char *name, vtb_dtype *out) {
  for (int i = 0; i < N_DTYPES; i++) {
    if (!vtb_streq(name, dtype_names[i])) continue;
    *out = (vtb_dtype)i;
    return true;
  }
  return false;
}

int vtb_dtype_bytes(vtb_dtype d) { return vtb_is_half(d) ? 2 : 4; }

int64_t vtb_type_bytes(const vtb_type *t) {
  int64_t bytes;
  if (__builtin_mul_overflow(vtb_type_count(t), (int64_t)vtb_dtype_bytes(t->dtype), &bytes))
    return INT64_MAX;
  return bytes;
}

int vtb_type_batch_axes(const vtb_type *t) {
  int n = 0;
  for (int i = 0; i < t->rank; i++) n += vtb_is_batch(t->dim[i].size);
  return n;
}

bool vtb_type_is_dynamic(const vtb_type *t) { return vtb_type_batch_axes(t) > 0; }

/* Elements before the n-th axis of the batch, and batches in it; 0: it has fewer. */
static int64_t before_batch(const vtb_type *t, int n) {
  int64_t before = 1;
  for (int a = 0; a < t->rank; a++) {
    before *= vtb_bound_size(t->dim[a].size, 1);
    if (vtb_is_batch(t->dim[a].size) && n-- == 0) return before;
  }
  return 0;
}

bool vtb_type_same_samples(const vtb_type *x, const vtb_type *y) {
  bool same = vtb_type_batch_axes(x) == vtb_type_batch_axes(y);
  for (int n = 0; n < vtb_type_batch_axes(x); n++) same &= before_batch(x, n) == before_batch(y, n);
  return same;
}

bool vtb_type_same_axes(const vtb_type *x, const vtb_type *y, int n) {
  bool same = x->rank >= n && y->rank >= n;
  for (int a = 0; a < n && same; a++) same = x->dim[a].size == y->dim[a].size;
  return same;
}

bool vtb_type_unit_reshape(const vtb_type *x, const vtb_type *y) {
  int i = 0, j = 0;
  for (;;) {
    while (i < x->rank && x->dim[i].size == 1) i++;
    while (j < y->rank && y->dim[j].size == 1) j++;
    if (i == x->rank || j == y->rank) return i == x->rank && j == y->rank;
    if (x->dim[i++].size != y->dim[j++].size) return false;
  }
}

vtb_type vtb_type_with_axis(const vtb_type *t, int at, vtb_dim dim) {
  vtb_type r = *t;
  r.rank++;
  for (int a = t->rank; a > at; a--) r.dim[a] = t->dim[a - 1];
  r.dim[at] = dim;
  return r;
}

vtb_type vtb_type_without_axis(const vtb_type *t, int at) {
  vtb_type r = *t;
  r.rank--;
  for (int a = at; a < r.rank; a++) r.dim[a] = t->dim[a + 1];
  return r;
}

vtb_type vtb_type_behind(const vtb_type *t, int lead, const vtb_dim *dims, int rank) {
  vtb_type r = *t;
  r.rank = lead + rank;
  for (int a = 0; a < rank; a++) r.dim[lead + a] = dims[a];
  return r;
}

vtb_type vtb_type_among_ones(const vtb_type *x, const int *to, int rank) {
  vtb_type t = {.dtype = x->dtype, .rank = rank};
  for (int a = 0; a < rank; a++) t.dim[a].size = 1;
  for (int a = 0; a < x->rank; a++)
    if (!to || to[a] >= 0) t.dim[to ? to[a] : rank - x->rank + a] = x->dim[a];
  return t;
}

/* One axis of a broadcast; missing axes come as size 1 without a name. */
static bool broadcast_dim(vtb_dim a, vtb_dim b, vtb_dim *out) {
  if (a.size != b.size && a.size != 1 && b.size != 1) return false;
  vtb_dim wide = a.size == 1 ? b : a, other = a.size == 1 ? a : b;
  *out = vtb__dim(wide.size, wide.name ? wide.name : other.name);
  return true;
}

bool vtb_type_broadcast(const vtb_type *a, const vtb_type *b, vtb_type *out) {
  vtb_type t = {.dtype = a->dtype, .rank = a->rank > b->rank ? a->rank : b->rank};
  for (int i = 0; i < t.rank; i++) {
    int ia = i - (t.rank - a->rank), ib = i - (t.rank - b->rank);
    vtb_dim da = ia >= 0 ? a->dim[ia] : vtb__dim(1, NULL),
            db = ib >= 0 ? b->dim[ib] : vtb__dim(1, NULL);
    if (!broadcast_dim(da, db, &t.dim[i])) return false;
  }
  *out = t;
  return true;
}

static void print_dim(const vtb_dim *d, vtb_strbuf *out) {
  if (d->size < VTB_DYN) vtb_strbuf_printf(out, "%" PRId64 "*", vtb_batches(d->size));
  if (vtb_is_batch(d->size))
    vtb_strbuf_puts(out, d->name ? d->name : "?");
  else if (d->name)
    vtb_strbuf_printf(out, "%s=%" PRId64, d->name, d->size);
  else
    vtb_strbuf_printf(out, "%" PRId64, d->size);
}

void vtb_type_print(const vtb_type *t, vtb_strbuf *out) {
  vtb_strbuf_printf(out, "%s[", vtb_dtype_name(t->dtype));
  for (int i = 0; i < t->rank; i++) {
    if (i) vtb_strbuf_puts(out, ", ");
    print_dim(&t->dim[i], out);
  }
  vtb_strbuf_putc(out, ']');
}

const char *vtb__type_text(vtb_arena *a, const vtb_type *t) {
  vtb_strbuf text = {0};
  vtb_type_print(t, &text);
  char *copy = vtb_arena_strdup(a, text.at);
  vtb_strbuf_free(&text);
  return copy;
}

/* ---- names ----------------------------------------------------------------------------------- */

bool vtb__is_name_char(char c, bool first) {
  bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  return letter || (!first && ((c >= '0' && c <= '9') || c == '.' || c == '$'));
}

const char *vtb_intern(vtb_module *m, const char *s) {
  vtb__module *full = (vtb__module *)m;
  char *copy = vtb_map_get(&full->interned, s);
  if (copy) return copy;
  copy = vtb_arena_strdup(&m->arena, s);
  vtb_map_set(&full->interned, s, copy);
  return copy;
}

/* Axis names are printed bare, so characters that the parser would not take become '_'. */
static const char *axis_name(vtb_module *m, const char *name) {
  bool plain = *name != 0;
  for (const char *p = name; *p; p++) plain = plain && vtb__is_name_char(*p, p == name);
  if (plain) return vtb_intern(m, name);
  if (!*name) return NULL;
  char *copy =
      vtb_arena_printf(&m->arena, "%s%s", vtb__is_name_char(name[0], true) ? "" : "_", name);
  for (char *p = copy; *p; p++)
    if (!vtb__is_name_char(*p, p == copy)) *p = '_';
  return vtb_intern(m, copy);
}

vtb_type vtb__type_intern(vtb_module *m, const vtb_type *t) {
  vtb_type copy = {.dtype = t->dtype, .rank = t->rank};
  for (int i = 0; i < t->rank; i++)
    copy.dim[i] = vtb__dim(t->dim[i].size, t->dim[i].name ? axis_name(m, t->dim[i].name) : NULL);
  return copy;
}
