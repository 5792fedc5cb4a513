/* Counts of accesses: see count.h. */
#include "codegen/emulator/count.h"

#include <string.h>

enum { SECTOR = 32, LINE_SECTORS = 4, BANKS = 32, MAX_FRAMES = 8, MAX_WARPS = VTB__EMU_MAX_WARPS };
/* Code of one library lies closer together than that, and other code farther away. */
static const uintptr_t NEAR = (uintptr_t)1 << 26;
/* A queue that grew beyond this many accesses gives its memory back. */
enum { KEPT_ACCESSES = 4096 };

typedef struct warp_access {
  uint32_t lanes;
  uintptr_t at[VTB__EMU_WARP];
} warp_access;

/* The accesses of one warp's lanes at one place since its last event. */
typedef struct queue {
  uint32_t n[VTB__EMU_WARP]; /* times that each lane came */
  VTB_VEC(warp_access) list;
} queue;

typedef struct place {
  uint64_t key;
  int kind, bytes, n_frames;
  const void *frames[MAX_FRAMES];
  int64_t sectors, ideal;
  queue *queues; /* one a warp */
} place;

typedef struct touched { /* by a block: a sector, and which of its bytes */
  uint64_t key;          /* number of the sector * 2, + 1 if written; 0: empty */
  uint32_t bytes;
} touched;

struct vtb__emu_count {
  vtb_emulator_counts *to;
  VTB_VEC(place) places;
  int32_t *slots; /* by key: number of the place + 1 */
  size_t n_slots;
  touched *sectors; /* of the block */
  size_t n_sectors, most_sectors;
  uint32_t used[MAX_WARPS]; /* threads that accessed memory */
};

vtb__emu_count *vtb__emu_count_new(vtb_emulator_counts *to) {
  vtb__emu_count *c = vtb_xcalloc(1, sizeof *c);
  c->to = to;
  c->n_slots = 1024;
  c->slots = vtb_xcalloc(c->n_slots, sizeof *c->slots);
  c->most_sectors = 4096;
  c->sectors = vtb_xcalloc(c->most_sectors, sizeof *c->sectors);
  return c;
}

void vtb__emu_count_free(vtb__emu_count *c) {
  if (!c) return;
  for (size_t i = 0; i < c->places.n; i++) {
    for (int w = 0; w < MAX_WARPS; w++) vtb_vec_free(&c->places.at[i].queues[w].list);
    vtb_free(c->places.at[i].queues);
  }
  vtb_vec_free(&c->places);
  vtb_free(c->slots);
  vtb_free(c->sectors);
  vtb_free(c);
}

/* ---- places ---------------------------------------------------------------------------------- */

static size_t slot_of(const vtb__emu_count *c, uint64_t key) {
  size_t i = (size_t)(key >> 20) & (c->n_slots - 1);
  while (c->slots[i] && c->places.at[c->slots[i] - 1].key != key) i = (i + 1) & (c->n_slots - 1);
  return i;
}

static void grow_slots(vtb__emu_count *c) {
  vtb_free(c->slots);
  c->n_slots *= 2;
  c->slots = vtb_xcalloc(c->n_slots, sizeof *c->slots);
  for (size_t i = 0; i < c->places.n; i++)
    c->slots[slot_of(c, c->places.at[i].key)] = (int32_t)i + 1;
}

/* Return addresses inside the kernel's library, innermost first; libraries are compiled with frame
 * pointers. */
static int collect(const void *frame, const void *stack_end, uintptr_t kernel,
                   const void *frames[MAX_FRAMES]) {
  int n = 0;
  for (const void *const *f = frame; n < MAX_FRAMES;) {
    if ((uintptr_t)f[1] - (kernel - NEAR) > 2 * NEAR) break;
    frames[n++] = f[1];
    const void *const *next = *f;
    if (next <= f || (const void *)(next + 2) > stack_end) break;
    f = next;
  }
  return n;
}

static place *find_place(vtb__emu_count *c, int kind, int bytes, const void *const *frames, int n) {
  uint64_t key = (uint64_t)kind << 8 | (uint64_t)bytes;
  for (int i = 0; i < n; i++) {
    key = (key ^ (uintptr_t)frames[i]) * UINT64_C(0x9e3779b97f4a7c15);
    key ^= key >> 29;
  }
  size_t slot = slot_of(c, key);
  if (c->slots[slot]) return &c->places.at[c->slots[slot] - 1];
  if (2 * c->places.n > c->n_slots) {
    grow_slots(c);
    slot = slot_of(c, key);
  }
  place p = {.key = key, .kind = kind, .bytes = bytes, .n_frames = n};
  memcpy(p.frames, frames, (size_t)n * sizeof *frames);
  p.queues = vtb_xcalloc(MAX_WARPS, sizeof *p.queues);
  vtb_vec_push(&c->places, p);
  c->slots[slot] = (int32_t)c->places.n;
  return &c->places.at[c->places.n - 1];
}

