/* What threads know of each other where no barrier of the whole block tells it: see hopper.h. */
#include <string.h>

#include "codegen/emulator/hopper.h"

vtb__emu_hopper *vtb__emu_hopper_of(vtb__emu_worker *w) {
  if (w->hopper) return w->hopper;
  vtb__emu_hopper *h = w->hopper = vtb_xcalloc(1, sizeof *h);
  h->seen = vtb_xcalloc(VTB__EMU_MAX_THREADS, sizeof *h->seen);
  h->read_time = vtb_xcalloc(VTB__EMU_MAX_SHARED / 2, sizeof *h->read_time);
  h->bars = vtb_xcalloc(VTB__EMU_MBARS, sizeof *h->bars);
  return h;
}

/* Times of the block before are older than this block's first. */
void vtb__emu_hopper_block(vtb__emu_worker *w) {
  vtb__emu_hopper *h = w->hopper;
  if (!h) return;
  for (int i = 0; i < h->n_bars; i++) h->bars[i].boxes.n = 0;
  h->n_bars = 0;
  for (int i = 0; i < VTB__EMU_PARTS; i++) h->parts[i].n = 0;
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
  for (int i = 0; i < VTB__EMU_MAX_THREADS / VTB__EMU_WARP; i++) {
    vtb_vec_free(&h->queues[i].ops);
    vtb_free(h->queues[i].acc);
  }
  vtb_free(h->bars);
  vtb_free(h->read_time);
  vtb_free(h->seen);
  vtb_free(h);
}

static int n_slots(const vtb__emu_worker *w) { return w->n_threads; }

/* Of other threads up to the block's last one, and of the copies of mbarriers. */
static void join(const vtb__emu_worker *w, unsigned *to, const unsigned *from) {
  for (int i = 0; i < n_slots(w); i++)
    if (to[i] < from[i]) to[i] = from[i];
  for (int i = VTB__EMU_COPIER; i < VTB__EMU_COPIER + w->hopper->n_bars; i++)
    if (to[i] < from[i]) to[i] = from[i];
}

void vtb__emu_leave(vtb__emu_fiber *f, unsigned *to) {
  vtb__emu_worker *w = f->worker;
  vtb__emu_hopper *h = vtb__emu_hopper_of(w);
  int first = f->t.tid / VTB__EMU_WARP * VTB__EMU_WARP;
  unsigned now = ++w->clock;
  join(w, to, h->seen[f->t.tid]);
  for (int i = first; i < first + VTB__EMU_WARP; i++)
    if (to[i] < f->warp->sync_time) to[i] = f->warp->sync_time;
  if (to[f->t.tid] < now) to[f->t.tid] = now;
}

void vtb__emu_learn(vtb__emu_fiber *f, const unsigned *from) {
  join(f->worker, vtb__emu_hopper_of(f->worker)->seen[f->t.tid], from);
}

void vtb__emu_join_block(vtb__emu_worker *w) {
  const vtb__emu_hopper *h = w->hopper;
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
  unsigned *all = h->seen[warp->lane[0]->t.tid];
  for (int i = 1; i < VTB__EMU_WARP; i++) join(w, all, h->seen[warp->lane[i]->t.tid]);
  for (int i = 1; i < VTB__EMU_WARP; i++) join(w, h->seen[warp->lane[i]->t.tid], all);
}

bool vtb__emu_knows(const vtb__emu_fiber *f, unsigned who, unsigned time) {
  const vtb__emu_hopper *h = f->worker->hopper;
  return h && who < VTB__EMU_SLOTS && time < h->seen[f->t.tid][who];
}
