/* Shared memory as it is known: who wrote and read each two bytes, and when.
 *
 * Time is a counter that every barrier and every vtb_sync_warp advances. Two accesses by different
 * threads, one of them a write, are in order if the earlier one is older than the last barrier, or
 * than the last vtb_sync_warp if both threads are of one warp; else it is a race, also where this
 * run happened to execute them in the right order. Cells keep the last writer and the last reader,
 * a reader of many being remembered as "several".
 *
 * A cp.async takes its bytes' contents away when it is issued and brings the new ones at the wait,
 * so that a read without the wait is seen. Copies and wgmmas of the async proxy (hopper.c, wgmma.c)
 * do likewise; order that mbarriers make is in vectors of clocks (order.c).
 */
#include "codegen/emulator/hopper.h"

#include <string.h>

enum {
  COPYING = 0x8000,
  SEVERAL = 0x4000,
  WHOLE_BLOCK = 0x3fff
}; /* SEVERAL | warp, or SEVERAL | WHOLE_BLOCK */

static vtb__emu_cell *cell_of(const vtb__emu_worker *w, const void *p) {
  return &w->cells[((const char *)p - w->shared) / 2];
}

static const void *place_of(const vtb__emu_worker *w, const vtb__emu_cell *c) {
  return w->shared + (c - w->cells) * 2;
}

void vtb__emu_shadow_block(vtb__emu_worker *w) {
  if (!w->launch->emulator->checked) return;
  if (!w->cells) w->cells = vtb_xcalloc(VTB__EMU_CELLS, sizeof *w->cells);
  if (w->clock > 0x7fffffffu) {
    memset(w->cells, 0, VTB__EMU_CELLS * sizeof *w->cells);
    vtb__emu_hopper_free(w);
    w->clock = 0;
  }
  w->block_time = ++w->clock;
  for (int r = 0; r < w->cluster; r++) {
    vtb__emu_cell *first = cell_of(w, w->shared + r * VTB_EMU_SHARED_STRIDE);
    w->members[r].barrier_time = w->block_time;
    for (int i = 0; w->hopper && i < w->launch->what->shared_bytes / 2; i++) first[i].in_flight = 0;
  }
}

static bool same_block(const vtb__emu_fiber *f, int id) {
  return id >= f->member->first && id < f->member->first + vtb__emu_block_threads(f->worker);
}

/* An access by `who` (a thread, or SEVERAL) at `time` is known to have ended before thread f goes
 * on. */
static bool ordered(const vtb__emu_fiber *f, unsigned time, unsigned who) {
  const vtb__emu_worker *w = f->worker;
  if (who >= VTB__EMU_COPIER) return vtb__emu_knows(f, who, time);
  if (time < f->member->barrier_time && (w->cluster == 1 || same_block(f, (int)who))) return true;
  if (who == (unsigned)f->id) return true;
  if (who / VTB__EMU_WARP == (unsigned)f->id / VTB__EMU_WARP && time < f->warp->sync_time)
    return true;
  return vtb__emu_knows(f, who, time);
}

static unsigned *read_time_of(const vtb__emu_worker *w, const vtb__emu_cell *c, int warp) {
  return &w->hopper->read_time[(c - w->cells) * w->n_warps + warp];
}

/* A read of the cell by one of the warp, now. */
static void note_read(vtb__emu_worker *w, vtb__emu_cell *c, int warp) {
  c->read_time = w->clock;
  if (w->hopper) *read_time_of(w, c, warp) = w->clock;
}

/* f knows of all reads of the cell. */
static bool read_before(const vtb__emu_fiber *f, const vtb__emu_cell *c) {
  const vtb__emu_worker *w = f->worker;
  if (c->in_flight) return false;
  if (w->cluster == 1 && c->read_time < f->member->barrier_time) return true;
  if (!(c->reader & SEVERAL))
    return ordered(f, c->read_time, c->reader) || vtb__emu_knows_read(f, c->reader, c->read_time);
  for (uint64_t rest = c->warps; rest; rest &= rest - 1) {
    unsigned warp = (unsigned)__builtin_ctzll(rest), first = warp * VTB__EMU_WARP;
    unsigned time = w->hopper ? *read_time_of(w, c, (int)warp) : c->read_time;
    for (unsigned who = first; who < first + VTB__EMU_WARP; who++)
      if (!ordered(f, time, who) && !vtb__emu_knows_read(f, who, time)) return false;
  }
  return true;
}

