/* Who waits for whom, and what comes meanwhile: barriers, mbarriers, copies of boxes, stores to
 * other blocks, fences, registers that warps hand on. */
#include <stdlib.h>
#include <string.h>

#include "tests/codegen/ptx/ptx.h"

#define M ptx_the_machine

/* ---- barriers of threads --------------------------------------------------------------------- */

void ptx_bar_sync(ptx_thread *t, const ptx_instruction *i) {
  uint64_t number = ptx_get(t, i->arg[0].item, 4), threads = ptx_get(t, i->arg[1].item, 4);
  if (number >= PTX_PARTS || !threads || threads % PTX_WARP ||
      threads > (uint64_t)M.launch->threads)
    ptx_fault("barrier %d of %d threads", (int)number, (int)threads);
  ptx_barrier *b = &ptx_block_of(t)->part[number];
  if (b->n && b->threads != (int)threads) ptx_fault("barrier %d of different sizes", (int)number);
  b->threads = (int)threads;
  unsigned phase = b->phase;
  if (++b->n == b->threads) {
    b->n = 0;
    b->phase++;
    ptx_changed();
  }
  while (b->phase == phase) ptx_wait(t, PTX_SPINS);
}

void ptx_cluster_arrive(ptx_thread *t, const ptx_instruction *i) {
  if (t->arrived) ptx_fault("arrives twice");
  t->arrived = true;
  t->cluster_phase = M.cluster_phase;
  if (!ptx_has(i, "relaxed")) ptx_release(ptx_block_of(t));
  if (++M.n_at_cluster < M.n_threads) return;
  M.n_at_cluster = 0;
  M.cluster_phase++;
  ptx_changed();
}

void ptx_cluster_wait(ptx_thread *t, const ptx_instruction *i) {
  (void)i;
  if (!t->arrived) ptx_fault("waits without having arrived");
  while (t->cluster_phase == M.cluster_phase) ptx_wait(t, PTX_SPINS);
  t->arrived = false;
}

/* All warps begin with as many registers as fit; what some give back others may take. */
void ptx_setmaxnreg(ptx_thread *const *lane, const ptx_instruction *i) {
  int wanted = (int)ptx_get(lane[0], i->arg[0].item, 4), more = wanted - lane[0]->n_registers;
  if (wanted < 24 || wanted > 256 || wanted % 8) ptx_fault("%d registers", wanted);
  if (more && (more > 0) != ptx_has(i, "inc"))
    ptx_fault("%d registers, of %d", wanted, lane[0]->n_registers);
  ptx_block *b = ptx_block_of(lane[0]);
  while (more * PTX_WARP > b->registers_left) ptx_wait(M.current, PTX_SPINS);
  b->registers_left -= more * PTX_WARP;
  for (int l = 0; l < PTX_WARP; l++) lane[l]->n_registers = wanted;
  ptx_changed();
}

/* ---- mbarriers ------------------------------------------------------------------------------- */

static ptx_mbarrier *at_place(ptx_place p, bool make) {
  ptx_mbarrier *unused = NULL;
  for (int k = 0; k < PTX_MBARRIERS; k++) {
    ptx_mbarrier *b = &M.block[p.block].mbarrier[k];
    if (b->used && b->at == p.at) return b;
    if (!b->used && !unused) unused = b;
  }
  if (!make || !unused) ptx_fault("no mbarrier at byte %d of block %d", p.at, p.block);
  return unused;
}

/* Of another block, or for the async proxy: only behind fence.mbarrier_init. */
static ptx_mbarrier *seen_by(const ptx_thread *t, ptx_place p) {
  ptx_mbarrier *b = at_place(p, false);
  if ((!t || p.block != t->rank) && !b->seen_by_others)
    ptx_fault("an mbarrier whose initialisation is not seen yet");
  return b;
}

static void try_end(ptx_mbarrier *b) {
  if (b->pending || b->bytes) return;
  b->phase++;
  b->pending = b->threads;
  ptx_changed();
}

static void arrive(ptx_mbarrier *b, long bytes) {
  if (!b->pending) ptx_fault("more arrivals than threads");
  b->bytes += bytes;
  b->pending--;
  try_end(b);
}