void vtb__emu_access(vtb_emu_thread *t, int kind, const void *p, long n_bytes) {
  vtb__emu_worker *w = vtb__emu_fiber_of(t)->worker;
  const void *frames[MAX_FRAMES];
  int n = collect(__builtin_frame_address(0), t, (uintptr_t)w->launch->kernel, frames);
  place *at = find_place(w->count, kind, (int)n_bytes, frames, n);
  int lane = t->tid % VTB__EMU_WARP, warp = vtb__emu_fiber_of(t)->id / VTB__EMU_WARP;
  queue *q = &at->queues[warp];
  uint32_t k = q->n[lane]++;
  if (k >= q->list.n) vtb_vec_push(&q->list, ((warp_access){0}));
  q->list.at[k].lanes |= 1u << lane;
  q->list.at[k].at[lane] = (uintptr_t)p - (kind >= VTB_EMU_SHARED_READ ? (uintptr_t)w->shared : 0);
  w->count->used[warp] |= 1u << lane;
  w->count->to->lane_accesses++;
}

/* ---- global memory --------------------------------------------------------------------------- */

static touched *find_sector(touched *list, size_t n, uint64_t key) {
  size_t i = (size_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 24) & (n - 1);
  while (list[i].key && list[i].key != key) i = (i + 1) & (n - 1);
  return &list[i];
}

static void grow_sectors(vtb__emu_count *c) {
  size_t most = 2 * c->most_sectors;
  touched *list = vtb_xcalloc(most, sizeof *list);
  for (size_t i = 0; i < c->most_sectors; i++)
    if (c->sectors[i].key) *find_sector(list, most, c->sectors[i].key) = c->sectors[i];
  vtb_free(c->sectors);
  c->sectors = list;
  c->most_sectors = most;
}

static void touch(vtb__emu_count *c, uint64_t key, uint32_t bytes) {
  if (2 * c->n_sectors > c->most_sectors) grow_sectors(c);
  touched *s = find_sector(c->sectors, c->most_sectors, key);
  c->n_sectors += s->key == 0;
  s->key = key;
  s->bytes |= bytes;
}

static int64_t sectors_for(int64_t bytes) { return (bytes + SECTOR - 1) / SECTOR; }

/* The distinct sectors of an access and which bytes of them are wanted. An access of up to 16
 * aligned bytes lies in one. */
static int distinct(const warp_access *a, int bytes, touched list[VTB__EMU_WARP]) {
  int n = 0;
  for (uint32_t rest = a->lanes; rest; rest &= rest - 1) {
    uintptr_t at = a->at[__builtin_ctz(rest)];
    uint32_t mask = (uint32_t)((UINT64_C(1) << bytes) - 1) << at % SECTOR;
    int i = n;
    while (i > 0 && list[i - 1].key != at / SECTOR) i--;
    if (i == 0) list[n++] = (touched){at / SECTOR, 0}, i = n;
    list[i - 1].bytes |= mask;
  }
  return n;
}

static void count_global(vtb__emu_count *c, place *p, const warp_access *a) {
  touched list[VTB__EMU_WARP];
  int n = distinct(a, p->bytes, list), lines = 0;
  int64_t useful = 0;
  for (int i = 0; i < n; i++) {
    bool new_line = true;
    for (int k = 0; k < i && new_line; k++)
      new_line = list[k].key / LINE_SECTORS != list[i].key / LINE_SECTORS;
    lines += new_line;
    useful += __builtin_popcount(list[i].bytes);
    touch(c, list[i].key * 2 + (p->kind == VTB_EMU_WRITE), list[i].bytes);
  }
  c->to->accesses++;
  c->to->sectors += n;
  c->to->lines += lines;
  c->to->useful += useful;
  c->to->ideal += sectors_for(useful);
  p->sectors += n;
  p->ideal += sectors_for(useful);
}

void vtb__emu_count_row(vtb__emu_count *c, bool write, const char *begin, const char *end) {
  if (begin == end) return;
  uintptr_t first = (uintptr_t)begin / SECTOR, last = ((uintptr_t)end - 1) / SECTOR;
  for (uintptr_t s = first; s <= last; s++) {
    uintptr_t from = s == first ? (uintptr_t)begin % SECTOR : 0,
              to = s == last ? ((uintptr_t)end - 1) % SECTOR + 1 : SECTOR;
    touch(c, s * 2 + write, (uint32_t)(((UINT64_C(1) << (to - from)) - 1) << from));
  }
  c->to->accesses++;
  c->to->boxes++;
  c->to->sectors += (int64_t)(last - first) + 1;
  c->to->lines += (int64_t)(last / LINE_SECTORS - first / LINE_SECTORS) + 1;
  c->to->useful += end - begin;
  c->to->ideal += sectors_for(end - begin);
}

