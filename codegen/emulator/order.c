/* The order that threads know where no barrier of the whole block tells it: see hopper.h. */
#include <string.h>

#include "codegen/emulator/hopper.h"

/* In rows of another length the times that are there are old all the same. */
static void reserve_times(vtb__emu_worker *w) {
  vtb__emu_hopper *h = w->hopper;
  size_t n = (size_t)w->n_warps * (size_t)w->cluster * VTB__EMU_MAX_SHARED / 2;
  if (n <= h->n_read_times) return;
  vtb_free(h->read_time);
  h->read_time = vtb_xcalloc(n, sizeof *h->read_time);
  h->n_read_times = n;
}

vtb__emu_hopper *vtb__emu_hopper_of(vtb__emu_worker *w) {
  if (w->hopper) return w->hopper;
  vtb__emu_hopper *h = w->hopper = vtb_xcalloc(1, sizeof *h);
  h->seen = vtb_xcalloc(VTB__EMU_MAX_THREADS, sizeof *h->seen);
  h->over = vtb_xcalloc(VTB__EMU_MAX_THREADS, sizeof *h->over);
  h->bars = vtb_xcalloc(VTB__EMU_MBARS, sizeof *h->bars);
  reserve_times(w);
  return h;
}

/* Times of the block before are older than this block's first. */
void vtb__emu_hopper_block(vtb__emu_worker *w) {
  vtb__emu_hopper *h = w->cluster > 1 ? vtb__emu_hopper_of(w) : w->hopper;
  if (!h) return;
  reserve_times(w);
  for (int i = 0; i < h->n_bars; i++) h->bars[i].boxes.n = 0;
  h->n_bars = 0;
  for (int i = 0; i < w->cluster * VTB__EMU_PARTS; i++)
    h->parts[i / VTB__EMU_PARTS][i % VTB__EMU_PARTS].n = 0;
  h->n_at_cluster = 0;
  h->cluster_phase = 0;
  memset(h->cluster_gathered, 0, sizeof h->cluster_gathered);
  for (int i = 0; i < w->n_warps; i++) {
    h->queues[i].ops.n = 0;
    h->queues[i].group = 0;
    h->queues[i].fenced = false;
    for (int a = 0; h->queues[i].acc && a < VTB__EMU_ACCS; a++) h->queues[i].acc[a].uses = 0;
  }
}

void vtb__emu_hopper_free(vtb__emu_worker *w) {
  vtb__emu_hopper *h = w->hopper;
  if (!h) return;
  for (int i = 0; i < VTB__EMU_MBARS; i++) vtb_vec_free(&h->bars[i].boxes);
  for (int i = 0; i < VTB__EMU_MAX_WARPS; i++) {
    vtb_vec_free(&h->queues[i].ops);
    vtb_free(h->queues[i].acc);
  }
  vtb_free(h->bars);
  vtb_free(h->read_time);
  vtb_free(h->seen);
  vtb_free(h->over);
  vtb_free(h);
  w->hopper = NULL;
}

static void join_range(unsigned *to, const unsigned *from, int first, int n) {
  for (int i = first; i < first + n; i++)
    if (to[i] < from[i]) to[i] = from[i];
}

/* Joins the times of other threads up to the cluster's last one, and of the copies of mbarriers. */
static void join(const vtb__emu_worker *w, unsigned *to, const unsigned *from) {
  join_range(to, from, 0, w->n_threads);
  join_range(to, from, VTB__EMU_COPIER, w->hopper->n_bars);
}

void vtb__emu_release(const vtb__emu_worker *w, unsigned *to, unsigned *from) {
  size_t threads = (size_t)w->n_threads * sizeof *to,
         copiers = (size_t)w->hopper->n_bars * sizeof *to;
  memcpy(to, from, threads);
  memset(from, 0, threads);
  memcpy(to + VTB__EMU_COPIER, from + VTB__EMU_COPIER, copiers);
  memset(from + VTB__EMU_COPIER, 0, copiers);
}

