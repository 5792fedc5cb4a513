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
  if (!b->map) {
    memcpy(b->shared, b->sent, (size_t)b->n_bytes);
    return true;
  }
  struct vtb__emu_count *count = b->again ? NULL : w->count;
  const vtb_emu_map *m = b->map->map;
  long first = offset_of(w, b->shared) + VTB_EMU_SHARED_AT;
  const char *from = NULL, *to = NULL; /* of bytes that follow each other */
  for (long e = 0; e < b->n_bytes / m->element_bytes; e++) {
    char *global = element_at(b, e);
    if (global && (global < b->map->begin || global + m->element_bytes > b->map->end)) return false;
    long at = vtb__emu_turned(first + e * m->element_bytes, m->swizzle);
    move(w->shared + at - VTB_EMU_SHARED_AT, global, m->element_bytes);
    if (!count) continue;
    if (global != to) {
      vtb__emu_count_row(count, move == store_row, from, to);
      from = global;
    }
    to = global ? global + m->element_bytes : NULL;
  }
  if (count) vtb__emu_count_row(count, move == store_row, from, to);
  return true;
}

/* ---- mbarriers ------------------------------------------------------------------------------- */

static vtb__emu_mbar *find(vtb_emu_thread *t, void *bar, const void *frame) {
  vtb__emu_fiber *f = vtb__emu_fiber_of(t);
  vtb__emu_hopper *h = vtb__emu_hopper_of(f->worker);
  char text[64];
  for (int i = 0; i < h->n_bars; i++) {
    vtb__emu_mbar *b = &h->bars[i];
    if (b->at != bar) continue;
    bool own = vtb__emu_rank_of(f->worker, bar) == t->rank;
    bool seen = b->init_thread == f->id || (own && b->init_time < f->member->barrier_time) ||
                vtb__emu_knows(f, (unsigned)b->init_thread, b->init_time);
    if (!seen)
      vtb__emu_fail_at(t, frame, "an mbarrier that %s initialised without a barrier since",
                       vtb__emu_name(f, b->init_thread, text));
    return b;
  }
  vtb__emu_fail_at(t, frame, "no mbarrier at %s", vtb__emu_byte(f, bar, text));
}

void vtb__emu_mbar_init(vtb_emu_thread *t, void *bar, int threads, vtb_emu_place at) {
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
  b->init_thread = vtb__emu_fiber_of(t)->id;
  b->init_time = w->clock;
  b->init_at = at;
  b->who = b->who_first = 0;
  b->ready = b->frees = false;
  b->boxes.n = 0;
  memset(b->gathered, 0, sizeof b->gathered);
  memset(b->released, 0, sizeof b->released);
}

void vtb__emu_mbar_ready(vtb_emu_thread *t) {
  vtb__emu_hopper *h = vtb__emu_hopper_of(vtb__emu_fiber_of(t)->worker);
  for (int i = 0; i < h->n_bars; i++)
    if (h->bars[i].init_thread == vtb__emu_fiber_of(t)->id) h->bars[i].ready = true;
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
  vtb__emu_release(w, b->released, b->gathered);
  if (!b->phase) b->who_first = b->who;
  if (b->who != b->who_first)
    vtb__emu_fail_at(t, frame,
                     "others arrive in phase %u of an mbarrier of %d threads than in its first: "
                     "initialised in %s:%d",
                     b->phase, b->threads, b->init_at.file, b->init_at.line);
  b->who = 0;
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
  vtb__emu_touch(vtb__emu_fiber_of(t), bar, WHERE);
  vtb__emu_mbar *b = find(t, bar, WHERE);
  if (!b->missing)
    vtb__emu_fail_at(t, WHERE, "more than %d threads arrive in a phase of an mbarrier", b->threads);
  vtb__emu_leave(vtb__emu_fiber_of(t), b->gathered);
  b->who += vtb_hash_bytes(VTB_HASH_INIT, &vtb__emu_fiber_of(t)->id, sizeof(int));
  b->missing--;
  if (n_bytes == VTB_EMU_FREES)
    b->frees = true;
  else
    b->announced += n_bytes;
  try_end(t, b, WHERE);
  VTB__EMU_FRAME_STAYS;
}

