/* The launch-plan checker: limits, bounds, alignment, live memory. See launch_check.h. */
#include "runtime/launch_check.h"

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

/* ---- who wrote what: neighbouring pieces of a memory, in order --------------------------------------------------- */

typedef struct piece {
  int64_t begin, end;
  int32_t value;
} piece;

typedef struct memory {
  VTB_VEC(piece) pieces; /* disjoint; what lies between them was never written */
} memory;

typedef struct checker {
  const vtb_launch_plan *plan;
  memory *workspace, *tensors; /* tensors: one a tensor */
  int step;
  vtb_error *err;
} checker;

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
  return vtb_fail(c->err, VTB_E_INTERNAL, "launch plan, step %d (%s): %s", c->step, step_name(c), what);
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

static void write_piece(memory *m, piece p) {
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
  while (m->pieces.n < from + n + tail) vtb_vec_push(&m->pieces, p);
  memmove(&m->pieces.at[from + n], &m->pieces.at[to], tail * sizeof(piece));
  memcpy(&m->pieces.at[from], fresh, n * sizeof(piece));
  m->pieces.n = from + n + tail;
}

/* The first byte of [begin, end) that does not hold `value`, or -1; *found: what it holds, -1 if nothing. */
static int64_t first_other(const memory *m, int64_t begin, int64_t end, int32_t value, int32_t *found) {
  *found = -1;
  for (size_t i = first_behind(m, begin); begin < end; i++) {
    if (i == m->pieces.n || m->pieces.at[i].begin > begin) return begin;
    *found = m->pieces.at[i].value;
    if (*found != value) return begin;
    begin = m->pieces.at[i].end;
    *found = -1;
  }
  return -1;
}

/* ---- single arguments ----------------------------------------------------------------------------------------------
 */

static bool is_result(const vtb_tensor_info *t) {
  return t->io == VTB_IO_OUTPUT || t->io == VTB_IO_GRAD_OUT || t->io == VTB_IO_UPDATE;
}

static int64_t space_bytes(const vtb_launch_plan *p, const vtb_launch_arg *a) {
  switch (a->space) {
  case VTB_LAUNCH_TENSOR:
    return a->tensor < 0 || a->tensor >= p->n_tensors ? -1 : vtb_tensor_info_count(&p->tensors[a->tensor]) * 4;
  case VTB_LAUNCH_WORKSPACE:
    return p->workspace_bytes;
  case VTB_LAUNCH_CONSTANT:
    return p->constant_bytes;
  }
  return -1;
}

static vtb_status check_arg(const checker *c, int number, const vtb_launch_arg *a) {
  static const char *const names[] = {"tensor", "workspace", "constants"};
  int64_t size = space_bytes(c->plan, a);
  if (size < 0) return broken(c, "argument %d points to memory that does not exist", number);
  if (a->offset < 0 || a->bytes < 0 || a->offset > size || a->bytes > size - a->offset)
    return broken(c, "argument %d reaches bytes %lld to %lld of the %s, which has %lld", number, (long long)a->offset,
                  (long long)(a->offset + a->bytes - 1), names[a->space], (long long)size);
  if (a->align == 0 || a->offset % a->align)
    return broken(c, "argument %d at byte %lld is not aligned to %d bytes", number, (long long)a->offset, a->align);
  bool constant =
      a->space == VTB_LAUNCH_CONSTANT || (a->space == VTB_LAUNCH_TENSOR && !is_result(&c->plan->tensors[a->tensor]));
  if (constant && a->access & VTB_LAUNCH_WRITE) return broken(c, "argument %d writes to what is read only", number);
  return VTB_OK;
}

/* NULL for memory that is there from the start. */
static memory *memory_of(const checker *c, const vtb_launch_arg *a) {
  if (a->space == VTB_LAUNCH_WORKSPACE) return c->workspace;
  if (a->space == VTB_LAUNCH_TENSOR && is_result(&c->plan->tensors[a->tensor])) return &c->tensors[a->tensor];
  return NULL;
}

static vtb_status check_read(const checker *c, int number, const vtb_launch_arg *a) {
  const memory *m = memory_of(c, a);
  int32_t found;
  if (!m || !(a->access & VTB_LAUNCH_READ)) return VTB_OK;
  int64_t at = first_other(m, a->offset, a->offset + a->bytes, a->value, &found);
  if (at < 0) return VTB_OK;
  if (found < 0)
    return broken(c, "argument %d reads byte %lld of value %d, which nothing has written", number, (long long)at,
                  a->value);
  return broken(c, "argument %d reads value %d, but byte %lld has been overwritten by value %d", number, a->value,
                (long long)at, found);
}

static bool overlap(const vtb_launch_arg *a, const vtb_launch_arg *b) {
  return a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes;
}

