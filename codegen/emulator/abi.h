/* Known to the emulator (C, in this folder) and to emulated kernels (C++, compiled at run time):
 * the state of one emulated thread and the functions a kernel calls back into. Its text is put
 * before every emulated source, so it includes nothing and is valid C and C++.
 *
 * A thread of a block is a fiber with a stack of VTB_EMU_STACK bytes, aligned to as much; its
 * vtb_emu_thread lies at the stack's upper end, so that the running thread is found from any stack
 * address.
 */
#ifndef VTB_EMULATOR_ABI_H
#define VTB_EMULATOR_ABI_H

#define VTB_EMU_STACK 262144ul
#define VTB_EMU_SLOTS 12

typedef struct vtb_emu_thread vtb_emu_thread;

/* A tensor map: sizes, innermost first; strides in bytes, the innermost element's being its own;
 * the box that is copied at once, its rows turned as `swizzle` bytes say (0: not). */
typedef struct vtb_emu_map {
  int rank, element_bytes, swizzle;
  long size[5], stride[5];
  int box[5];
} vtb_emu_map;

/* An argument of a launch: the memory a pointer, or a map, may reach. */
typedef struct vtb_emu_arg {
  char *begin, *end;
  const vtb_emu_map *map; /* NULL: a pointer */
} vtb_emu_arg;

/* Where a thread waits. `name` and `file` are compared by address. */
typedef struct vtb_emu_place {
  const char *name, *file;
  int line;
} vtb_emu_place;

/* Runs once a collective, when its last thread has arrived, for the lanes of `mask`. */
typedef void (*vtb_emu_complete)(vtb_emu_thread **lane, unsigned mask);

/* Kinds of accesses that are counted. */
enum { VTB_EMU_READ, VTB_EMU_WRITE, VTB_EMU_SHARED_READ, VTB_EMU_SHARED_WRITE };
/* Of an arrival at an mbarrier, in place of bytes: it says that the thread's reads are over, not
 * what it wrote. */
enum { VTB_EMU_FREES = -1 };
/* What is known behind a wait of those who arrived: all that the block's own threads did; also that
 * reads of other blocks of the cluster are over; or all that these did, too. */
enum { VTB_EMU_OF_BLOCK, VTB_EMU_OF_READS, VTB_EMU_OF_CLUSTER };

/* One warp's part of a wgmma, 16 rows: what its threads say. */
typedef struct vtb_emu_wgmma {
  unsigned long long a, b; /* descriptors */
  const unsigned *rows;    /* of A in this thread's registers; NULL: `a` counts */
  float *d;                /* this thread's registers */
  int n, half, a_mn, b_mn, add;
} vtb_emu_wgmma;

/* Shared memory as the hardware counts it: dynamic memory begins behind what the system takes. */
#define VTB_EMU_SHARED_AT 1024
/* From the shared memory of a block to that of the next of its cluster. */
#define VTB_EMU_SHARED_STRIDE 262144l

typedef struct vtb_emu_api {
  /* Waits until all lanes of `mask` came to the same collective. */
  void (*collective)(vtb_emu_thread *t, unsigned mask, vtb_emu_place at, vtb_emu_complete complete);
  vtb_emu_complete shuffle, mma_tf32, mma_bf16, mma_f16, ldmatrix, ldmatrix_trans, nothing;
  void (*sync_warp)(vtb_emu_thread *t, vtb_emu_place at);
  void (*sync)(vtb_emu_thread *t, vtb_emu_place at);
  /* One access to shared memory, before it happens. Whence these are called tells the line of the
   * kernel. */
  void (*shared_read)(vtb_emu_thread *t, const void *p, long n_bytes);
  void (*shared_write)(vtb_emu_thread *t, void *p, long n_bytes);
  /* One access of a counted build, before it happens. */
  void (*access)(vtb_emu_thread *t, int kind, const void *p, long n_bytes);
  /* cp.async; the copy happens at the wait. `from` NULL: zeros. */
  void (*async_copy)(vtb_emu_thread *t, void *shared, const void *from, int n_bytes);
  void (*async_commit)(vtb_emu_thread *t);
  void (*async_wait)(vtb_emu_thread *t, int n_groups_left);
  /* hopper.c and wgmma.c; the names are those of codegen/cuda/text/hopper.cuh */
  void (*mbar_init)(vtb_emu_thread *t, void *bar, int threads, vtb_emu_place at);
  void (*mbar_ready)(vtb_emu_thread *t);
  void (*mbar_arrive)(vtb_emu_thread *t, void *bar, int n_bytes); /* or VTB_EMU_FREES */
  void (*mbar_wait)(vtb_emu_thread *t, void *bar, int parity, int known, vtb_emu_place at);
  void (*async_fence)(vtb_emu_thread *t);
  /* bar NULL: to global memory. at[]: coordinates. blocks: a bit for each block of the cluster
   * that gets the box, and its bytes at its own mbarrier; 0: the caller's. */
  void (*tma)(vtb_emu_thread *t, void *shared, const vtb_emu_arg *map, void *bar, const int *at,
              int rank, unsigned blocks);
  void (*tma_commit)(vtb_emu_thread *t);
  void (*tma_wait)(vtb_emu_thread *t, int n_groups_left);
  void (*sync_part)(vtb_emu_thread *t, int number, int threads, vtb_emu_place at);
  /* setmaxnreg, of one thread of a warp that has come together; up: waits until there are some. */
  void (*registers)(vtb_emu_thread *t, int n, int up, vtb_emu_place at);
  /* Shared memory of the block `rank` is `rank - t->rank` times VTB_EMU_SHARED_STRIDE
   * behind the caller's; the functions above take such addresses. */
  void (*cluster_arrive)(vtb_emu_thread *t, vtb_emu_place at);
  void (*cluster_wait)(vtb_emu_thread *t, vtb_emu_place at);
  /* st.async: `to` gets its bytes when the phase of `bar`, of the same block, ends. */
  void (*send)(vtb_emu_thread *t, void *to, const void *from, int n_bytes, void *bar);
  void (*wgmma)(vtb_emu_thread *t, const vtb_emu_wgmma *op, vtb_emu_place at);
  void (*wgmma_fence)(vtb_emu_thread *t, vtb_emu_place at);
  void (*wgmma_commit)(vtb_emu_thread *t, vtb_emu_place at);
  void (*wgmma_wait)(vtb_emu_thread *t, int n_groups_left, vtb_emu_place at);
  /* The two ends a launch with an error that names kernel, block, thread and line. They do not
   * return. */
  void (*outside)(vtb_emu_thread *t, int is_shared, long first, long n_bytes, long size);
  void (*fail)(vtb_emu_thread *t, const char *what);
} vtb_emu_api;

struct vtb_emu_thread {
  int tid, block;
  int rank, cluster; /* in its cluster; how many blocks that has */
  int shared_bytes;
  char *shared; /* the block's dynamic shared memory */
  const vtb_emu_api *api;
  unsigned in[VTB_EMU_SLOTS], out[VTB_EMU_SLOTS]; /* operands and results of a collective */
  const void *address;                            /* the same */
};

#endif
