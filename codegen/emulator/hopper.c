/* mbarriers, copies of tensor maps' boxes, barriers of parts of a block.
 *
 * A copy to shared memory takes the old contents away when it is asked for, and brings the new ones
 * at the latest moment: when the phase of its mbarrier ends, which it does once all threads have
 * arrived and as many bytes are on their way as were announced. A copy to global memory reads when
 * it is waited for.
 */
#include <string.h>

#include "codegen/emulator/hopper.h"

#include "codegen/emulator/count.h"

#define WHERE __builtin_frame_address(0)

static long offset_of(const vtb__emu_worker *w, const void *p) {
  return (const char *)p - w->shared;
}

/* ---- boxes ----------------------------------------------------------------------------------- */

typedef void (*move_row)(char *shared, char *global, long n);

static void load_row(char *shared, char *global, long n) {
  if (global)
    memcpy(shared, global, (size_t)n);
  else
    memset(shared, 0, (size_t)n);
}

static void store_row(char *shared, char *global, long n) {
  if (global) memcpy(global, shared, (size_t)n);
}

/* Element `e` of the box in global memory; NULL outside of the tensor. */
static char *element_at(const vtb__emu_box *b, long e) {
  const vtb_emu_map *m = b->map->map;
  char *p = b->map->begin;
  for (int i = 0; i < m->rank; i++) {
    long at = b->at[i] + e % m->box[i];
    e /= m->box[i];
    if (at < 0 || at >= m->size[i]) return NULL;
    p += at * (i ? m->stride[i] : m->element_bytes);
  }
  return p;
}

/* False: the map reaches beyond its argument. */
static bool move_box(const vtb__emu_worker *w, const vtb__emu_box *b, move_row move) {
  const vtb_emu_map *m = b->map->map;
  long first = offset_of(w, b->shared) + VTB_EMU_SHARED_AT;
  const char *from = NULL, *to = NULL; /* of bytes that follow each other */
  for (long e = 0; e < b->n_bytes / m->element_bytes; e++) {
    char *global = element_at(b, e);
    if (global && (global < b->map->begin || global + m->element_bytes > b->map->end)) return false;
    long at = vtb__emu_turned(first + e * m->element_bytes, m->swizzle);
    move(w->shared + at - VTB_EMU_SHARED_AT, global, m->element_bytes);
    if (!w->count) continue;
    if (global != to) {
      vtb__emu_count_row(w->count, move == store_row, from, to);
      from = global;
    }
    to = global ? global + m->element_bytes : NULL;
  }
  if (w->count) vtb__emu_count_row(w->count, move == store_row, from, to);
  return true;
}

/* ---- mbarriers ------------------------------------------------------------------------------- */

static vtb__emu_mbar *find(vtb_emu_thread *t, void *bar, const void *frame) {
  vtb__emu_fiber *f = vtb__emu_fiber_of(t);
  vtb__emu_hopper *h = vtb__emu_hopper_of(f->worker);
  for (int i = 0; i < h->n_bars; i++) {
    vtb__emu_mbar *b = &h->bars[i];
    if (b->at != bar) continue;
    bool seen = b->init_thread == t->tid || b->init_time < f->worker->barrier_time ||
                vtb__emu_knows(f, (unsigned)b->init_thread, b->init_time);
    if (!seen)
      vtb__emu_fail_at(t, frame, "an mbarrier that thread %d initialised without a barrier since",
                       b->init_thread);
    return b;
  }
  vtb__emu_fail_at(t, frame, "byte %ld of shared memory is no mbarrier", offset_of(f->worker, bar));
}

void vtb__emu_mbar_init(vtb_emu_thread *t, void *bar, int threads) {
  vtb__emu_worker *w = vtb__emu_fiber_of(t)->worker;
  vtb__emu_hopper *h = vtb__emu_hopper_of(w);
  if ((uintptr_t)bar % 8) vtb__emu_fail_at(t, WHERE, "misaligned address");
  for (int i = 0; i < h->n_bars; i++)
    if (h->bars[i].at == bar) vtb__emu_fail_at(t, WHERE, "an mbarrier is initialised twice");
  if (h->n_bars == VTB__EMU_MBARS || threads < 1)
    vtb__emu_fail_at(t, WHERE, "mbarrier %d of %d threads", h->n_bars, threads);
  vtb__emu_mbar *b = &h->bars[h->n_bars++];
  b->at = bar;
  b->threads = b->missing = threads;
  b->announced = b->coming = 0;
  b->phase = 0;
  b->init_thread = t->tid;
  b->init_time = w->clock;
  b->ready = false;
  b->boxes.n = 0;
  memset(b->gathered, 0, sizeof b->gathered);
  memset(b->released, 0, sizeof b->released);
}

