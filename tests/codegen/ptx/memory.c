/* Shared memory: addresses, loads and stores, cp.async, ldmatrix. */
#include <stdlib.h>
#include <string.h>

#include "tests/codegen/ptx/ptx.h"

#define M ptx_the_machine

/* Bits 24 on: a block's rank + 1, or 0 for the own. */
ptx_place ptx_shared(ptx_thread *t, const ptx_item *i, int bytes, int align, bool of_cluster) {
  uint64_t address = ptx_get(t, i, 4);
  int block = (int)(address >> 24), at = (int)(address & 0xffffff) - PTX_SHARED_AT;
  if (block && !of_cluster) ptx_fault("an address of the cluster where the own block's is wanted");
  if (block > M.launch->cluster) ptx_fault("an address of no block");
  if (at < 0 || at + bytes > PTX_SHARED_BYTES || at % align)
    ptx_fault("%d bytes at byte %d of shared memory", bytes, at);
  return (ptx_place){block ? block - 1 : t->rank, at};
}

void ptx_async_write(ptx_place p, const void *data, int bytes) {
  memcpy(M.block[p.block].generic + p.at, data, (size_t)bytes);
  memcpy(M.block[p.block].async + p.at, data, (size_t)bytes);
  ptx_changed();
}

void ptx_release(ptx_block *b) {
  for (int k = 0; k < b->n_stores; k++)
    memcpy(M.block[b->store[k].block].generic + b->store[k].at, b->store[k].data,
           (size_t)b->store[k].bytes);
  b->n_stores = 0;
  ptx_changed();
}

static int width(const ptx_instruction *i) {
  return ptx_has(i, "v4") ? 4 : ptx_has(i, "v2") ? 2 : 1;
}

static bool of_cluster(const ptx_instruction *i) { return ptx_has(i, "shared::cluster"); }

void ptx_ld(ptx_thread *t, const ptx_instruction *i) {
  int n = width(i);
  ptx_place p = ptx_shared(t, i->arg[1].item, 4 * n, 4 * n, of_cluster(i));
  if (i->arg[0].n != n) ptx_fault("%d registers", i->arg[0].n);
  for (int k = 0; k < n; k++) {
    uint32_t v;
    memcpy(&v, M.block[p.block].generic + p.at + 4 * k, 4);
    ptx_set(t, &i->arg[0].item[k], 4, v);
  }
}

/* Known to others behind a release of the block's. */
void ptx_st(ptx_thread *t, const ptx_instruction *i) {
  int n = width(i);
  ptx_place p = ptx_shared(t, i->arg[0].item, 4 * n, 4 * n, of_cluster(i));
  ptx_block *b = ptx_block_of(t);
  if (i->arg[1].n != n) ptx_fault("%d registers", i->arg[1].n);
  if (b->n_stores == PTX_STORES) ptx_fault("too many stores without a release");
  ptx_store *s = &b->store[b->n_stores++];
  *s = (ptx_store){p.block, p.at, 4 * n, {0}};
  for (int k = 0; k < n; k++) {
    uint32_t v = (uint32_t)ptx_get(t, &i->arg[1].item[k], 4);
    memcpy(s->data + 4 * k, &v, 4);
  }
}

/* ---- cp.async -------------------------------------------------------------------------------- */

typedef struct copy {
  ptx_place to;
  const char *from;
  int bytes, wanted; /* the rest is zeros */
} copy;

static void copy_happens(ptx_later *l) {
  const copy *c = l->state;
  char data[16] = {0};
  memcpy(data, c->from, (size_t)c->wanted);
  memcpy(M.block[c->to.block].generic + c->to.at, data, (size_t)c->bytes);
}

void ptx_cp_async(ptx_thread *t, const ptx_instruction *i) {
  int bytes = (int)ptx_get(t, i->arg[2].item, 4), wanted = (int)ptx_get(t, i->arg[3].item, 4);
  if (bytes != 16 && (ptx_has(i, "cg") || (bytes != 8 && bytes != 4))) ptx_fault("%d bytes", bytes);
  if (wanted < 0 || wanted > bytes) ptx_fault("%d of %d bytes", wanted, bytes);
  copy *c = malloc(sizeof *c);
  *c = (copy){ptx_shared(t, i->arg[0].item, bytes, bytes, false),
              (const char *)(uintptr_t)ptx_get(t, i->arg[1].item, 8), bytes, wanted};
  if ((uintptr_t)c->from % (unsigned)bytes) ptx_fault("a source that is not aligned");
  ptx_put_off(t, copy_happens, 'c', c);
}

void ptx_cp_commit(ptx_thread *t, const ptx_instruction *i) {
  (void)i;
  t->groups['c']++;
}

void ptx_cp_wait(ptx_thread *t, const ptx_instruction *i) {
  ptx_wait_groups(t, 'c', (int)ptx_get(t, i->arg[0].item, 4));
}

/* ---- ldmatrix -------------------------------------------------------------------------------- */

/* Matrix m has its rows' addresses in lanes 8 m to 8 m + 7; a lane gets two neighbours of a row of
 * it, or of a column. */
void ptx_ldmatrix(ptx_thread *const *lane, const ptx_instruction *i) {
  int n = ptx_has(i, "x4") ? 4 : ptx_has(i, "x2") ? 2 : 1;
  uint16_t matrix[4][8][8];
  for (int r = 0; r < 8 * n; r++) {
    ptx_place p = ptx_shared(lane[r], i->arg[1].item, 16, 16, false);
    memcpy(matrix[r / 8][r % 8], M.block[p.block].generic + p.at, 16);
  }
  for (int l = 0; l < PTX_WARP; l++) {
    if (i->arg[0].n != n) ptx_fault("%d registers", i->arg[0].n);
    for (int m = 0; m < n; m++) {
      unsigned pair[2];
      for (int k = 0; k < 2; k++) {
        int across = l % 4 * 2 + k, down = l / 4;
        pair[k] = ptx_has(i, "trans") ? matrix[m][across][down] : matrix[m][down][across];
      }
      ptx_set(lane[l], &i->arg[0].item[m], 4, pair[1] << 16 | pair[0]);
    }
  }
}