static void describe_thread(const vtb__emu_fiber *f, unsigned who, char text[64]) {
  enum { n = 64 };
  if (!(who & SEVERAL) && (who & ~(unsigned)COPYING) >= VTB__EMU_COPIER)
    snprintf(text, n, "a copy to mbarrier %u", (who & ~(unsigned)COPYING) - VTB__EMU_COPIER);
  else if (!(who & SEVERAL))
    vtb__emu_name(f, (int)(who & ~(unsigned)COPYING), text);
  else if ((who & WHOLE_BLOCK) == WHOLE_BLOCK)
    snprintf(text, n, "several warps");
  else
    snprintf(text, n, "several threads of warp %u", who & WHOLE_BLOCK);
}

VTB_NORETURN static void race(vtb__emu_fiber *f, const void *frame, const vtb__emu_cell *c,
                              const char *what, unsigned who, const char *did) {
  char other[64], byte[64];
  describe_thread(f, who, other);
  vtb__emu_fail_at(&f->t, frame, "race on shared memory: %s %s, which %s %s since the last barrier",
                   what, vtb__emu_byte(f, place_of(f->worker, c), byte), other, did);
}

static unsigned merge_reader(vtb__emu_cell *c, unsigned before, unsigned tid) {
  unsigned warp = before & SEVERAL ? before & WHOLE_BLOCK : before / VTB__EMU_WARP;
  if (before == tid) return tid;
  if (!(before & SEVERAL)) c->warps = UINT64_C(1) << warp;
  c->warps |= UINT64_C(1) << tid / VTB__EMU_WARP;
  return SEVERAL | (warp == tid / VTB__EMU_WARP ? warp : WHOLE_BLOCK);
}

static void read_cell(vtb__emu_fiber *f, vtb__emu_cell *c, const void *frame) {
  vtb__emu_worker *w = f->worker;
  char byte[64];
  if (c->write_time < w->block_time)
    vtb__emu_fail_at(&f->t, frame, "read of shared memory nobody wrote: %s",
                     vtb__emu_byte(f, place_of(w, c), byte));
  if (c->writer & COPYING)
    vtb__emu_fail_at(&f->t, frame,
                     "read of shared memory that a copy without its wait is writing: %s",
                     vtb__emu_byte(f, place_of(w, c), byte));
  if (!ordered(f, c->write_time, c->writer)) race(f, frame, c, "reads", c->writer, "wrote");
  bool alone = c->read_time < w->block_time || read_before(f, c);
  c->reader =
      (unsigned short)(alone ? (unsigned)f->id : merge_reader(c, c->reader, (unsigned)f->id));
  note_read(w, c, f->id / VTB__EMU_WARP);
}

static void write_cell(vtb__emu_fiber *f, vtb__emu_cell *c, const void *frame) {
  const vtb__emu_worker *w = f->worker;
  char byte[64];
  if (c->write_time >= w->block_time && !ordered(f, c->write_time, c->writer & ~(unsigned)COPYING))
    race(f, frame, c, "writes", c->writer, "wrote");
  if (c->in_flight)
    vtb__emu_fail_at(&f->t, frame, "writes shared memory that a wgmma without its wait reads: %s",
                     vtb__emu_byte(f, place_of(w, c), byte));
  if (c->read_time >= w->block_time && !read_before(f, c))
    race(f, frame, c, "writes", c->reader, "read");
  c->write_time = w->clock;
  c->writer = (unsigned short)f->id;
}

void vtb__emu_touch(vtb__emu_fiber *f, const void *p, const void *frame) {
  vtb__emu_worker *w = f->worker;
  if (w->cluster == 1) return;
  int rank = vtb__emu_rank_of(w, p);
  if (rank == f->t.rank) return;
  vtb__emu_member *m = &w->members[rank];
  if (m->n_done == vtb__emu_block_threads(w))
    vtb__emu_fail_at(&f->t, frame, "block %d, whose shared memory this is, has ended",
                     w->block + rank);
  m->touched[f->id] = w->clock;
}

void vtb__emu_shared_read(vtb_emu_thread *t, const void *p, long n) {
  vtb__emu_fiber *f = vtb__emu_fiber_of(t);
  const void *frame = __builtin_frame_address(0);
  vtb__emu_cell *c = cell_of(f->worker, p), *end = cell_of(f->worker, (const char *)p + n + 1);
  vtb__emu_touch(f, p, frame);
  for (; c < end; c++) read_cell(f, c, frame);
}

static void write_cells(vtb__emu_fiber *f, void *p, long n, const void *frame) {
  vtb__emu_cell *c = cell_of(f->worker, p), *end = cell_of(f->worker, (char *)p + n + 1);
  for (; c < end; c++) write_cell(f, c, frame);
}

void vtb__emu_shared_write(vtb_emu_thread *t, void *p, long n) {
  vtb__emu_touch(vtb__emu_fiber_of(t), p, __builtin_frame_address(0));
  write_cells(vtb__emu_fiber_of(t), p, n, __builtin_frame_address(0));
  __asm__ volatile(""); /* no tail call: the frame stays, errors find their line by it */
}

