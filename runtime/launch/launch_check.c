/* The launch-plan checker: limits, bounds, alignment, live memory. See launch_check.h. */
#include "runtime/launch/launch_check.h"
#include "runtime/launch/launch_walk.h"

#include <string.h>

/* CUDA C++ Programming Guide, "Technical Specifications per Compute Capability". */
const vtb_arch vtb_archs[] = {{"sm_80", 1024, 163 * 1024, INT32_MAX, 4096},
                              {"sm_90a", 1024, 227 * 1024, INT32_MAX, 4096},
                              {"sm_100a", 1024, 227 * 1024, INT32_MAX, 4096}};
const int vtb_n_archs = sizeof vtb_archs / sizeof *vtb_archs;

const vtb_arch *vtb_arch_find(const char *name) {
  for (int i = 0; i < vtb_n_archs; i++)
    if (vtb_streq(vtb_archs[i].name, name)) return &vtb_archs[i];
  return NULL;
}

/* ---- who wrote what: neighbouring pieces of a memory, in order ------------------------------- */

enum { NOTHING = INT32_MIN }; /* no value of a plan */

typedef struct piece {
  int64_t begin, end;
  int32_t value;
} piece;

typedef struct memory {
  VTB_VEC(piece) pieces; /* disjoint; what lies between them was never written */
} memory;

typedef struct checker {
  const vtb_launch_plan *plan;
  memory *workspace, *tensors, *state; /* tensors: one a tensor */
  const vtb_arch *arch;                /* NULL: all */
  int step;
  vtb_error *err;
} checker;

static vtb_status no_memory(vtb_error *err) { return vtb_no_memory(err, "checking a launch plan"); }

static const char *step_name(const checker *c) {
  const vtb_launch_step *s = &c->plan->steps[c->step];
  return s->kind == VTB_LAUNCH_KERNEL ? c->plan->kernels[s->index].name : "a library product";
}

VTB_PRINTF(2, 3) static vtb_status broken(const checker *c, const char *fmt, ...) {
  char what[512];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(what, sizeof what, fmt, ap);
  va_end(ap);
  return vtb_fail(c->err, VTB_E_INTERNAL, "launch plan, step %d (%s): %s", c->step, step_name(c),
                  what);
}

/* The first piece that ends behind `at`. */
static size_t first_behind(const memory *m, int64_t at) {
  size_t lo = 0, hi = m->pieces.n;
  while (lo < hi) {
    size_t middle = (lo + hi) / 2;
    if (m->pieces.at[middle].end > at)
      hi = middle;
    else
      lo = middle + 1;
  }
  return lo;
}

/* False when out of memory. */
static bool write_piece(memory *m, piece p) {
  size_t from = first_behind(m, p.begin), to = from;
  piece fresh[3];
  size_t n = 0;
  while (to < m->pieces.n && m->pieces.at[to].begin < p.end) to++;
  if (from < to && m->pieces.at[from].begin < p.begin)
    fresh[n++] = (piece){m->pieces.at[from].begin, p.begin, m->pieces.at[from].value};
  fresh[n++] = p;
  if (from < to && m->pieces.at[to - 1].end > p.end)
    fresh[n++] = (piece){p.end, m->pieces.at[to - 1].end, m->pieces.at[to - 1].value};
  size_t tail = m->pieces.n - to;
  while (m->pieces.n < from + n + tail)
    if (!vtb_vec_try_push(&m->pieces, p)) return false;
  memmove(&m->pieces.at[from + n], &m->pieces.at[to], tail * sizeof(piece));
  memcpy(&m->pieces.at[from], fresh, n * sizeof(piece));
  m->pieces.n = from + n + tail;
  return true;
}

/* As if nobody had written there. */
static bool erase(memory *m, int64_t begin, int64_t end) {
  if (!write_piece(m, (piece){begin, end, 0})) return false;
  size_t at = first_behind(m, begin);
  memmove(&m->pieces.at[at], &m->pieces.at[at + 1], (m->pieces.n - at - 1) * sizeof(piece));
  m->pieces.n--;
  return true;
}

/* The first byte of [begin, end) that does not hold `value` (negative: anything), or -1; *found:
 * what it holds, NOTHING if nobody has written there. */