/* ---- shared memory --------------------------------------------------------------------------- */

/* Lanes `from` to `to` at once: as many wavefronts as a bank is asked for different words. */
static int phase(const warp_access *a, int from, int to, int bytes) {
  uintptr_t words[4 * VTB__EMU_WARP];
  int n = 0, of_bank[BANKS] = {0}, most = 0;
  for (int lane = from; lane < to; lane++) {
    if (!(a->lanes >> lane & 1)) continue;
    for (uintptr_t word = a->at[lane] / 4; word <= (a->at[lane] + (uintptr_t)bytes - 1) / 4;
         word++) {
      bool known = false;
      for (int i = n; i-- > 0 && !known;) known = words[i] == word;
      if (known) continue;
      words[n++] = word;
      if (++of_bank[word % BANKS] > most) most = of_bank[word % BANKS];
    }
  }
  return most;
}

static void count_shared(vtb__emu_count *c, const place *p, const warp_access *a) {
  int together = p->bytes <= 4 ? VTB__EMU_WARP : 4 * VTB__EMU_WARP / p->bytes;
  c->to->shared++;
  for (int from = 0; from < VTB__EMU_WARP; from += together) {
    int wavefronts = phase(a, from, from + together, p->bytes);
    c->to->wavefronts += wavefronts;
    c->to->least_wavefronts += wavefronts > 0;
  }
}

/* ---- events ---------------------------------------------------------------------------------- */

static void count_queue(vtb__emu_count *c, place *p, queue *q) {
  for (size_t i = 0; i < q->list.n; i++) {
    const warp_access *a = &q->list.at[i];
    c->to->partial += a->lanes != UINT32_MAX;
    c->to->lanes += __builtin_popcount(a->lanes);
    if (p->kind >= VTB_EMU_SHARED_READ)
      count_shared(c, p, a);
    else
      count_global(c, p, a);
  }
  if (q->list.n > KEPT_ACCESSES) vtb_vec_free(&q->list);
  q->list.n = 0;
  memset(q->n, 0, sizeof q->n);
}

void vtb__emu_count_warp(vtb__emu_count *c, int warp) {
  for (size_t i = 0; i < c->places.n; i++) {
    queue *q = &c->places.at[i].queues[warp];
    if (q->list.n) count_queue(c, &c->places.at[i], q);
  }
}

void vtb__emu_count_barrier(const vtb__emu_worker *w, int rank) {
  int n = w->n_warps / w->cluster;
  for (int i = rank * n; i < (rank + 1) * n; i++) vtb__emu_count_warp(w->count, i);
}

/* Counts places that a block, or all of them, touched. */
static void count_touched(vtb__emu_count *c) {
  int64_t useful = 0;
  for (size_t i = 0; i < c->most_sectors; i++)
    if (c->sectors[i].key) useful += __builtin_popcount(c->sectors[i].bytes);
  c->to->block_sectors += (int64_t)c->n_sectors;
  c->to->block_useful += useful;
  c->to->block_ideal += sectors_for(useful);
  memset(c->sectors, 0, c->most_sectors * sizeof *c->sectors);
  c->n_sectors = 0;
}

void vtb__emu_count_cluster(vtb__emu_worker *w) {
  vtb__emu_count *c = w->count;
  for (int r = 0; r < w->cluster; r++) vtb__emu_count_barrier(w, r);
  c->to->blocks += w->cluster;
  c->to->threads += w->n_threads;
  for (int i = 0; i < w->n_warps; i++)
    c->to->idle += VTB__EMU_WARP - __builtin_popcount(c->used[i]);
  memset(c->used, 0, sizeof c->used);
  if (!c->to->whole) count_touched(c);
}

void vtb__emu_count_end(vtb__emu_count *c, vtb_emulator *e) {
  const place *worst = NULL;
  if (c->to->whole) count_touched(c);
  for (size_t i = 0; i < c->places.n; i++) {
    const place *p = &c->places.at[i];
    if (p->sectors > 2 * p->ideal &&
        (!worst || p->sectors - p->ideal > worst->sectors - worst->ideal))
      worst = p;
  }
  if (!worst) return;
  const void *chain[2 * MAX_FRAMES + 2] = {NULL}; /* frames as vtb__emu_locate() walks them */
  for (int i = 0; i < worst->n_frames; i++) {
    chain[2 * i] = i + 1 < worst->n_frames ? &chain[2 * i + 2] : NULL;
    chain[2 * i + 1] = worst->frames[i];
  }
  c->to->worst_sectors = worst->sectors;
  c->to->worst_ideal = worst->ideal;
  vtb__emu_locate(e, chain, chain + 2 * MAX_FRAMES + 2, c->to->worst, sizeof c->to->worst);
}