void vtb__emu_leave(vtb__emu_fiber *f, unsigned *to) {
  vtb__emu_worker *w = f->worker;
  vtb__emu_hopper *h = vtb__emu_hopper_of(w);
  int first = f->id / VTB__EMU_WARP * VTB__EMU_WARP, of_block = f->member->first;
  unsigned now = ++w->clock, barrier = f->member->barrier_time;
  join(w, to, h->seen[f->id]);
  for (int i = first; i < first + VTB__EMU_WARP; i++)
    if (to[i] < f->warp->sync_time) to[i] = f->warp->sync_time;
  if (to[f->id] < now) to[f->id] = now;
  if (w->cluster == 1) return; /* everybody knows of the block's barriers */
  for (int i = of_block; i < of_block + vtb__emu_block_threads(w); i++)
    if (to[i] < barrier) to[i] = barrier;
}

void vtb__emu_learn(vtb__emu_fiber *f, const unsigned *from) {
  join(f->worker, vtb__emu_hopper_of(f->worker)->seen[f->id], from);
}

void vtb__emu_learn_own(vtb__emu_fiber *f, const unsigned *from) {
  vtb__emu_hopper *h = vtb__emu_hopper_of(f->worker);
  join_range(h->seen[f->id], from, f->member->first, vtb__emu_block_threads(f->worker));
  join_range(h->seen[f->id], from, VTB__EMU_COPIER, h->n_bars);
}

void vtb__emu_learn_reads(vtb__emu_fiber *f, const unsigned *from) {
  join_range(vtb__emu_hopper_of(f->worker)->over[f->id], from, 0, f->worker->n_threads);
}

void vtb__emu_join_block(const vtb__emu_fiber *f) {
  const vtb__emu_worker *w = f->worker;
  const vtb__emu_hopper *h = w->hopper;
  int first = f->member->first, end = first + vtb__emu_block_threads(w);
  if (w->cluster > 1) {
    for (int t = first + 1; t < end; t++) join(w, h->seen[first], h->seen[t]);
    for (int t = first + 1; t < end; t++) join(w, h->seen[t], h->seen[first]);
    return;
  }
  for (int i = VTB__EMU_COPIER; h && i < VTB__EMU_COPIER + h->n_bars; i++) {
    unsigned latest = 0;
    for (int t = 0; t < w->n_threads; t++)
      if (latest < h->seen[t][i]) latest = h->seen[t][i];
    for (int t = 0; t < w->n_threads; t++) h->seen[t][i] = latest;
  }
}

void vtb__emu_join_warp(vtb__emu_worker *w, vtb__emu_warp *warp) {
  vtb__emu_hopper *h = w->hopper;
  if (!h) return;
  unsigned *all = h->seen[warp->lane[0]->id];
  for (int i = 1; i < VTB__EMU_WARP; i++) join(w, all, h->seen[warp->lane[i]->id]);
  for (int i = 1; i < VTB__EMU_WARP; i++) join(w, h->seen[warp->lane[i]->id], all);
}

bool vtb__emu_knows(const vtb__emu_fiber *f, unsigned who, unsigned time) {
  const vtb__emu_hopper *h = f->worker->hopper;
  return h && who < VTB__EMU_SLOTS && time < h->seen[f->id][who];
}

bool vtb__emu_knows_read(const vtb__emu_fiber *f, unsigned who, unsigned time) {
  const vtb__emu_hopper *h = f->worker->hopper;
  return vtb__emu_knows(f, who, time) || (h && who < VTB__EMU_COPIER && time < h->over[f->id][who]);
}

/* ---- names in messages ----------------------------------------------------------------------- */

const char *vtb__emu_byte(const vtb__emu_fiber *f, const void *p, char text[64]) {
  const vtb__emu_worker *w = f->worker;
  long at = ((const char *)p - w->shared) % VTB_EMU_SHARED_STRIDE;
  int rank = vtb__emu_rank_of(w, p);
  if (rank == f->t.rank)
    snprintf(text, 64, "byte %ld", at);
  else
    snprintf(text, 64, "byte %ld of block %d", at, w->block + rank);
  return text;
}

const char *vtb__emu_name(const vtb__emu_fiber *f, int id, char text[64]) {
  const vtb__emu_worker *w = f->worker;
  int n = vtb__emu_block_threads(w);
  if (id / n == f->t.rank)
    snprintf(text, 64, "thread %d", id % n);
  else
    snprintf(text, 64, "thread %d of block %d", id % n, w->block + id / n);
  return text;
}