static int64_t first_other(const memory *m, int64_t begin, int64_t end, int32_t value,
                           int32_t *found) {
  *found = NOTHING;
  for (size_t i = first_behind(m, begin); begin < end; i++) {
    if (i == m->pieces.n || m->pieces.at[i].begin > begin) return begin;
    *found = m->pieces.at[i].value;
    if (value >= 0 && *found != value) return begin;
    begin = m->pieces.at[i].end;
    *found = NOTHING;
  }
  return -1;
}

/* ---- single arguments ------------------------------------------------------------------------ */

static int64_t space_bytes(const vtb_launch_plan *p, const vtb_launch_arg *a) {
  switch (a->space) {
  case VTB_LAUNCH_TENSOR:
    return a->tensor < 0 || a->tensor >= p->n_tensors
               ? -1
               : vtb_tensor_info_count(&p->tensors[a->tensor]) * 4;
  case VTB_LAUNCH_WORKSPACE:
    return p->workspace_bytes;
  case VTB_LAUNCH_CONSTANT:
    return p->constant_bytes;
  case VTB_LAUNCH_STATE:
    return p->state_bytes;
  }
  return -1;
}

/* For sentences: of numbers that may be anything. */
static long long last_byte(int64_t offset, int64_t bytes) {
  int64_t end;
  return __builtin_add_overflow(offset, bytes - (bytes > INT64_MIN), &end) ? INT64_MAX : end;
}

static vtb_status check_arg(const checker *c, int number, const vtb_launch_arg *a) {
  static const char *const names[] = {"tensor", "workspace", "constants", "state"};
  int64_t size = space_bytes(c->plan, a);
  if (size < 0) return broken(c, "argument %d points to memory that does not exist", number);
  if (a->offset < 0 || a->bytes < 0 || a->offset > size || a->bytes > size - a->offset)
    return broken(c, "argument %d reaches bytes %lld to %lld of the %s, which has %lld", number,
                  (long long)a->offset, last_byte(a->offset, a->bytes), names[a->space],
                  (long long)size);
  if (a->touched < 0 || a->touched > a->bytes)
    return broken(c, "argument %d touches %lld of its %lld bytes", number, (long long)a->touched,
                  (long long)a->bytes);
  if (a->align == 0 || a->offset % a->align)
    return broken(c, "argument %d at byte %lld is not aligned to %d bytes", number,
                  (long long)a->offset, a->align);
  bool constant =
      a->space == VTB_LAUNCH_CONSTANT ||
      (a->space == VTB_LAUNCH_TENSOR && !vtb_tensor_is_result(&c->plan->tensors[a->tensor]));
  if (constant && a->access & VTB_LAUNCH_WRITE)
    return broken(c, "argument %d writes to what is read only", number);
  return VTB_OK;
}

/* The maps that cuTensorMapEncodeTiled takes and kernels rely on: a row of the box is as long as
 * its swizzle. */
static vtb_status check_map(const checker *c, int number, const vtb_launch_arg *a) {
  if (!a->map) return VTB_OK;
  if (a->map < 0 || a->map > c->plan->n_maps)
    return broken(c, "argument %d is a map that the plan has not", number);
  const vtb_launch_map *m = &c->plan->maps[a->map - 1];
  bool sound = m->rank >= 2 && m->rank <= VTB_LAUNCH_MAP_RANK && a->offset % 16 == 0 &&
               (m->element_bytes == 2 || m->element_bytes == 4) &&
               (!m->swizzle || m->swizzle == 32 || m->swizzle == 64 || m->swizzle == 128);
  int64_t reach = sound ? (m->size[0] - 1) * m->element_bytes : 0;
  for (int i = 0; i < m->rank && sound; i++) {
    sound = m->size[i] >= 1 && m->size[i] <= UINT32_MAX && m->box[i] >= 1 && m->box[i] <= 256;
    if (!i || !sound) continue;
    sound = m->stride[i] > 0 && m->stride[i] % 16 == 0 && m->stride[i] < INT64_C(1) << 40 &&
            !__builtin_add_overflow(reach, (m->size[i] - 1) * m->stride[i], &reach);
  }
  int row = sound ? m->box[0] * m->element_bytes : 0;
  if (!sound || row % 16 || (m->swizzle && row != m->swizzle))
    return broken(c, "argument %d is a map that no driver takes", number);
  if (reach + m->element_bytes > a->bytes)
    return broken(c, "argument %d is a map of %lld bytes over %lld", number,
                  (long long)(reach + m->element_bytes), (long long)a->bytes);
  if (c->plan->steps[c->step].kind != VTB_LAUNCH_KERNEL ||
      c->plan->kernels[c->plan->steps[c->step].index].arch != 90)
    return broken(c, "argument %d is a map, of a kernel for any architecture", number);
  return VTB_OK;
}

