/* Between the files of codegen/emulator/: blocks, their fibers, shadow memory. Not for other
 * folders.
 *
 * A vtb__emu_worker runs one cluster of blocks at a time (most are one block) on one
 * operating-system thread; fibers never move between workers. Threads and warps are counted through
 * the blocks of the cluster (vtb__emu_fiber.id); `tid` is within the block. All state of a cluster
 * lives in its worker; the launch is shared and read only,
 * except `error`, which has a lock.
 */
#ifndef VTB_EMULATOR_CORE_H
#define VTB_EMULATOR_CORE_H

#include "codegen/emulator/abi.h"
#include "codegen/emulator/emulator.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
  VTB__EMU_WARP = 32,
  VTB__EMU_BLOCK_THREADS = 1024, /* at most */
  VTB__EMU_CLUSTER = 8,          /* blocks, at most */
  VTB__EMU_MAX_THREADS = 2048,   /* of a cluster */
  VTB__EMU_MAX_WARPS = VTB__EMU_MAX_THREADS / VTB__EMU_WARP,
  VTB__EMU_MAX_SHARED = VTB_EMU_SHARED_STRIDE, /* of a block */
  VTB__EMU_REGISTERS = 65536,                  /* of a multiprocessor */
  VTB__EMU_CELLS = VTB__EMU_CLUSTER * VTB__EMU_MAX_SHARED / 2
};

typedef enum vtb__emu_state {
  VTB__EMU_READY,
  VTB__EMU_AT_COLLECTIVE,
  VTB__EMU_AT_BARRIER,
  VTB__EMU_AT_PART,      /* of a block: vtb_sync_part */
  VTB__EMU_AT_MBARRIER,  /* `bar` and `parity` say for what */
  VTB__EMU_AT_CLUSTER,   /* vtb_cluster_wait */
  VTB__EMU_AT_REGISTERS, /* vtb_registers_up */
  VTB__EMU_DONE
} vtb__emu_state;

typedef struct vtb__emu_copy { /* a cp.async that has not happened yet */
  char *to;
  const char *from; /* NULL: zeros */
  int n_bytes, group;
} vtb__emu_copy;

typedef struct vtb__emu_box { /* of a tensor map, on its way */
  char *shared;
  const vtb_emu_arg *map; /* NULL: `sent`, the bytes of one store */
  int at[5], n_bytes, group;
  bool again; /* this box goes to another block, too, for which it is read and counted */
  char sent[16];
} vtb__emu_box;

typedef struct vtb__emu_worker vtb__emu_worker;
typedef struct vtb__emu_warp vtb__emu_warp;
typedef struct vtb__emu_hopper vtb__emu_hopper; /* hopper.h */
typedef struct vtb__emu_mbar vtb__emu_mbar;
typedef struct vtb__emu_member vtb__emu_member;

/* `t` is what the kernel sees; it is the last member, at the upper end of the stack. */
typedef struct vtb__emu_fiber {
  void *sp;
  vtb__emu_worker *worker;
  vtb__emu_warp *warp;
  vtb__emu_member *member;
  int id; /* in the cluster */
  vtb__emu_state state;
  unsigned mask; /* AT_COLLECTIVE: whom it waits for */
  vtb_emu_place at;
  int async_group;
  VTB_VEC(vtb__emu_copy) copies; /* its memory is kept from block to block */
  VTB_VEC(vtb__emu_box) stores;  /* likewise */
  int store_group;
  const vtb__emu_mbar *bar;
  int parity;
  int registers;          /* since it asked for them; 0: as it was launched */
  unsigned cluster_phase; /* of the cluster's barrier that it arrived at last */
  bool has_arrived;       /* there, and has not waited */
  const void *frame;      /* of the function that a wgmma called */
  vtb_emu_thread t;
} vtb__emu_fiber;