void vtb__emu_mbar_ready(vtb_emu_thread *t) {
  vtb__emu_hopper *h = vtb__emu_hopper_of(vtb__emu_fiber_of(t)->worker);
  for (int i = 0; i < h->n_bars; i++)
    if (h->bars[i].init_thread == t->tid) h->bars[i].ready = true;
}

static void deliver(vtb_emu_thread *t, vtb__emu_mbar *b, unsigned writer, const void *frame) {
  vtb__emu_worker *w = vtb__emu_fiber_of(t)->worker;
  for (size_t i = 0; i < b->boxes.n; i++) {
    const vtb__emu_box *box = &b->boxes.at[i];
    vtb__emu_async_give(w, box->shared, box->n_bytes, writer);
    if (!move_box(w, box, load_row))
      vtb__emu_fail_at(t, frame, "a tensor map reaches beyond its memory");
  }
  b->boxes.n = 0;
}

/* Ends the phase if nothing is missing. */
static void try_end(vtb_emu_thread *t, vtb__emu_mbar *b, const void *frame) {
  vtb__emu_worker *w = vtb__emu_fiber_of(t)->worker;
  unsigned writer = VTB__EMU_COPIER + (unsigned)(b - w->hopper->bars);
  if (b->missing || b->coming < b->announced) return;
  if (b->coming > b->announced)
    vtb__emu_fail_at(t, frame, "an mbarrier was told of %ld bytes, and %ld come", b->announced,
                     b->coming);
  deliver(t, b, writer, frame);
  b->gathered[writer] = ++w->clock;
  memcpy(b->released, b->gathered, sizeof b->released);
  memset(b->gathered, 0, sizeof b->gathered);
  b->missing = b->threads;
  b->announced = b->coming = 0;
  b->phase++;
  for (int i = 0; i < w->n_threads; i++) {
    vtb__emu_fiber *f = vtb__emu_fiber_at(w, i);
    if (f->state == VTB__EMU_AT_MBARRIER && f->bar == b && (int)(b->phase & 1) != f->parity)
      vtb__emu_resume(f);
  }
}

void vtb__emu_mbar_arrive(vtb_emu_thread *t, void *bar, int n_bytes) {
  vtb__emu_mbar *b = find(t, bar, WHERE);
  if (!b->missing)
    vtb__emu_fail_at(t, WHERE, "more than %d threads arrive in a phase of an mbarrier", b->threads);
  vtb__emu_leave(vtb__emu_fiber_of(t), b->gathered);
  b->missing--;
  b->announced += n_bytes;
  try_end(t, b, WHERE);
  VTB__EMU_FRAME_STAYS;
}

void vtb__emu_mbar_wait(vtb_emu_thread *t, void *bar, int parity, vtb_emu_place at) {
  vtb__emu_fiber *f = vtb__emu_fiber_of(t);
  vtb__emu_mbar *b = find(t, bar, WHERE);
  if (parity != 0 && parity != 1) vtb__emu_fail_at(t, WHERE, "phases of parity %d", parity);
  f->at = at;
  f->bar = b;
  f->parity = parity;
  while ((int)(b->phase & 1) == parity) vtb__emu_wait_in(f, VTB__EMU_AT_MBARRIER);
  vtb__emu_learn(f, b->released);
}

void vtb__emu_async_fence(vtb_emu_thread *t) {
  vtb__emu_worker *w = vtb__emu_fiber_of(t)->worker;
  vtb__emu_hopper_of(w)->fence_time[t->tid] = ++w->clock;
}

/* ---- copies ---------------------------------------------------------------------------------- */