/* NULL for memory that is there from the start. *at: where the argument begins in it. */
static memory *memory_of(const checker *c, const vtb_launch_arg *a, int64_t *at) {
  int64_t place = a->space == VTB_LAUNCH_TENSOR ? vtb_launch_place(c->plan, a->tensor) : -1;
  *at = a->offset + (place >= 0 ? place : 0);
  if (a->space == VTB_LAUNCH_WORKSPACE) return c->workspace;
  if (a->space == VTB_LAUNCH_STATE || place >= 0) return c->state;
  if (a->space == VTB_LAUNCH_TENSOR && vtb_tensor_is_result(&c->plan->tensors[a->tensor]))
    return &c->tensors[a->tensor];
  return NULL;
}

static vtb_status check_read(const checker *c, int number, const vtb_launch_arg *a) {
  int64_t begin, at;
  const memory *m = memory_of(c, a, &begin);
  int32_t found;
  if (!m || !(a->access & VTB_LAUNCH_READ)) return VTB_OK;
  at = first_other(m, begin, begin + a->bytes, a->value, &found);
  if (at < 0) return VTB_OK;
  if (found == NOTHING)
    return broken(c, "argument %d reads byte %lld of value %d, which nothing has written", number,
                  (long long)at, a->value);
  return broken(c, "argument %d reads value %d, but byte %lld has been overwritten by value %d",
                number, a->value, (long long)at, found);
}

/* Blocks run in any order, so that a launch must not write what another of its values is read from
 * or written to. */
static vtb_status check_within(const checker *c, const vtb_launch_arg *args, int n) {
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) {
      bool same = args[i].value >= 0 && args[i].value == args[j].value;
      int64_t a, b;
      if (i == j || !(args[i].access & VTB_LAUNCH_WRITE) || same) continue;
      const memory *m = memory_of(c, &args[i], &a);
      if (m && m == memory_of(c, &args[j], &b) && a < b + args[j].bytes && b < a + args[i].bytes)
        return broken(c, "argument %d writes value %d over value %d of argument %d", i,
                      args[i].value, args[j].value, j);
    }
  return VTB_OK;
}

/* ---- steps ----------------------------------------------------------------------------------- */

static vtb_status check_limits(const checker *c, const vtb_launch_step *s, const vtb_arch *arch) {
  const vtb_launch_kernel *k = &c->plan->kernels[s->index];
  if (k->threads < 32 || k->threads % 32 || k->threads > arch->threads)
    return broken(c, "blocks of %d threads; %s takes multiples of 32 up to %d", k->threads,
                  arch->name, arch->threads);
  if (s->grid < 1 || s->grid > arch->blocks)
    return broken(c, "%lld blocks; %s takes 1 to %lld", (long long)s->grid, arch->name,
                  (long long)arch->blocks);
  if (k->shared_bytes < 0 || k->shared_bytes > arch->shared_bytes)
    return broken(c, "%d bytes of shared memory; %s has %d a block", k->shared_bytes, arch->name,
                  arch->shared_bytes);
  if (k->cluster < 0 || k->cluster > VTB_LAUNCH_CLUSTER)
    return broken(c, "clusters of %d blocks; there are at most %d", k->cluster, VTB_LAUNCH_CLUSTER);
  if (k->cluster > 1 && k->arch != 90) return broken(c, "clusters, in a kernel not for sm_90a");
  if (k->cluster > 1 && s->grid % k->cluster)
    return broken(c, "%lld blocks, which clusters of %d do not divide", (long long)s->grid,
                  k->cluster);
  int bytes = k->n_args * 8;
  for (int i = 0; i < s->n_args; i++) /* aligned to 64 bytes */
    if (c->plan->args[s->first_arg + i].map) bytes += VTB_LAUNCH_MAP_BYTES + 64 - 8;
  if (bytes > arch->parameter_bytes)
    return broken(c, "%d arguments of %d bytes; %s takes %d", k->n_args, bytes, arch->name,
                  arch->parameter_bytes);
  return VTB_OK;
}