static void bytes_come(ptx_mbarrier *b, long bytes) {
  b->bytes -= bytes;
  if (labs(b->bytes) >= 1 << 20) ptx_fault("more bytes than an mbarrier counts");
  try_end(b);
}

void ptx_mbar_init(ptx_thread *t, const ptx_instruction *i) {
  uint64_t n = ptx_get(t, i->arg[1].item, 4);
  ptx_place p = ptx_shared(t, i->arg[0].item, 8, 8, false);
  if (!n || n >= 1 << 20) ptx_fault("%d threads", (int)n);
  *at_place(p, true) =
      (ptx_mbarrier){.used = true, .at = p.at, .threads = (int)n, .pending = (int)n};
}

void ptx_mbar_arrive(ptx_thread *t, const ptx_instruction *i) {
  ptx_place p = ptx_shared(t, i->arg[1].item, 8, 8, ptx_has(i, "shared::cluster"));
  if (p.block != t->rank && i->arg[0].item->kind != PTX_SINK)
    ptx_fault("the state of another block's mbarrier");
  if (ptx_has(i, "cluster") && !ptx_has(i, "relaxed")) ptx_release(ptx_block_of(t));
  arrive(seen_by(t, p), 0);
}

void ptx_mbar_expect(ptx_thread *t, const ptx_instruction *i) {
  ptx_place p = ptx_shared(t, i->arg[1].item, 8, 8, ptx_has(i, "shared::cluster"));
  arrive(seen_by(t, p), (long)(int32_t)ptx_get(t, i->arg[2].item, 4));
}

void ptx_mbar_wait(ptx_thread *t, const ptx_instruction *i) {
  const ptx_mbarrier *b = at_place(ptx_shared(t, i->arg[1].item, 8, 8, false), false);
  uint64_t parity = ptx_get(t, i->arg[2].item, 4);
  if (parity > 1) ptx_fault("parity %d", (int)parity);
  if ((b->phase & 1) == parity) ptx_wait(t, PTX_SPINS);
  ptx_set(t, i->arg[0].item, 1, (b->phase & 1) != parity);
}

/* ---- fences ---------------------------------------------------------------------------------- */

void ptx_fence_init(ptx_thread *t, const ptx_instruction *i) {
  (void)i;
  for (int k = 0; k < PTX_MBARRIERS; k++) ptx_block_of(t)->mbarrier[k].seen_by_others = true;
}

void ptx_fence_async(ptx_thread *t, const ptx_instruction *i) {
  const ptx_block *b = ptx_block_of(t);
  if (!ptx_has(i, "global")) memcpy(b->async, b->generic, PTX_SHARED_BYTES);
}

/* ---- copies of boxes ------------------------------------------------------------------------- */

typedef struct box {
  const vtb_emu_arg *of;
  ptx_place shared, bar;
  int at[5];
} box;

static const vtb_emu_arg *map_at(uint64_t address) {
  const ptx_map *m = (const ptx_map *)(uintptr_t)address;
  if (address % 64 || m->mark != PTX_MAP_MARK) ptx_fault("no tensor map");
  return (const vtb_emu_arg *)(uintptr_t)m->description;
}

static int bytes_of(const vtb_emu_map *m) {
  int n = m->element_bytes;
  for (int k = 0; k < m->rank; k++) n *= m->box[k];
  return n;
}

static box *make_box(ptx_thread *t, const ptx_instruction *i, const ptx_arg *map,
                     const ptx_arg *shared) {
  box *b = calloc(1, sizeof *b);
  const char *dimensions = i->word[4];
  b->of = map_at(ptx_get(t, map->item, 8));
  int rank = b->of->map->rank;
  if (dimensions[0] - '0' != rank || map->n != rank + 1)
    ptx_fault("%d coordinates for %s of a tensor of %d", map->n - 1, dimensions, rank);
  for (int k = 0; k < rank; k++) b->at[k] = (int32_t)ptx_get(t, &map->item[k + 1], 4);
  b->shared = ptx_shared(t, shared->item, bytes_of(b->of->map), 128, true);
  return b;
}

/* The n-th element's place in global memory; NULL: outside of the tensor. */
static char *element(const box *b, int n) {
  const vtb_emu_map *m = b->of->map;
  char *p = b->of->begin;
  for (int k = 0; k < m->rank; n /= m->box[k++]) {
    long x = b->at[k] + n % m->box[k];
    if (x < 0 || x >= m->size[k]) return NULL;
    p += x * m->stride[k];
  }
  return p;
}