/* ---- asynchronous copies --------------------------------------------------------------------- */

void vtb__emu_async_copy(vtb_emu_thread *t, void *shared, const void *from, int n_bytes) {
  vtb__emu_fiber *f = vtb__emu_fiber_of(t);
  if (f->worker->launch->emulator->checked) {
    write_cells(f, shared, n_bytes, __builtin_frame_address(0));
    for (int i = 0; i < n_bytes; i += 2) cell_of(f->worker, (char *)shared + i)->writer |= COPYING;
  }
  memset(shared, 0xff, (size_t)n_bytes);
  vtb_vec_push(&f->copies, ((vtb__emu_copy){shared, from, n_bytes, f->async_group}));
}

void vtb__emu_async_commit(vtb_emu_thread *t) { vtb__emu_fiber_of(t)->async_group++; }

void vtb__emu_async_wait(vtb_emu_thread *t, int n_groups_left) {
  vtb__emu_fiber *f = vtb__emu_fiber_of(t);
  vtb__emu_worker *w = f->worker;
  size_t kept = 0;
  for (size_t i = 0; i < f->copies.n; i++) {
    vtb__emu_copy *c = &f->copies.at[i];
    if (c->group >= f->async_group - n_groups_left) {
      f->copies.at[kept++] = *c;
      continue;
    }
    if (c->from)
      memcpy(c->to, c->from, (size_t)c->n_bytes);
    else
      memset(c->to, 0, (size_t)c->n_bytes);
    for (int b = 0; b < c->n_bytes && w->launch->emulator->checked; b += 2) {
      vtb__emu_cell *cell = cell_of(w, c->to + b);
      cell->writer = (unsigned short)f->id;
      cell->write_time = w->clock;
    }
  }
  f->copies.n = kept;
}

/* ---- the async proxy ------------------------------------------------------------------------- */

static bool is_checked(const vtb__emu_worker *w) { return w->launch->emulator->checked; }

void vtb__emu_async_take(vtb__emu_fiber *f, void *p, long n, const void *frame) {
  if (!is_checked(f->worker)) return;
  write_cells(f, p, n, frame);
  for (long i = 0; i < n; i += 2) cell_of(f->worker, (char *)p + i)->writer |= COPYING;
}

void vtb__emu_async_give(vtb__emu_worker *w, void *p, long n, unsigned writer) {
  if (!is_checked(w)) return;
  for (long i = 0; i < n; i += 2) {
    vtb__emu_cell *c = cell_of(w, (char *)p + i);
    c->writer = (unsigned short)writer;
    c->write_time = w->clock;
  }
}

/* Threads' own stores must have been made visible by who stored, before the barrier. */
static void check_fence(vtb__emu_fiber *f, const vtb__emu_cell *c, const void *p,
                        const void *frame) {
  if (c->writer >= VTB__EMU_COPIER) return;
  const unsigned *fences = vtb__emu_hopper_of(f->worker)->fence_time[c->writer];
  char who[64], byte[64];
  for (int i = 0; i < 2; i++)
    if (c->write_time < fences[i] && ordered(f, fences[i] - 1, c->writer)) return;
  vtb__emu_fail_at(&f->t, frame,
                   "the async proxy reads what %s stored without vtb_async_fence(): %s",
                   vtb__emu_name(f, c->writer, who), vtb__emu_byte(f, p, byte));
}

void vtb__emu_async_read(vtb__emu_fiber *f, const void *p, long n, bool goes_on,
                         const void *frame) {
  vtb__emu_worker *w = f->worker;
  if (!is_checked(w)) return;
  for (long i = 0; i < n; i += 2) {
    vtb__emu_cell *c = cell_of(w, (const char *)p + i);
    const char *at = (const char *)p + i;
    uint64_t in_flight = c->in_flight;
    read_cell(f, c, frame);
    check_fence(f, c, at, frame);
    if (goes_on) c->in_flight = in_flight | UINT64_C(1) << f->id / VTB__EMU_WARP;
  }
}

void vtb__emu_async_read_done(vtb__emu_worker *w, int warp, const void *p, long n) {
  if (!is_checked(w)) return;
  for (long i = 0; i < n; i += 2) {
    vtb__emu_cell *c = cell_of(w, (const char *)p + i);
    uint64_t mine = UINT64_C(1) << warp;
    c->in_flight &= ~mine;
    c->warps = c->reader & SEVERAL ? c->warps | mine : mine;
    c->reader = (unsigned short)(SEVERAL | (c->warps == mine ? warp : WHOLE_BLOCK));
    note_read(w, c, warp);
  }
}