/* Bytes from the first element of `batch` matrices to the last; -1 if the numbers make no sense. */
static int64_t extent(bool narrow, int64_t batch, int64_t stride, int64_t rows, int64_t columns,
                      int64_t leading) {
  int64_t between, within, all;
  bool sound = batch > 0 && stride >= 0 && rows > 0 && columns > 0 && leading >= columns;
  if (!sound || __builtin_mul_overflow(batch - 1, stride, &between) ||
      __builtin_mul_overflow(rows - 1, leading, &within) ||
      __builtin_add_overflow(between, within, &all) || __builtin_add_overflow(all, columns, &all) ||
      __builtin_mul_overflow(all, (int64_t)(narrow ? 2 : 4), &all))
    return -1;
  return all;
}

/* The library is told shapes, not ends: they must lie within the arguments. */
static vtb_status check_product(const checker *c, const vtb_launch_gemm *g,
                                const vtb_launch_arg *args, int n) {
  bool from = g->narrow_factors != 0, to = g->narrow_result != 0;
  const int64_t bytes[] = {extent(from, g->batch, g->stride_a, g->trans_a ? g->k : g->m,
                                  g->trans_a ? g->m : g->k, g->lda),
                           extent(from, g->batch, g->stride_b, g->trans_b ? g->n : g->k,
                                  g->trans_b ? g->k : g->n, g->ldb),
                           extent(to, g->batch, g->stride_c, g->m, g->n, g->ldc),
                           extent(to, 1, 0, 1, g->n, g->n)};
  for (int i = 0; i < n; i++)
    if (bytes[i] < 0 || bytes[i] > args[i].bytes)
      return broken(c, "argument %d has %lld bytes, of which the product takes %lld", i,
                    (long long)args[i].bytes, (long long)bytes[i]);
  return VTB_OK;
}

static vtb_status check_shape(const checker *c, const vtb_launch_step *s, const vtb_arch *arch) {
  const vtb_launch_plan *p = c->plan;
  int n_args;
  if (s->kind == VTB_LAUNCH_KERNEL && s->index >= 0 && s->index < p->n_kernels)
    n_args = p->kernels[s->index].n_args;
  else if (s->kind == VTB_LAUNCH_GEMM && s->index >= 0 && s->index < p->n_gemms)
    n_args = 3 + (p->gemms[s->index].has_bias != 0);
  else
    return vtb_fail(c->err, VTB_E_INTERNAL, "launch plan, step %d: neither a kernel nor a product",
                    c->step);
  if (s->kind == VTB_LAUNCH_GEMM) {
    const vtb_launch_gemm *g = &p->gemms[s->index];
    if (g->precision > 3) return broken(c, "factors of no known precision");
    if ((g->narrow_factors || g->narrow_result) && g->precision < 2)
      return broken(c, "16 bits of no known format");
  }
  if (s->n_args != n_args) return broken(c, "%d arguments instead of %d", s->n_args, n_args);
  if (s->first_arg < 0 || s->first_arg > p->n_args - n_args)
    return broken(c, "its arguments are not in the plan");
  vtb_status status = VTB_OK;
  const vtb_arch *only = NULL;
  if (s->kind != VTB_LAUNCH_KERNEL) return VTB_OK;
  if (p->kernels[s->index].arch) {
    only = p->kernels[s->index].arch == 90 ? vtb_arch_find("sm_90a") : NULL;
    if (!only || (arch && arch != only))
      return broken(c, "a kernel for sm_%da alone", p->kernels[s->index].arch);
  }
  for (int i = 0; i < vtb_n_archs && status == VTB_OK; i++)
    if ((!arch || arch == &vtb_archs[i]) && (!only || only == &vtb_archs[i]))
      status = check_limits(c, s, &vtb_archs[i]);
  return status;
}