void vtb__emu_mbar_wait(vtb_emu_thread *t, void *bar, int parity, int known, vtb_emu_place at) {
  vtb__emu_fiber *f = vtb__emu_fiber_of(t);
  vtb__emu_mbar *b = find(t, bar, WHERE);
  if (parity != 0 && parity != 1) vtb__emu_fail_at(t, WHERE, "phases of parity %d", parity);
  f->at = at;
  f->bar = b;
  f->parity = parity;
  while ((int)(b->phase & 1) == parity) vtb__emu_wait_in(f, VTB__EMU_AT_MBARRIER);
  if (known == VTB_EMU_OF_CLUSTER && b->frees)
    vtb__emu_fail_at(t, WHERE, "waits for what others did, and they say that reads are over alone");
  if (known == VTB_EMU_OF_CLUSTER)
    vtb__emu_learn(f, b->released);
  else
    vtb__emu_learn_own(f, b->released);
  if (known == VTB_EMU_OF_READS) vtb__emu_learn_reads(f, b->released);
}

void vtb__emu_async_fence(vtb_emu_thread *t) {
  vtb__emu_worker *w = vtb__emu_fiber_of(t)->worker;
  unsigned *times = vtb__emu_hopper_of(w)->fence_time[vtb__emu_fiber_of(t)->id];
  times[1] = times[0];
  times[0] = ++w->clock;
}

/* ---- copies ---------------------------------------------------------------------------------- */

static vtb__emu_box make_box(vtb_emu_thread *t, void *shared, const vtb_emu_arg *map, const int *at,
                             int rank, const void *frame) {
  const vtb_emu_map *m = map->map;
  vtb__emu_box b = {.shared = shared, .map = map, .n_bytes = m->element_bytes};
  long place = offset_of(vtb__emu_fiber_of(t)->worker, shared) % VTB_EMU_SHARED_STRIDE;
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

/* To the memory of the block that `bar` is of. */
static void expect_box(vtb_emu_thread *t, void *bar, const vtb__emu_box *box, const void *frame) {
  vtb__emu_fiber *f = vtb__emu_fiber_of(t);
  const vtb__emu_member *m = &f->worker->members[vtb__emu_rank_of(f->worker, bar)];
  vtb__emu_mbar *b = find(t, bar, frame);
  if (m->n_done == vtb__emu_block_threads(f->worker))
    vtb__emu_fail_at(t, frame, "a copy to a block that has ended");
  if (!b->ready) vtb__emu_fail_at(t, frame, "a copy to an mbarrier without vtb_mbar_ready()");
  vtb__emu_async_take(f, box->shared, box->n_bytes, frame);
  memset(box->shared, 0xff, (size_t)box->n_bytes);
  b->coming += box->n_bytes;
  vtb_vec_push(&b->boxes, *box);
  try_end(t, b, frame);
}

void vtb__emu_tma(vtb_emu_thread *t, void *shared, const vtb_emu_arg *map, void *bar, const int *at,
                  int rank, unsigned blocks) {
  vtb__emu_fiber *f = vtb__emu_fiber_of(t);
  vtb__emu_box box = make_box(t, shared, map, at, rank, WHERE);
  if (!bar) {
    vtb__emu_async_read(f, shared, box.n_bytes, false, WHERE);
    box.group = f->store_group;
    vtb_vec_push(&f->stores, box);
    return;
  }
  if (!blocks) blocks = 1u << t->rank;
  if (blocks >> t->cluster)
    vtb__emu_fail_at(t, WHERE, "a copy to blocks %#x of a cluster of %d", blocks, t->cluster);
  for (int r = 0; r < t->cluster; r++) {
    if (!(blocks >> r & 1)) continue;
    box.shared = (char *)shared + (r - t->rank) * VTB_EMU_SHARED_STRIDE;
    expect_box(t, (char *)bar + (r - t->rank) * VTB_EMU_SHARED_STRIDE, &box, WHERE);
    box.again = true;
  }
  VTB__EMU_FRAME_STAYS;
}

void vtb__emu_send(vtb_emu_thread *t, void *to, const void *from, int n_bytes, void *bar) {
  vtb__emu_box box = {.shared = to, .n_bytes = n_bytes};
  memcpy(box.sent, from, (size_t)n_bytes);
  if ((uintptr_t)to % (unsigned)n_bytes) vtb__emu_fail_at(t, WHERE, "misaligned address");
  expect_box(t, bar, &box, WHERE);
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
      threads % VTB__EMU_WARP || threads > vtb__emu_block_threads(w))
    vtb__emu_fail_at(t, WHERE, "barrier %d of %d threads", number, threads);
  vtb__emu_part *p = &vtb__emu_hopper_of(w)->parts[t->rank][number];
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
  for (int i = 0; i < vtb__emu_block_threads(w); i++) {
    vtb__emu_fiber *g = vtb__emu_fiber_at(w, f->member->first + i);
    if (g->state != VTB__EMU_AT_PART || g->parity != number) continue;
    vtb__emu_learn(g, p->known);
    vtb__emu_resume(g);
  }
}

