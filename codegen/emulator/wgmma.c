/* wgmma: a warp's 16 rows of the 64 at a time.
 *
 * Nothing happens before the wait: then shared memory is read, and registers get their sums, which
 * until then are NaN. Descriptors are decoded as the PTX manual has them; docs/hopper.md.
 */
#include <string.h>

#include "codegen/emulator/hopper.h"

#define WHERE __builtin_frame_address(0)

typedef struct tile { /* a descriptor */
  long at, lead, stride;
  int row_bytes;
} tile;

VTB_NORETURN static void fail(vtb_emu_thread *t, const char *what) {
  const vtb__emu_fiber *f = vtb__emu_fiber_of(t);
  vtb__emu_fail_at(t, f->frame, "%s: %s", f->at.name, what);
}

static vtb__emu_queue *queue_of(vtb_emu_thread *t) {
  vtb__emu_queue *q = &vtb__emu_hopper_of(vtb__emu_fiber_of(t)->worker)
                           ->queues[vtb__emu_fiber_of(t)->id / VTB__EMU_WARP];
  if (!q->acc) q->acc = vtb_xcalloc(VTB__EMU_ACCS, sizeof *q->acc);
  return q;
}

/* ---- factors in shared memory ---------------------------------------------------------------- */

static tile decode(vtb_emu_thread *t, unsigned long long d) {
  int kind = (int)(d >> 62);
  if (!kind || (d >> 14 & 3) || (d >> 30 & 3) || (d >> 46 & 0xffff & ~0xc000u))
    fail(t, "a descriptor with bits that are none of its fields, or no swizzle");
  return (tile){(long)(d & 0x3fff) << 4, (long)(d >> 16 & 0x3fff) << 4,
                (long)(d >> 32 & 0x3fff) << 4, 256 >> kind};
}

/* The place of element k of row (or column) r, counted from the beginning of dynamic shared
 * memory. */
static long place_of(const tile *x, bool across, int r, int k) {
  int across_n = x->row_bytes / 2;
  long at =
      across ? r / across_n * x->lead + r % across_n * 2 + k / 8 * x->stride + k % 8 * x->row_bytes
             : r / 8 * x->stride + r % 8 * x->row_bytes + k * 2;
  return vtb__emu_turned(x->at + at, x->row_bytes) - VTB_EMU_SHARED_AT;
}

/* Calls `visit` for each 16 bytes of rows first to first + n. */
typedef void (*visit_fn)(vtb_emu_thread *t, char *p);
static void visit_tile(vtb_emu_thread *t, unsigned long long d, bool across, int first, int n,
                       visit_fn visit) {
  tile x = decode(t, d);
  for (int r = first; r < first + n; r += across ? 8 : 1)
    for (int k = 0; k < 16; k += across ? 1 : 8) {
      long at = place_of(&x, across, r, k);
      if (at < 0 || at + 16 > t->shared_bytes) fail(t, "a descriptor outside of shared memory");
      visit(t, t->shared + at);
    }
}

static void begin_read(vtb_emu_thread *t, char *p) {
  vtb__emu_fiber *f = vtb__emu_fiber_of(t);
  vtb__emu_async_read(f, p, 16, true, f->frame);
}

static void end_read(vtb_emu_thread *t, char *p) {
  vtb__emu_async_read_done(vtb__emu_fiber_of(t)->worker, vtb__emu_fiber_of(t)->id / VTB__EMU_WARP,
                           p, 16);
}

static void visit_factors(vtb_emu_thread *t, const vtb_emu_wgmma *w, visit_fn visit) {
  int first = t->tid / VTB__EMU_WARP % 4 * 16;
  if (!w->rows) visit_tile(t, w->a, w->a_mn, first, 16, visit);
  visit_tile(t, w->b, w->b_mn, 0, w->n, visit);
}

/* rows x 16 (to[r * 16 + k]), or turned (to[k * n + r]). */
static void gather(const vtb_emu_thread *t, const tile *x, bool across, int first, int n,
                   bool turned, unsigned short *to) {
  for (int r = 0; r < n; r++)
    for (int k = 0; k < 16; k++)
      memcpy(&to[turned ? k * n + r : r * 16 + k], t->shared + place_of(x, across, first + r, k),
             2);
}

static void gather_rows(const vtb__emu_op *op, unsigned short *to) {
  for (int l = 0; l < VTB__EMU_WARP; l++)
    for (int r = 0; r < 4; r++) {
      int row = l / 4 + (r & 1) * 8, k = l % 4 * 2 + (r >> 1) * 8;
      memcpy(&to[row * 16 + k], &op->rows[l][r], 4);
    }
}

/* ---- accumulators ---------------------------------------------------------------------------- */

/* Between the threads' registers and the matrix. */
static void move_registers(vtb__emu_acc *a, bool back) {
  for (int l = 0; l < VTB__EMU_WARP; l++)
    for (int i = 0; i < a->n / 2; i++) {
      float *m = &a->at[(l / 4 + i / 2 % 2 * 8) * a->n + i / 4 * 8 + l % 4 * 2 + i % 2];
      if (back)
        a->d[l][i] = *m;
      else
        *m = a->d[l][i];
    }
}

static void poison(vtb__emu_acc *a) {
  for (int l = 0; l < VTB__EMU_WARP; l++) memset(a->d[l], 0xff, (size_t)a->n / 2 * sizeof(float));
}