static vtb_status check_step(checker *c, const vtb_arch *arch) {
  const vtb_launch_step *s = &c->plan->steps[c->step];
  vtb_status status = check_shape(c, s, arch);
  if (status != VTB_OK) return status;
  const vtb_launch_arg *args = &c->plan->args[s->first_arg];
  for (int i = 0; i < s->n_args && status == VTB_OK; i++) status = check_arg(c, i, &args[i]);
  for (int i = 0; i < s->n_args && status == VTB_OK; i++) status = check_map(c, i, &args[i]);
  if (status == VTB_OK && s->kind == VTB_LAUNCH_GEMM)
    status = check_product(c, &c->plan->gemms[s->index], args, s->n_args);
  for (int i = 0; i < s->n_args && status == VTB_OK; i++) status = check_read(c, i, &args[i]);
  if (status == VTB_OK) status = check_within(c, args, s->n_args);
  for (int i = 0; i < s->n_args && status == VTB_OK; i++) {
    int64_t at;
    memory *m = memory_of(c, &args[i], &at);
    if (m && args[i].bytes && args[i].access & VTB_LAUNCH_WRITE &&
        !write_piece(m, (piece){at, at + args[i].bytes, args[i].value}))
      status = no_memory(c->err);
  }
  return status;
}

/* The argument that stands at the same place of the state as update i, -1: none. */
static int updated_by(const vtb_launch_plan *p, int i) {
  int64_t place = vtb_launch_place(p, i);
  for (int k = 0; place >= 0 && p->tensors[i].io == VTB_IO_UPDATE && k < i; k++)
    if (!vtb_tensor_is_result(&p->tensors[k]) && vtb_launch_place(p, k) == place) return k;
  return -1;
}

/* Every result is written from its first to its last byte. */
static vtb_status check_results(const checker *c) {
  for (int i = 0; i < c->plan->n_tensors; i++) {
    const vtb_tensor_info *t = &c->plan->tensors[i];
    if (!vtb_tensor_is_result(t)) continue;
    int64_t place = vtb_launch_place(c->plan, i), size = vtb_tensor_info_count(t) * 4,
            begin = place >= 0 ? place : 0;
    int32_t found;
    const memory *m = place >= 0 ? c->state : &c->tensors[i];
    int of = updated_by(c->plan, i);
    int64_t at = first_other(m, begin, begin + size, -1, &found);
    if (of >= 0 && first_other(m, begin, begin + size, of, &found) < 0) at = begin;
    if (at >= 0)
      return vtb_fail(c->err, VTB_E_INTERNAL, "launch plan: nothing writes byte %lld of result %s",
                      (long long)(at - begin), t->name);
  }
  return VTB_OK;
}

/* The state when a run begins: everything but results. Argument i holds value i. */
static vtb_status fill_state(const checker *c) {
  const vtb_launch_plan *p = c->plan;
  if (p->state_bytes > 0 && !write_piece(c->state, (piece){0, p->state_bytes, INT32_MAX}))
    return no_memory(c->err);
  for (int i = 0; i < p->n_tensors; i++) {
    int64_t place = vtb_launch_place(p, i), bytes = vtb_tensor_info_count(&p->tensors[i]) * 4;
    if (place < 0 || bytes == 0) continue;
    if (place % 16 || bytes > p->state_bytes || place > p->state_bytes - bytes)
      return vtb_fail(c->err, VTB_E_INTERNAL,
                      "launch plan: %s has byte %lld of the state, which has %lld",
                      p->tensors[i].name, (long long)place, (long long)p->state_bytes);
    if (p->tensors[i].io == VTB_IO_UPDATE) continue; /* there is what it updates */
    bool enough = vtb_tensor_is_result(&p->tensors[i])
                      ? erase(c->state, place, place + bytes)
                      : write_piece(c->state, (piece){place, place + bytes, i});
    if (!enough) return no_memory(c->err);
  }
  return VTB_OK;
}

/* ---- loops ----------------------------------------------------------------------------------- */

static bool in_loop(const vtb_launch_plan *p, int step) {
  bool inside = false;
  for (int i = 0; i < p->n_loops; i++)
    inside |= step >= p->loops[i].first && step < p->loops[i].first + p->loops[i].n;
  return inside;
}

/* Each is inside those that are around its first step, at most VTB_LAUNCH_DEPTH of them, and on one
 * side of what is prepared. */