/* Blocks run in any order, so that a launch must not write what another of its values is read from or written to. */
static vtb_status check_within(const checker *c, const vtb_launch_arg *args, int n) {
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) {
      if (i == j || !(args[i].access & VTB_LAUNCH_WRITE) || args[i].value == args[j].value) continue;
      const memory *m = memory_of(c, &args[i]);
      if (m && m == memory_of(c, &args[j]) && overlap(&args[i], &args[j]))
        return broken(c, "argument %d writes value %d over value %d of argument %d", i, args[i].value, args[j].value,
                      j);
    }
  return VTB_OK;
}

/* ---- steps ---------------------------------------------------------------------------------------------------------
 */

static vtb_status check_limits(const checker *c, const vtb_launch_step *s, const vtb_arch *arch) {
  const vtb_launch_kernel *k = &c->plan->kernels[s->index];
  if (k->threads < 32 || k->threads % 32 || k->threads > arch->threads)
    return broken(c, "blocks of %d threads; %s takes multiples of 32 up to %d", k->threads, arch->name, arch->threads);
  if (s->grid < 1 || s->grid > arch->blocks)
    return broken(c, "%lld blocks; %s takes 1 to %lld", (long long)s->grid, arch->name, (long long)arch->blocks);
  if (k->shared_bytes < 0 || k->shared_bytes > arch->shared_bytes)
    return broken(c, "%d bytes of shared memory; %s has %d a block", k->shared_bytes, arch->name, arch->shared_bytes);
  if (k->n_args * 8 > arch->parameter_bytes)
    return broken(c, "%d arguments; %s takes %d", k->n_args, arch->name, arch->parameter_bytes / 8);
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
    return vtb_fail(c->err, VTB_E_INTERNAL, "launch plan, step %d: neither a kernel nor a product", c->step);
  if (s->n_args != n_args) return broken(c, "%d arguments instead of %d", s->n_args, n_args);
  if (s->first_arg < 0 || s->first_arg > p->n_args - n_args) return broken(c, "its arguments are not in the plan");
  vtb_status status = VTB_OK;
  for (int i = 0; i < vtb_n_archs && s->kind == VTB_LAUNCH_KERNEL && status == VTB_OK; i++)
    if (!arch || arch == &vtb_archs[i]) status = check_limits(c, s, &vtb_archs[i]);
  return status;
}

static vtb_status check_step(checker *c, const vtb_arch *arch) {
  const vtb_launch_step *s = &c->plan->steps[c->step];
  vtb_status status = check_shape(c, s, arch);
  if (status != VTB_OK) return status;
  const vtb_launch_arg *args = &c->plan->args[s->first_arg];
  for (int i = 0; i < s->n_args && status == VTB_OK; i++) status = check_arg(c, i, &args[i]);
  for (int i = 0; i < s->n_args && status == VTB_OK; i++) status = check_read(c, i, &args[i]);
  if (status == VTB_OK) status = check_within(c, args, s->n_args);
  for (int i = 0; i < s->n_args && status == VTB_OK; i++) {
    memory *m = memory_of(c, &args[i]);
    if (m && args[i].bytes && args[i].access & VTB_LAUNCH_WRITE)
      write_piece(m, (piece){args[i].offset, args[i].offset + args[i].bytes, args[i].value});
  }
  return status;
}

/* Every result is written from its first to its last byte. */
static vtb_status check_results(const checker *c) {
  for (int i = 0; i < c->plan->n_tensors; i++) {
    const vtb_tensor_info *t = &c->plan->tensors[i];
    if (!is_result(t)) continue;
    int64_t at = 0, size = vtb_tensor_info_count(t) * 4;
    const memory *m = &c->tensors[i];
    for (size_t k = 0; k < m->pieces.n && m->pieces.at[k].begin <= at; k++) at = m->pieces.at[k].end;
    if (at < size)
      return vtb_fail(c->err, VTB_E_INTERNAL, "launch plan: nothing writes byte %lld of result %s", (long long)at,
                      t->name);
  }
  return VTB_OK;
}

vtb_status vtb_launch_plan_check(const vtb_launch_plan *p, const vtb_arch *arch, vtb_error *err) {
  memory workspace = {0};
  checker c = {.plan = p, .workspace = &workspace, .err = err};
  vtb_status status = VTB_OK;
  c.tensors = vtb_xcalloc((size_t)p->n_tensors + 1, sizeof *c.tensors);
  for (; c.step < p->n_steps && status == VTB_OK; c.step++) status = check_step(&c, arch);
  if (status == VTB_OK) status = check_results(&c);
  for (int i = 0; i < p->n_tensors; i++) vtb_vec_free(&c.tensors[i].pieces);
  free(c.tensors);
  vtb_vec_free(&workspace.pieces);
  return status;
}