static ptx_place in_shared(const box *b, int n) {
  int address = PTX_SHARED_AT + b->shared.at + n * b->of->map->element_bytes;
  return (ptx_place){b->shared.block, ptx_turned(address, b->of->map->swizzle) - PTX_SHARED_AT};
}

static void load_happens(ptx_later *l) {
  const box *b = l->state;
  const vtb_emu_map *m = b->of->map;
  static const char zeros[16];
  for (int n = 0; n < bytes_of(m) / m->element_bytes; n++) {
    const char *from = element(b, n);
    ptx_async_write(in_shared(b, n), from ? from : zeros, m->element_bytes);
  }
  bytes_come(seen_by(NULL, b->bar), bytes_of(m));
}

static void store_happens(ptx_later *l) {
  const box *b = l->state;
  const vtb_emu_map *m = b->of->map;
  for (int n = 0; n < bytes_of(m) / m->element_bytes; n++) {
    char *to = element(b, n);
    ptx_place p = in_shared(b, n);
    if (to) memcpy(to, M.block[p.block].async + p.at, (size_t)m->element_bytes);
  }
}

/* [to], [map, {x, y}], [bar] (, blocks) */
void ptx_tma_load(ptx_thread *t, const ptx_instruction *i) {
  bool spread = ptx_has(i, "multicast::cluster");
  box *b = make_box(t, i, &i->arg[1], &i->arg[0]);
  b->bar = ptx_shared(t, i->arg[2].item, 8, 8, true);
  if (b->bar.block != b->shared.block) ptx_fault("an mbarrier of another block");
  unsigned mask = spread ? (unsigned)ptx_get(t, i->arg[3].item, 2) : 1u << b->shared.block;
  if (!mask || mask >> M.launch->cluster) ptx_fault("copies to blocks %#x", mask);
  for (int r = 0; r < M.launch->cluster; r++) {
    if (!(mask >> r & 1)) continue;
    box *own = malloc(sizeof *own);
    *own = *b;
    own->shared.block = own->bar.block = r;
    ptx_put_off(t, load_happens, 0, own);
  }
  free(b);
}

/* [map, {x, y}], [from] */
void ptx_tma_store(ptx_thread *t, const ptx_instruction *i) {
  box *b = make_box(t, i, &i->arg[0], &i->arg[1]);
  if (b->shared.block != t->rank) ptx_fault("a box of another block");
  ptx_put_off(t, store_happens, 'b', b);
}

void ptx_bulk_commit(ptx_thread *t, const ptx_instruction *i) {
  (void)i;
  t->groups['b']++;
}

void ptx_bulk_wait(ptx_thread *t, const ptx_instruction *i) {
  ptx_wait_groups(t, 'b', (int)ptx_get(t, i->arg[0].item, 4));
}

/* ---- stores that an mbarrier counts ---------------------------------------------------------- */

typedef struct sent {
  ptx_place to, bar;
  int bytes;
  char data[16];
} sent;

static void sent_comes(ptx_later *l) {
  const sent *s = l->state;
  ptx_async_write(s->to, s->data, s->bytes);
  bytes_come(seen_by(NULL, s->bar), s->bytes);
}

/* [to], values, [bar] */
void ptx_st_async(ptx_thread *t, const ptx_instruction *i) {
  int n = ptx_has(i, "v4") ? 4 : ptx_has(i, "v2") ? 2 : 1;
  sent *s = calloc(1, sizeof *s);
  s->bytes = 4 * n;
  s->to = ptx_shared(t, i->arg[0].item, 4 * n, 4 * n, true);
  s->bar = ptx_shared(t, i->arg[2].item, 8, 8, true);
  if (i->arg[1].n != n) ptx_fault("%d registers", i->arg[1].n);
  if (s->to.block != s->bar.block) ptx_fault("an mbarrier of another block");
  for (int k = 0; k < n; k++) {
    uint32_t v = (uint32_t)ptx_get(t, &i->arg[1].item[k], 4);
    memcpy(s->data + 4 * k, &v, 4);
  }
  ptx_put_off(t, sent_comes, 0, s);
}