/* A block has the registers that it was launched with, as many a thread as there are for all. */
static int launched_with(const vtb__emu_worker *w) {
  int each = VTB__EMU_REGISTERS / vtb__emu_block_threads(w) / 8 * 8;
  return each < 256 ? each : 256;
}

void vtb__emu_registers(vtb_emu_thread *t, int n, int up, vtb_emu_place at) {
  vtb__emu_fiber *f = vtb__emu_fiber_of(t);
  vtb__emu_worker *w = f->worker;
  int has = f->registers ? f->registers : launched_with(w);
  f->at = at;
  if (up ? n < has : n > has)
    vtb__emu_fail_at(t, WHERE, "from %d registers %s to %d", has, up ? "up" : "down", n);
  while (n - has > f->member->spare_registers) vtb__emu_wait_in(f, VTB__EMU_AT_REGISTERS);
  f->registers = n;
  f->member->spare_registers -= n - has;
  for (int i = 0; i < vtb__emu_block_threads(w) && n < has; i++) {
    vtb__emu_fiber *g = vtb__emu_fiber_at(w, f->member->first + i);
    if (g->state == VTB__EMU_AT_REGISTERS) vtb__emu_resume(g);
  }
  VTB__EMU_FRAME_STAYS;
}

/* ---- clusters -------------------------------------------------------------------------------- */

void vtb__emu_cluster_arrive(vtb_emu_thread *t, vtb_emu_place at) {
  vtb__emu_fiber *f = vtb__emu_fiber_of(t);
  vtb__emu_worker *w = f->worker;
  vtb__emu_hopper *h = vtb__emu_hopper_of(w);
  if (f->has_arrived)
    vtb__emu_fail_at(t, WHERE, "arrives at the cluster's barrier twice without a wait");
  f->at = at;
  f->has_arrived = true;
  f->cluster_phase = h->cluster_phase;
  vtb__emu_leave(f, h->cluster_gathered);
  if (++h->n_at_cluster < w->n_threads) return;
  h->n_at_cluster = 0;
  h->cluster_phase++;
  vtb__emu_release(w, h->cluster_released, h->cluster_gathered);
  for (int i = 0; i < w->n_threads; i++)
    if (vtb__emu_fiber_at(w, i)->state == VTB__EMU_AT_CLUSTER)
      vtb__emu_resume(vtb__emu_fiber_at(w, i));
}

void vtb__emu_cluster_wait(vtb_emu_thread *t, vtb_emu_place at) {
  vtb__emu_fiber *f = vtb__emu_fiber_of(t);
  vtb__emu_hopper *h = vtb__emu_hopper_of(f->worker);
  if (!f->has_arrived)
    vtb__emu_fail_at(t, WHERE, "waits at the cluster's barrier without having arrived there");
  f->at = at;
  if (h->cluster_phase == f->cluster_phase) vtb__emu_wait_in(f, VTB__EMU_AT_CLUSTER);
  f->has_arrived = false;
  vtb__emu_learn(f, h->cluster_released);
  VTB__EMU_FRAME_STAYS;
}

/* ---- at a block's end ------------------------------------------------------------------------ */

bool vtb__emu_left_over(const vtb__emu_worker *w, int rank, char text[256]) {
  const vtb__emu_hopper *h = w->hopper;
  int n = w->n_warps / w->cluster;
  *text = 0;
  for (int i = 0; h && i < h->n_bars && !*text; i++) {
    const vtb__emu_mbar *b = &h->bars[i];
    if (vtb__emu_rank_of(w, b->at) != rank) continue;
    if (b->boxes.n)
      snprintf(text, 256, "copies to shared memory that nobody waited for");
    else if (b->missing != b->threads) /* its number of threads is not that of who arrives */
      snprintf(text, 256,
               "the mbarrier of %d threads that %s:%d initialises is within phase %u: %d have "
               "arrived",
               b->threads, b->init_at.file, b->init_at.line, b->phase, b->threads - b->missing);
  }
  for (int i = rank * n; h && i < (rank + 1) * n && !*text; i++)
    if (h->queues[i].ops.n) snprintf(text, 256, "a wgmma that nobody waited for");
  return *text;
}