static vtb_status check_loops(const checker *c) {
  const vtb_launch_plan *p = c->plan;
  int end[VTB_LAUNCH_DEPTH + 1] = {p->n_steps}, depth = 0, before = 0;
  for (int i = 0; i < p->n_loops; i++) {
    const vtb_launch_loop *l = &p->loops[i];
    while (depth > 0 && l->first >= end[depth]) depth--;
    bool sound = l->first >= before && l->n > 0 && l->first < end[depth] &&
                 l->n <= end[depth] - l->first && l->times > 0 && depth < VTB_LAUNCH_DEPTH;
    if (!sound || (l->first < p->n_prepared && l->first + l->n > p->n_prepared))
      return vtb_fail(c->err, VTB_E_INTERNAL,
                      "launch plan, loop %d: %d steps from step %d on, %lld times", i, l->n,
                      l->first, (long long)l->times);
    before = l->first;
    end[++depth] = l->first + l->n;
  }
  return VTB_OK;
}

/* ---- buckets of gradients -------------------------------------------------------------------- */

static bool meets(int64_t begin, int64_t end, const vtb_launch_bucket *b) {
  return begin < b->offset + b->bytes && b->offset < end;
}

/* Gradients are in a bucket from their first to their last byte, and nothing else is. */
static vtb_status check_contents(const checker *c, int number) {
  const vtb_launch_plan *p = c->plan;
  const vtb_launch_bucket *b = &p->buckets[number];
  int n = 0;
  for (int i = 0; i < p->n_tensors; i++) {
    const vtb_tensor_info *t = &p->tensors[i];
    int64_t begin = vtb_launch_place(p, i), end = begin + vtb_tensor_info_count(t) * 4;
    if (begin < 0 || begin == end || !meets(begin, end, b)) continue;
    if (t->io != VTB_IO_GRAD_OUT || begin < b->offset || end > b->offset + b->bytes)
      return vtb_fail(c->err, VTB_E_INTERNAL, "launch plan, bucket %d: %s is %s", number, t->name,
                      t->io == VTB_IO_GRAD_OUT ? "cut by its end" : "no gradient");
    n++;
  }
  if (n == b->n_tensors) return VTB_OK;
  return vtb_fail(c->err, VTB_E_INTERNAL, "launch plan, bucket %d: %d gradients, %d are said",
                  number, n, b->n_tensors);
}

static vtb_status check_writers(checker *c, int number) {
  const vtb_launch_plan *p = c->plan;
  const vtb_launch_bucket *b = &p->buckets[number];
  for (c->step = b->step + 1; c->step < p->n_steps; c->step++) {
    const vtb_launch_step *s = &p->steps[c->step];
    for (int i = 0; i < s->n_args; i++) {
      const vtb_launch_arg *a = &p->args[s->first_arg + i];
      int64_t at;
      if (a->access & VTB_LAUNCH_WRITE && memory_of(c, a, &at) == c->state &&
          meets(at, at + a->bytes, b))
        return broken(c, "argument %d writes to bucket %d, which is complete behind step %d", i,
                      number, b->step);
    }
  }
  return VTB_OK;
}

static vtb_status check_inside(const checker *c, int number) {
  const vtb_launch_plan *p = c->plan;
  const vtb_launch_bucket *b = &p->buckets[number];
  bool tensor = b->where == VTB_BUCKET_TENSOR && b->tensor >= 0 && b->tensor < p->n_tensors;
  int64_t room = b->where == VTB_BUCKET_WORKSPACE ? p->workspace_bytes
                 : tensor ? vtb_tensor_info_count(&p->tensors[b->tensor]) * 4
                          : 0;
  if (b->offset >= 0 && b->offset % 4 == 0 && b->bytes > 0 && b->bytes % 4 == 0 &&
      b->bytes <= room && b->offset <= room - b->bytes && b->n_tensors == 0)
    return VTB_OK;
  return vtb_fail(c->err, VTB_E_INTERNAL,
                  "launch plan, bucket %d: bytes %lld to %lld of a sum, where there are %lld",
                  number, (long long)b->offset, last_byte(b->offset, b->bytes), (long long)room);
}

