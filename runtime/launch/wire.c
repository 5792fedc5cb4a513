/* See wire.h. */
#include "runtime/launch/wire.h"

#include <string.h>

vtb_wire vtb__wire_writer(vtb_strbuf *out) { return (vtb_wire){.out = out}; }

vtb_wire vtb__wire_reader(const void *data, size_t n, vtb_arena *arena) {
  return (vtb_wire){.at = data, .end = (const unsigned char *)data + n, .arena = arena};
}

bool vtb__wire_complete(const vtb_wire *w) { return !w->bad && w->at == w->end; }

void vtb__wire_require(vtb_wire *w, bool condition) {
  if (!condition) w->bad = true;
}

/* The next n bytes of what is read; NULL if there are not so many. */
static const unsigned char *take_bytes(vtb_wire *w, uint64_t n) {
  if (w->bad || n > (uint64_t)(w->end - w->at)) {
    w->bad = true;
    return NULL;
  }
  const unsigned char *at = w->at;
  w->at += n;
  return at;
}

/* The memory that vtb_arena_try() gave; without memory the wire is bad. */
static void *taken(vtb_wire *w, void *p) {
  if (!p) w->bad = w->no_memory = true;
  return p;
}

/* ---- numbers --------------------------------------------------------------------------------- */

static uint64_t wire_number(vtb_wire *w, uint64_t x, int n) {
  if (w->out) {
    for (int i = 0; i < n; i++) vtb_strbuf_putc(w->out, (char)(x >> 8 * i));
    return x;
  }
  const unsigned char *at = take_bytes(w, (uint64_t)n);
  x = 0;
  for (int i = 0; at && i < n; i++) x |= (uint64_t)at[i] << 8 * i;
  return x;
}

void vtb__wire_u8(vtb_wire *w, uint8_t *x) { *x = (uint8_t)wire_number(w, *x, 1); }
void vtb__wire_i32(vtb_wire *w, int32_t *x) {
  *x = (int32_t)(uint32_t)wire_number(w, (uint32_t)*x, 4);
}
void vtb__wire_i64(vtb_wire *w, int64_t *x) { *x = (int64_t)wire_number(w, (uint64_t)*x, 8); }
void vtb__wire_u64(vtb_wire *w, uint64_t *x) { *x = wire_number(w, *x, 8); }

void vtb__wire_bool(vtb_wire *w, bool *x) {
  uint64_t y = wire_number(w, *x, 1);
  vtb__wire_require(w, y <= 1);
  *x = y == 1;
}

static void wire_f64(vtb_wire *w, double *x) {
  uint64_t bits;
  memcpy(&bits, x, sizeof bits);
  bits = wire_number(w, bits, 8);
  memcpy(x, &bits, sizeof bits);
}

/* ---- bytes and arrays ------------------------------------------------------------------------ */

void vtb__wire_text(vtb_wire *w, const char **x) {
  int32_t n = w->out && *x ? (int32_t)strlen(*x) : -1;
  vtb__wire_i32(w, &n);
  if (w->out) {
    if (n > 0) vtb_strbuf_write(w->out, *x, (size_t)n);
    return;
  }
  *x = NULL;
  vtb__wire_require(w, n >= -1);
  const unsigned char *at = n >= 0 ? take_bytes(w, (uint64_t)n) : NULL;
  if (!at) return;
  vtb__wire_require(w, memchr(at, 0, (size_t)n) == NULL);
  char *text = taken(w, vtb_arena_try(w->arena, (size_t)n + 1, 1));
  *x = text ? memcpy(text, at, (size_t)n) : NULL;
}

void vtb__wire_bytes(vtb_wire *w, int64_t *n, unsigned char **x) {
  vtb__wire_i64(w, n);
  if (w->out) {
    if (*n) vtb_strbuf_write(w->out, (const char *)*x, (size_t)*n);
    return;
  }
  const unsigned char *at = *n > 0 ? take_bytes(w, (uint64_t)*n) : NULL;
  vtb__wire_require(w, *n >= 0);
  *x = at ? taken(w, vtb_arena_try(w->arena, (size_t)*n, 1)) : NULL;
  if (*x)
    memcpy(*x, at, (size_t)*n);
  else
    *n = 0;
}

void vtb__wire_count(vtb_wire *w, int32_t *n, size_t least) {
  vtb__wire_i32(w, n);
  if (w->out) return;
  vtb__wire_require(w, *n >= 0 && (uint64_t)*n * least <= (uint64_t)(w->end - w->at));
  if (w->bad) *n = 0;
}

void *vtb__wire_elements(vtb_wire *w, int32_t *n, size_t size_bytes) {
  void *at = taken(w, vtb_arena_try(w->arena, (size_t)*n + 1, size_bytes));
  if (!at) *n = 0;
  return at;
}

/* ---- tensors and kernels --------------------------------------------------------------------- */

enum { LEAST_TENSOR = 18 };

/* Elements stay countable: no product of sizes overflows. */
static void dimensions(vtb_wire *w, vtb_tensor_info *t) {
  int64_t left = INT64_C(1) << 44;
  for (int a = 0; a < t->rank; a++) {
    vtb__wire_i64(w, &t->dim[a]);
    vtb__wire_require(w, t->dim[a] >= 0 && t->dim[a] <= left);
    if (w->bad) t->dim[a] = 0;
    if (t->dim[a] > 1) left /= t->dim[a];
  }
}

static void tensor(vtb_wire *w, vtb_tensor_info *t) {
  int32_t io = (int32_t)t->io, rank = t->rank;
  vtb__wire_text(w, &t->name);
  vtb__wire_i32(w, &io);
  vtb__wire_bool(w, &t->is_int);
  vtb__wire_i32(w, &rank);
  vtb__wire_require(w, t->name && io >= VTB_IO_INPUT && io <= VTB_IO_STATE && rank >= 0 &&
                           rank <= VTB_PROGRAM_MAX_RANK);
  if (w->bad) return;
  t->io = (vtb_io)io;
  t->rank = rank;
  dimensions(w, t);
  vtb__wire_text(w, &t->init);
  vtb__wire_bool(w, &t->decay);
}

void vtb__wire_tensors(vtb_wire *w, int32_t *n, vtb_tensor_info **tensors) {
  vtb__wire_array(w, n, *tensors, LEAST_TENSOR);
  for (int i = 0; i < *n; i++) tensor(w, &(*tensors)[i]);
  if (w->bad) *n = 0;
}

void vtb__wire_kernel_info(vtb_wire *w, vtb_kernel_info *k) {
  int32_t launches = k->launches;
  vtb__wire_text(w, &k->name);
  vtb__wire_text(w, &k->what);
  vtb__wire_text(w, &k->ops);
  vtb__wire_text(w, &k->origin);
  wire_f64(w, &k->flops);
  wire_f64(w, &k->bytes);
  vtb__wire_i32(w, &launches);
  vtb__wire_require(w, k->name != NULL);
  k->launches = launches;
}