static vtb__emu_box make_box(vtb_emu_thread *t, void *shared, const vtb_emu_arg *map, const int *at,
                             int rank, const void *frame) {
  const vtb_emu_map *m = map->map;
  vtb__emu_box b = {.shared = shared, .map = map, .n_bytes = m->element_bytes};
  long place = offset_of(vtb__emu_fiber_of(t)->worker, shared);
  if (rank != m->rank)
    vtb__emu_fail_at(t, frame, "%d coordinates for a map of rank %d", rank, m->rank);
  for (int i = 0; i < rank; i++) {
    b.at[i] = at[i];
    b.n_bytes *= m->box[i];
  }
  int pattern = m->swizzle ? 8 * m->swizzle : 128;
  if ((place + VTB_EMU_SHARED_AT) % pattern)
    vtb__emu_fail_at(t, frame, "a box at byte %ld of shared memory, no multiple of %d", place,
                     pattern);
  return b;
}

void vtb__emu_tma(vtb_emu_thread *t, void *shared, const vtb_emu_arg *map, void *bar, const int *at,
                  int rank) {
  vtb__emu_fiber *f = vtb__emu_fiber_of(t);
  vtb__emu_box box = make_box(t, shared, map, at, rank, WHERE);
  vtb__emu_mbar *b = bar ? find(t, bar, WHERE) : NULL;
  if (b && !b->ready) vtb__emu_fail_at(t, WHERE, "a copy to an mbarrier without vtb_mbar_ready()");
  if (!b) {
    vtb__emu_async_read(f, shared, box.n_bytes, false, WHERE);
    box.group = f->store_group;
    vtb_vec_push(&f->stores, box);
    return;
  }
  vtb__emu_async_take(f, shared, box.n_bytes, WHERE);
  memset(shared, 0xff, (size_t)box.n_bytes);
  b->coming += box.n_bytes;
  vtb_vec_push(&b->boxes, box);
  try_end(t, b, WHERE);
  VTB__EMU_FRAME_STAYS;
}

void vtb__emu_tma_commit(vtb_emu_thread *t) { vtb__emu_fiber_of(t)->store_group++; }

void vtb__emu_tma_wait(vtb_emu_thread *t, int n_groups_left) {
  vtb__emu_fiber *f = vtb__emu_fiber_of(t);
  size_t kept = 0;
  for (size_t i = 0; i < f->stores.n; i++) {
    if (f->stores.at[i].group >= f->store_group - n_groups_left)
      f->stores.at[kept++] = f->stores.at[i];
    else if (!move_box(f->worker, &f->stores.at[i], store_row))
      vtb__emu_fail_at(t, WHERE, "a tensor map reaches beyond its memory");
  }
  f->stores.n = kept;
}

/* ---- parts of a block ------------------------------------------------------------------------ */

void vtb__emu_sync_part(vtb_emu_thread *t, int number, int threads, vtb_emu_place at) {
  vtb__emu_fiber *f = vtb__emu_fiber_of(t);
  vtb__emu_worker *w = f->worker;
  if (number < 1 || number >= VTB__EMU_PARTS || threads < VTB__EMU_WARP ||
      threads % VTB__EMU_WARP || threads > w->n_threads)
    vtb__emu_fail_at(t, WHERE, "barrier %d of %d threads", number, threads);
  vtb__emu_part *p = &vtb__emu_hopper_of(w)->parts[number];
  if (!p->n) {
    p->threads = threads;
    memset(p->known, 0, sizeof p->known);
  } else if (p->threads != threads) {
    vtb__emu_fail_at(t, WHERE, "barrier %d of %d threads, and of %d in %s:%d", number, threads,
                     p->threads, p->at.file, p->at.line);
  }
  p->at = f->at = at;
  f->parity = number;
  vtb__emu_leave(f, p->known);
  if (++p->n < threads) {
    vtb__emu_wait_in(f, VTB__EMU_AT_PART);
    return;
  }
  p->n = 0;
  vtb__emu_learn(f, p->known);
  for (int i = 0; i < w->n_threads; i++) {
    vtb__emu_fiber *g = vtb__emu_fiber_at(w, i);
    if (g->state != VTB__EMU_AT_PART || g->parity != number) continue;
    vtb__emu_learn(g, p->known);
    vtb__emu_resume(g);
  }
}

const char *vtb__emu_left_over(const vtb__emu_worker *w) {
  const vtb__emu_hopper *h = w->hopper;
  if (!h) return NULL;
  for (int i = 0; i < h->n_bars; i++)
    if (h->bars[i].boxes.n) return "copies to shared memory that nobody waited for";
  for (int i = 0; i < w->n_warps; i++)
    if (h->queues[i].ops.n) return "a wgmma that nobody waited for";
  return NULL;
}