struct vtb__emu_warp {
  vtb__emu_fiber *lane[VTB__EMU_WARP];
  vtb_emu_thread *threads[VTB__EMU_WARP]; /* theirs */
  unsigned char order[VTB__EMU_WARP];     /* a permutation: when lanes get their turn */
  unsigned ready;                         /* by lane */
  unsigned arrived;                       /* at the collective, by lane */
  int last;                               /* position in `order` of the lane that ran last */
  unsigned sync_time;                     /* shadow clock of the last vtb_sync_warp */
};

/* Two bytes of shared memory as the checked build knows them. */
typedef struct vtb__emu_cell {
  unsigned write_time, read_time;
  unsigned short writer, reader;
  uint64_t warps;     /* of several readers */
  uint64_t in_flight; /* warps whose wgmma still reads it */
} vtb__emu_cell;

struct vtb__emu_member { /* a block of the cluster */
  int first, n_done, n_at_barrier, spare_registers;
  const vtb__emu_fiber *first_at_barrier;
  unsigned barrier_time;
  unsigned touched[VTB__EMU_MAX_THREADS]; /* by threads of other blocks, when last; 0: never */
};

typedef struct vtb__emu_launch {
  vtb_emulator *emulator;
  const vtb_emulator_launch *what;
  int (*kernel)(const vtb_emu_arg *args);
  const vtb_emu_arg *args;
  uint64_t stride, start; /* of the order of blocks */
  atomic_bool stop;
  pthread_mutex_t lock;
  vtb_error error;
} vtb__emu_launch;

struct vtb__emu_worker {
  vtb__emu_launch *launch;
  void *mapping; /* of the stacks */
  size_t mapping_bytes;
  char *stacks; /* VTB__EMU_MAX_THREADS of them */
  void *scheduler_sp;
  int block;   /* the cluster's first */
  int cluster; /* blocks */
  int n_threads, n_warps, n_done;
  int most_threads; /* of all clusters so far */
  vtb__emu_member members[VTB__EMU_CLUSTER];
  vtb__emu_warp warps[VTB__EMU_MAX_WARPS];
  char *shared;         /* one block's behind the other */
  vtb__emu_cell *cells; /* one for two bytes of it */
  unsigned clock, block_time;
  vtb__emu_hopper *hopper; /* NULL until a kernel needs it */
  uint64_t random;
  struct vtb__emu_count *count; /* count.h; NULL: nobody wants to know */
  bool failed;
  struct vtb__emu_worker *next_free;
};

struct vtb_emulator {
  void *library;
  char *library_path, *compiler;
  vtb_strbuf source; /* what was compiled */
  bool checked, counted, optimise, reversed;
  uint64_t seed;
  pthread_mutex_t lock;
  vtb__emu_worker *free_workers;
};

/* ---- fiber.c --------------------------------------------------------------------------------- */
void vtb__fiber_switch(void **save_sp, void *load_sp);
/* Prepares a stack whose first switch calls entry(argument). */
void *vtb__fiber_prepare(char *stack_end, void (*entry)(void *), void *argument);

/* ---- block.c --------------------------------------------------------------------------------- */
vtb__emu_worker *vtb__emu_worker_new(vtb_error *err); /* NULL: out of memory */
void vtb__emu_worker_free(vtb__emu_worker *w);
/* Runs one cluster to its end, from its first block on; false once the launch has failed. */
bool vtb__emu_run_cluster(vtb__emu_worker *w, int block);
/* Records the error of the running thread and leaves its block for good; the place is where the
 * kernel called the function of the emulator whose frame this is. */
VTB_NORETURN void vtb__emu_fail_at(vtb_emu_thread *t, const void *frame, const char *fmt, ...)
    VTB_PRINTF(3, 4);
/* The running fiber waits in `state` until somebody resumes it; resuming one that is ready does
 * nothing. */
void vtb__emu_wait_in(vtb__emu_fiber *f, vtb__emu_state state);
void vtb__emu_resume(vtb__emu_fiber *f);
vtb__emu_fiber *vtb__emu_fiber_at(const vtb__emu_worker *w, int id);
void vtb__emu_collective(vtb_emu_thread *t, unsigned mask, vtb_emu_place at,
                         vtb_emu_complete complete);