static vtb_status check_state_bucket(checker *c, int i) {
  const vtb_launch_plan *p = c->plan;
  const vtb_launch_bucket *b = &p->buckets[i];
  if (b->offset < 0 || b->offset % 256 || b->bytes <= 0 || b->bytes % 256 ||
      b->bytes > p->state_bytes || b->offset > p->state_bytes - b->bytes)
    return vtb_fail(c->err, VTB_E_INTERNAL,
                    "launch plan, bucket %d: bytes %lld to %lld of the state, which has %lld", i,
                    (long long)b->offset, last_byte(b->offset, b->bytes),
                    (long long)p->state_bytes);
  for (int k = 0; k < i; k++)
    if (p->buckets[k].where == VTB_BUCKET_STATE &&
        meets(b->offset, b->offset + b->bytes, &p->buckets[k]))
      return vtb_fail(c->err, VTB_E_INTERNAL, "launch plan, bucket %d: it meets bucket %d", i, k);
  vtb_status status = check_contents(c, i);
  return status == VTB_OK ? check_writers(c, i) : status;
}

static vtb_status check_buckets(checker *c) {
  const vtb_launch_plan *p = c->plan;
  vtb_status status = VTB_OK;
  for (int i = 0; i < p->n_buckets && status == VTB_OK; i++) {
    const vtb_launch_bucket *b = &p->buckets[i];
    bool early = b->where == VTB_BUCKET_STATE && in_loop(p, b->step);
    if (b->step < p->n_prepared || b->step >= p->n_steps || (i && b->step < b[-1].step) || early)
      return vtb_fail(c->err, VTB_E_INTERNAL, "launch plan, bucket %d: complete behind step %d", i,
                      b->step);
    status = b->where == VTB_BUCKET_STATE ? check_state_bucket(c, i) : check_inside(c, i);
  }
  return status;
}

/* ---- the whole plan -------------------------------------------------------------------------- */

static vtb_status check_range(void *user, vtb_launch_range range, vtb_error *err) {
  checker *c = user;
  vtb_status status = VTB_OK;
  (void)err; /* the checker's */
  for (c->step = range.first; c->step < range.end && status == VTB_OK; c->step++)
    status = check_step(c, c->arch);
  return status;
}

/* One turn at a time, so that the condition is read before the second as well. */
static vtb_status check_condition(void *user, int loop, int32_t *turns, vtb_error *err) {
  checker *c = user;
  const vtb_launch_loop *l = &c->plan->loops[loop];
  (void)err;
  c->step = l->first;
  *turns = 1;
  if (l->condition < 0 || l->condition > c->plan->n_args)
    return broken(c, "the condition of its loop is argument %d", l->condition);
  const vtb_launch_arg *a = &c->plan->args[l->condition - 1];
  if (a->element_bytes != 4 || a->bytes != 4 || a->align < 4 || a->access != VTB_LAUNCH_READ)
    return broken(c, "the condition of its loop is no number that is read");
  vtb_status status = check_arg(c, l->condition - 1, a);
  return status == VTB_OK ? check_read(c, l->condition - 1, a) : status;
}

/* Steps from `first` on. The second turn of a loop finds what the first one left, as all later
 * ones do. */
static vtb_status check_from(checker *c, int first) {
  const vtb_launch_walk twice = {
      .plan = c->plan, .user = c, .steps = check_range, .ask = check_condition, .most = 2};
  return vtb_launch_walk_range(&twice, vtb_launch_range_of(c->plan, first, c->plan->n_steps),
                               c->err);
}

vtb_status vtb_launch_plan_check(const vtb_launch_plan *p, const vtb_arch *arch, vtb_error *err) {
  memory workspace = {0}, state = {0};
  checker c = {.plan = p, .workspace = &workspace, .state = &state, .arch = arch, .err = err};
  c.tensors = calloc((size_t)p->n_tensors + 1, sizeof *c.tensors);
  if (!c.tensors) return no_memory(err);
  vtb_status status = check_loops(&c);
  if (status == VTB_OK) status = fill_state(&c);
  if (status == VTB_OK) status = check_from(&c, 0);
  /* once more, as the next run does */
  if (status == VTB_OK && p->n_prepared > 0) status = check_from(&c, p->n_prepared);
  if (status == VTB_OK) status = check_results(&c);
  if (status == VTB_OK) status = check_buckets(&c);
  for (int i = 0; i < p->n_tensors; i++) vtb_vec_free(&c.tensors[i].pieces);
  free(c.tensors);
  vtb_vec_free(&workspace.pieces);
  vtb_vec_free(&state.pieces);
  return status;
}
