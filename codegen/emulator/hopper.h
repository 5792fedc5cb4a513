/* Between the files of codegen/emulator/: what sm_90a adds. Not for other folders.
 *
 * Order between threads that no barrier of the block makes is kept in vectors of clocks: seen[t][u]
 * is the time before which everything that u did is known to t. Who arrives at an mbarrier leaves
 * what it knows there, who waits takes it; likewise at barriers of parts of the block and within a
 * warp. The data that an mbarrier's copies bring have writers of their own, VTB__EMU_COPIER + its
 * number. Threads are those of the whole cluster.
 */
#ifndef VTB_EMULATOR_HOPPER_H
#define VTB_EMULATOR_HOPPER_H

#include "codegen/emulator/core.h"

enum {
  VTB__EMU_COPIER = VTB__EMU_MAX_THREADS,
  VTB__EMU_MBARS = 128,
  VTB__EMU_SLOTS = VTB__EMU_COPIER + VTB__EMU_MBARS,
  VTB__EMU_PARTS = 16,
  VTB__EMU_MAX_N = 256
};

struct vtb__emu_mbar {
  char *at;
  int threads, missing; /* arrivals */
  long announced, coming;
  unsigned phase; /* how many have ended */
  int init_thread;
  unsigned init_time;
  vtb_emu_place init_at;
  bool ready;
  bool frees;              /* who arrived said that reads are over */
  uint64_t who, who_first; /* a sum over the threads that arrived: in this phase, in the first */
  VTB_VEC(vtb__emu_box) boxes;
  unsigned gathered[VTB__EMU_SLOTS], released[VTB__EMU_SLOTS];
};

typedef struct vtb__emu_part { /* a barrier of a part of the block */
  int threads, n;
  vtb_emu_place at;
  unsigned known[VTB__EMU_SLOTS];
} vtb__emu_part;

/* Accumulators of a warp's wgmmas on their way: the threads' registers hold NaN meanwhile. */
typedef struct vtb__emu_acc {
  float *d[VTB__EMU_WARP];
  int n, uses;
  float at[16 * VTB__EMU_MAX_N];
} vtb__emu_acc;

typedef struct vtb__emu_op {
  vtb_emu_wgmma what;
  unsigned rows[VTB__EMU_WARP][4];
  int acc, group;
} vtb__emu_op;

enum { VTB__EMU_ACCS = 8 };
typedef struct vtb__emu_queue { /* of a warp's wgmmas, in order */
  VTB_VEC(vtb__emu_op) ops;
  vtb__emu_acc *acc; /* VTB__EMU_ACCS */
  int group;
  bool fenced;
} vtb__emu_queue;

struct vtb__emu_hopper {
  /* when each warp read a cell last, from the first mbarrier on: n_warps a cell */
  unsigned *read_time;
  size_t n_read_times;
  unsigned (*seen)[VTB__EMU_SLOTS]; /* one a thread */
  unsigned (*over)[VTB__EMU_SLOTS]; /* likewise, of reads alone */
  /* of the last two vtb_async_fence: the last may be one of a thread that is a barrier ahead */
  unsigned fence_time[VTB__EMU_MAX_THREADS][2];
  vtb__emu_mbar *bars;
  int n_bars;
  vtb__emu_part parts[VTB__EMU_CLUSTER][VTB__EMU_PARTS];
  vtb__emu_queue queues[VTB__EMU_MAX_WARPS];
  /* the cluster's barrier */
  int n_at_cluster;
  unsigned cluster_phase;
  unsigned cluster_gathered[VTB__EMU_SLOTS], cluster_released[VTB__EMU_SLOTS];
};

/* ---- order.c --------------------------------------------------------------------------------- */
vtb__emu_hopper *vtb__emu_hopper_of(vtb__emu_worker *w); /* made if there is none */
void vtb__emu_hopper_block(vtb__emu_worker *w);          /* a new block */
void vtb__emu_hopper_free(vtb__emu_worker *w);
/* Puts thread f's knowledge into `to`; or gives it all of `from`; or of that only what copies and
 * its own block did. */
void vtb__emu_leave(vtb__emu_fiber *f, unsigned *to);
void vtb__emu_learn(vtb__emu_fiber *f, const unsigned *from);
void vtb__emu_learn_own(vtb__emu_fiber *f, const unsigned *from);
void vtb__emu_learn_reads(vtb__emu_fiber *f, const unsigned *from); /* that they are over */
void vtb__emu_release(const vtb__emu_worker *w, unsigned *to, unsigned *from); /* from: then 0 */
void vtb__emu_join_block(const vtb__emu_fiber *f); /* what copies brought, and other blocks did */
void vtb__emu_join_warp(vtb__emu_worker *w, vtb__emu_warp *warp);
/* True if f knows of what `who` did at `time`; that a read of it is over. */
bool vtb__emu_knows(const vtb__emu_fiber *f, unsigned who, unsigned time);
bool vtb__emu_knows_read(const vtb__emu_fiber *f, unsigned who, unsigned time);

/* Behind the last call that was handed this function's frame, whose place it shall not take. */
#define VTB__EMU_FRAME_STAYS __asm__ volatile("")

/* ---- hopper.c, wgmma.c: functions of vtb_emu_api --------------------------------------------- */
void vtb__emu_mbar_init(vtb_emu_thread *t, void *bar, int threads, vtb_emu_place at);
void vtb__emu_mbar_ready(vtb_emu_thread *t);
void vtb__emu_mbar_arrive(vtb_emu_thread *t, void *bar, int n_bytes);
void vtb__emu_mbar_wait(vtb_emu_thread *t, void *bar, int parity, int known, vtb_emu_place at);
void vtb__emu_async_fence(vtb_emu_thread *t);
void vtb__emu_tma(vtb_emu_thread *t, void *shared, const vtb_emu_arg *map, void *bar, const int *at,
                  int rank, unsigned blocks);
void vtb__emu_send(vtb_emu_thread *t, void *to, const void *from, int n_bytes, void *bar);
void vtb__emu_tma_commit(vtb_emu_thread *t);
void vtb__emu_tma_wait(vtb_emu_thread *t, int n_groups_left);
void vtb__emu_cluster_arrive(vtb_emu_thread *t, vtb_emu_place at);
void vtb__emu_cluster_wait(vtb_emu_thread *t, vtb_emu_place at);
void vtb__emu_sync_part(vtb_emu_thread *t, int number, int threads, vtb_emu_place at);
void vtb__emu_registers(vtb_emu_thread *t, int n, int up, vtb_emu_place at);
void vtb__emu_wgmma(vtb_emu_thread *t, const vtb_emu_wgmma *op, vtb_emu_place at);
void vtb__emu_wgmma_fence(vtb_emu_thread *t, vtb_emu_place at);
void vtb__emu_wgmma_commit(vtb_emu_thread *t, vtb_emu_place at);
void vtb__emu_wgmma_wait(vtb_emu_thread *t, int n_groups_left, vtb_emu_place at);
/* Names what is still on its way, or begun, when all threads of a block have ended; false:
 * nothing. */
bool vtb__emu_left_over(const vtb__emu_worker *w, int rank, char text[256]);

/* Bits 4 to 6 of an address of shared memory turn with those from 7 on, as far as rows of `bytes`
 * (128, 64, 32) reach; 0: nothing turns. */
static inline long vtb__emu_turned(long at, int bytes) {
  return bytes ? at ^ ((at >> 7 & (bytes / 16 - 1)) << 4) : at;
}

#endif