static inline vtb__emu_fiber *vtb__emu_fiber_of(vtb_emu_thread *t) {
  return (vtb__emu_fiber *)(void *)((char *)t - offsetof(vtb__emu_fiber, t));
}

static inline int vtb__emu_rank_of(const vtb__emu_worker *w, const void *shared) {
  return (int)(((const char *)shared - w->shared) / VTB_EMU_SHARED_STRIDE);
}
static inline int vtb__emu_block_threads(const vtb__emu_worker *w) {
  return w->n_threads / w->cluster;
}

/* ---- order.c --------------------------------------------------------------------------------- */
/* The address within its block, and which, for messages. */
const char *vtb__emu_byte(const vtb__emu_fiber *f, const void *p, char text[64]);
/* "thread 3", "thread 3 of block 7": as f would call it. */
const char *vtb__emu_name(const vtb__emu_fiber *f, int id, char text[64]);

/* ---- shadow.c -------------------------------------------------------------------------------- */
void vtb__emu_shadow_block(vtb__emu_worker *w); /* a new block: nothing is written yet */
void vtb__emu_shared_read(vtb_emu_thread *t, const void *p, long n);
void vtb__emu_shared_write(vtb_emu_thread *t, void *p, long n);
/* f uses shared memory of the cluster: that of another block must be there, and stay. */
void vtb__emu_touch(vtb__emu_fiber *f, const void *p, const void *frame);
void vtb__emu_async_copy(vtb_emu_thread *t, void *shared, const void *from, int n_bytes);
void vtb__emu_async_commit(vtb_emu_thread *t);
void vtb__emu_async_wait(vtb_emu_thread *t, int n_groups_left);

/* The async proxy's accesses to shared memory; `f` is who asked for it, `frame` as for
 * vtb__emu_fail_at(). */
void vtb__emu_async_take(vtb__emu_fiber *f, void *p, long n, const void *frame);
void vtb__emu_async_give(vtb__emu_worker *w, void *p, long n, unsigned writer);
/* A read: of a wgmma, which goes on until _read_done, or at once. */
void vtb__emu_async_read(vtb__emu_fiber *f, const void *p, long n, bool goes_on, const void *frame);
void vtb__emu_async_read_done(vtb__emu_worker *w, int warp, const void *p, long n);

/* ---- collect.c: vtb_emu_complete ---------------------------------------------------------*/
void vtb__emu_shuffle(vtb_emu_thread **lane, unsigned mask);
void vtb__emu_mma_tf32(vtb_emu_thread **lane, unsigned mask); /* m16n8k8 */
void vtb__emu_mma_bf16(vtb_emu_thread **lane, unsigned mask); /* m16n8k16 */
void vtb__emu_mma_f16(vtb_emu_thread **lane, unsigned mask);
void vtb__emu_ldmatrix(vtb_emu_thread **lane, unsigned mask); /* x4 */
void vtb__emu_ldmatrix_trans(vtb_emu_thread **lane, unsigned mask);
void vtb__emu_nothing(vtb_emu_thread **lane, unsigned mask);
/* acc (16 x n) += a (16 x 16, in 16-bit elements) b (16 x n), n at most VTB__EMU_MAX_N */
void vtb__emu_wgmma_compute(int n, bool half, const unsigned short *a, const unsigned short *b,
                            float *acc);

/* ---- compile.c ------------------------------------------------------------------------------- */
/* Compiles (or finds in the cache) the library of `e`. */
VTB_MUST_USE vtb_status vtb__emu_compile(vtb_emulator *e, const char *text,
                                         const char *const *kernels, int n_kernels,
                                         const char *compiler, vtb_error *err);
/* The name of the emitted source in errors. */
#define VTB__EMU_SOURCE "kernels.cu"
/* "kernels.cu:41", or "kernels.cu:41, called in line 100": where in the source the kernel was.
 * `frame` is that of a function the kernel called; frames follow each other up to the end of the
 * stack. */
void vtb__emu_locate(vtb_emulator *e, const void *frame, const void *stack_end, char *text,
                     size_t n);

#endif