/* The accumulators of these registers; new ones take them over. */
static int take_registers(vtb_emu_thread **lane, vtb__emu_queue *q, const vtb_emu_wgmma *w) {
  int unused = -1;
  for (int i = 0; i < VTB__EMU_ACCS; i++) {
    if (!q->acc[i].uses && unused < 0) unused = i;
    if (!q->acc[i].uses || q->acc[i].d[0] != w->d) continue;
    if (q->acc[i].n != w->n) fail(lane[0], "registers of a wgmma of another shape");
    return i;
  }
  if (unused < 0) fail(lane[0], "too many accumulators on their way");
  vtb__emu_acc *a = &q->acc[unused];
  a->n = w->n;
  for (int l = 0; l < VTB__EMU_WARP; l++) a->d[l] = ((const vtb_emu_wgmma *)lane[l]->address)->d;
  move_registers(a, false);
  poison(a);
  return unused;
}

/* ---- instructions ---------------------------------------------------------------------------- */

static void issue(vtb_emu_thread **lane, unsigned mask) {
  const vtb_emu_wgmma *w = lane[0]->address;
  vtb__emu_queue *q = queue_of(lane[0]);
  vtb__emu_op op = {.what = *w, .group = q->group};
  (void)mask;
  if (!q->fenced) fail(lane[0], "no vtb_wgmma_fence() since the last wait");
  for (int l = 0; l < VTB__EMU_WARP; l++) {
    const vtb_emu_wgmma *o = lane[l]->address;
    if (o->a != w->a || o->b != w->b || o->n != w->n || o->add != w->add)
      fail(lane[l], "threads with different descriptors");
    if (o->rows) memcpy(op.rows[l], o->rows, sizeof op.rows[l]);
  }
  visit_factors(lane[0], w, begin_read);
  op.acc = take_registers(lane, q, w);
  q->acc[op.acc].uses++;
  vtb_vec_push(&q->ops, op);
}

static void execute(vtb_emu_thread *t, vtb__emu_queue *q, const vtb__emu_op *op) {
  unsigned short a[16 * 16], b[16 * VTB__EMU_MAX_N];
  const vtb_emu_wgmma *w = &op->what;
  vtb__emu_acc *acc = &q->acc[op->acc];
  tile of_a = {0}, of_b = decode(t, w->b);
  if (w->rows)
    gather_rows(op, a);
  else
    of_a = decode(t, w->a),
    gather(t, &of_a, w->a_mn, t->tid / VTB__EMU_WARP % 4 * 16, 16, false, a);
  gather(t, &of_b, w->b_mn, 0, w->n, true, b);
  if (!w->add) memset(acc->at, 0, (size_t)w->n * 16 * sizeof(float));
  if (!vtb__emu_fiber_of(t)->worker->launch->emulator->counted)
    vtb__emu_wgmma_compute(w->n, w->half, a, b, acc->at);
  visit_factors(t, w, end_read);
  if (--acc->uses == 0) move_registers(acc, true);
}

/* lane[0]->in[0]: groups that may go on */
static void finish(vtb_emu_thread **lane, unsigned mask) {
  vtb__emu_queue *q = queue_of(lane[0]);
  vtb__emu_fiber *f = vtb__emu_fiber_of(lane[0]);
  size_t kept = 0;
  (void)mask;
  for (size_t i = 0; i < q->ops.n; i++) {
    if (q->ops.at[i].group >= q->group - (int)lane[0]->in[0])
      q->ops.at[kept++] = q->ops.at[i];
    else
      execute(lane[0], q, &q->ops.at[i]);
  }
  q->ops.n = kept;
  q->fenced = false;
  f->warp->sync_time = ++f->worker->clock;
  vtb__emu_join_warp(f->worker, f->warp);
}

static void fence(vtb_emu_thread **lane, unsigned mask) {
  (void)mask;
  queue_of(lane[0])->fenced = true;
}

static void commit(vtb_emu_thread **lane, unsigned mask) {
  (void)mask;
  queue_of(lane[0])->group++;
}

/* All lanes of the warp; `frame` is the caller's. */
static void together(vtb_emu_thread *t, vtb_emu_place at, vtb_emu_complete complete,
                     const void *frame) {
  vtb__emu_fiber_of(t)->frame = frame;
  vtb__emu_collective(t, 0xffffffffu, at, complete);
}

void vtb__emu_wgmma(vtb_emu_thread *t, const vtb_emu_wgmma *op, vtb_emu_place at) {
  t->address = op;
  together(t, at, issue, WHERE);
  VTB__EMU_FRAME_STAYS;
}
void vtb__emu_wgmma_fence(vtb_emu_thread *t, vtb_emu_place at) {
  together(t, at, fence, WHERE);
  VTB__EMU_FRAME_STAYS;
}
void vtb__emu_wgmma_commit(vtb_emu_thread *t, vtb_emu_place at) {
  together(t, at, commit, WHERE);
  VTB__EMU_FRAME_STAYS;
}
void vtb__emu_wgmma_wait(vtb_emu_thread *t, int n_groups_left, vtb_emu_place at) {
  t->in[0] = (unsigned)n_groups_left;
  together(t, at, finish, WHERE);
  VTB__EMU_FRAME_STAYS;
}
