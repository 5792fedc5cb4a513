/* A second judge of the inline PTX of codegen/cuda/text: a machine that executes the asm statements
 * themselves, by the PTX manual, where the emulator has functions of its own in their place.
 *
 *   text.c         finds the statements in the (preprocessed) text and makes calls of them
 *   parse.c        a statement's template as instructions
 *   table.c        the instructions that the machine knows: their syntax, what they need
 *   machine.c      threads, blocks, clusters, who waits for whom
 *   build.c        the C++ compiler, run twice
 *   memory.c, barrier.c, arithmetic.c, tensor.c    what the instructions do
 *
 * Everything asynchronous happens as late as it may. Threads: one machine at a time.
 */
#ifndef VTB_TEST_PTX_H
#define VTB_TEST_PTX_H

#include <stdbool.h>
#include <stdint.h>

#include "codegen/emulator/abi.h"
#include "runtime/base/base.h"
#include "tests/codegen/ptx/abi.h"

enum {
  PTX_OPERANDS = 160,
  PTX_ARGS = 8,
  PTX_WORDS = 12,
  PTX_INSTRUCTIONS = 4,
  PTX_STATEMENTS = 160,
  PTX_REGISTERS = 4,
  PTX_WARP = 32,
  PTX_THREADS = 512,
  PTX_CLUSTER = 4,
  PTX_MOST_EXECUTED = 200000,
  PTX_SHARED_BYTES = 212992,
  PTX_SHARED_AT = 1024 /* where dynamic shared memory begins */
};

/* ---- statements ------------------------------------------------------------------------------ */
typedef enum ptx_item_kind {
  PTX_OPERAND,  /* %3 */
  PTX_REGISTER, /* declared in the statement */
  PTX_SPECIAL,  /* %cluster_ctarank */
  PTX_NUMBER,
  PTX_SINK /* _ */
} ptx_item_kind;
typedef struct ptx_item {
  ptx_item_kind kind;
  long number;
  char name[32];
} ptx_item;
/* One item; a list {a, b}; an address [a], or of a tensor [a, {x, y}]: then more items. */
typedef struct ptx_arg {
  int n;
  bool is_list, is_address;
  ptx_item *item;
} ptx_arg;

struct ptx_row;
typedef struct ptx_instruction {
  char name[160]; /* with all its words */
  char word[PTX_WORDS][48];
  int n_words, n_args;
  ptx_arg arg[PTX_ARGS];
  const struct ptx_row *row;
} ptx_instruction;

typedef struct ptx_statement {
  char function[64];
  char *template_text;
  bool is_volatile, clobbers_memory;
  char constraint[PTX_OPERANDS][4];
  char *expression[PTX_OPERANDS];
  int n_operands, n_instructions;
  ptx_instruction instruction[PTX_INSTRUCTIONS];
  char registers[PTX_REGISTERS][16];
  int n_registers;
  int runs; /* how often it was executed */
} ptx_statement;

typedef struct ptx_text {
  ptx_statement *statement; /* PTX_STATEMENTS */
  int n;
} ptx_text;

/* The statements of a preprocessed text, parsed, which then is C++ with calls. False and why in
 * `error` (512 bytes). The caller frees the text by ptx_text_free() in any case. */
bool ptx_read(const char *preprocessed, ptx_text *t, vtb_strbuf *cpp, char *error);
void ptx_text_free(ptx_text *t);
bool ptx_parse(ptx_statement *s, char *error); /* its instructions; parse.c */

/* ---- instructions ---------------------------------------------------------------------------- */
typedef struct ptx_thread ptx_thread;
/* What the compiler must be told: nothing of a function of registers; that it happens (volatile);
 * that also memory changes, or may be handed on ("memory"). */
typedef enum ptx_effect { PTX_PURE, PTX_HAPPENS, PTX_MEMORY } ptx_effect;
typedef struct ptx_row {
  /* Words in order, each with its alternatives; "?" at the end: may be left out; "~" before it: has
   * no meaning for the machine, so that a table of reasons must pin it. */
  const char *syntax;
  /* A letter an argument: d is written, s read, x both (lists, too), a an address */
  const char *args;
  ptx_effect effect;
  void (*thread)(ptx_thread *t, const ptx_instruction *i);
  void (*warp)(ptx_thread *const *lane, const ptx_instruction *i); /* in its place: 32 together */
} ptx_row;
/* The row of an instruction, its arguments checked; NULL and why. */
const ptx_row *ptx_find(const ptx_statement *s, const ptx_instruction *i, char *error);
/* The words of `i` that the machine gives no meaning, one after the other; NULL behind the last. */
const char *ptx_blind_word(const ptx_instruction *i, int n);
bool ptx_has(const ptx_instruction *i, const char *word);

/* ---- build.c --------------------------------------------------------------------------------- */
typedef struct ptx_program {
  ptx_text text;
  void *library;
} ptx_program;
/* The statements of CUDA C that is intrinsics.cuh, hopper.cuh and kernels; then kernels `names` are
 * compiled. False and why in `error` (512 bytes). The caller frees the program in any case. */
bool ptx_take(const char *cuda, ptx_program *p, vtb_strbuf *cpp, char *error);
bool ptx_compile(ptx_program *p, const vtb_strbuf *cpp, const char *const *names, int n,
                 char *error);
typedef void (*ptx_kernel)(const ptx_arguments *a);
ptx_kernel ptx_kernel_of(const ptx_program *p, const char *name);
void ptx_free(ptx_program *p);

/* ---- the machine ----------------------------------------------------------------------------- */
typedef struct ptx_launch {
  ptx_kernel kernel;
  const ptx_arguments *arguments;
  int threads, cluster;
  bool reversed; /* the order in which threads run */
} ptx_launch;
/* Runs one cluster. False and why in `error` (512 bytes). */
bool ptx_run(const ptx_launch *l, ptx_text *text, char *error);
extern const ptx_host ptx_machine_host;

/* ---- between the machine's files ------------------------------------------------------------- */
typedef enum ptx_state { PTX_READY, PTX_AT_WARP, PTX_SPINS, PTX_DONE } ptx_state;

typedef struct ptx_barrier { /* bar.sync */
  int threads, n;
  unsigned phase;
} ptx_barrier;
typedef struct ptx_mbarrier {
  bool used, seen_by_others; /* fence.mbarrier_init */
  int at, threads, pending;
  long bytes;
  unsigned phase;
} ptx_mbarrier;

enum { PTX_MBARRIERS = 16, PTX_PARTS = 16, PTX_STORES = 512, PTX_POOL = 65536 };
typedef struct ptx_store { /* to memory of the cluster, not yet released */
  int block, at, bytes;
  char data[16];
} ptx_store;
typedef struct ptx_block {
  char *generic, *async; /* shared memory as threads see it, and as the async proxy does */
  ptx_mbarrier mbarrier[PTX_MBARRIERS];
  ptx_barrier part[PTX_PARTS];
  ptx_store store[PTX_STORES];
  int n_stores;
  int registers_left;
} ptx_block;

/* Something that happens later: at a wait of the thread that asked (its group), or when nothing
 * else can go on. */
typedef struct ptx_later {
  void (*happen)(struct ptx_later *l);
  ptx_thread *by;
  int group;   /* -1: nobody waits for it by groups */
  char queue;  /* of groups: c cp.async, b cp.async.bulk, w wgmma */
  void *state; /* malloc'd */
  struct ptx_later *next;
} ptx_later;

struct ptx_thread {
  int id, rank; /* in its block; the block's in the cluster */
  ptx_state state;
  unsigned epoch; /* PTX_SPINS: until something changed */
  ptx_operand *operands;
  int statement;
  uint64_t registers[PTX_REGISTERS];
  int groups[128]; /* a queue: groups committed */
  bool arrived;    /* at the cluster's barrier */
  unsigned cluster_phase;
  bool fenced; /* wgmma.fence since the last wait */
  int n_registers;
  unsigned shuffle_value;
  int shuffle_by;
};

typedef struct ptx_machine {
  ptx_text *text;
  const ptx_launch *launch;
  ptx_block block[PTX_CLUSTER];
  ptx_thread thread[PTX_THREADS];
  int n_threads;
  unsigned epoch;
  ptx_thread *current;
  int n_executed; /* statements */
  ptx_later *later, **last_later;
  int n_at_cluster;
  unsigned cluster_phase;
  bool failed;
  char *error;
} ptx_machine;
extern ptx_machine ptx_the_machine;

__attribute__((noreturn, format(printf, 1, 2))) void ptx_fault(const char *fmt, ...);
void ptx_wait(ptx_thread *t, ptx_state state); /* until somebody sets PTX_READY */
void ptx_changed(void);                        /* who spins may look again */
static inline ptx_block *ptx_block_of(const ptx_thread *t) {
  return &ptx_the_machine.block[t->rank];
}

/* Items; `bytes` is what the instruction's type wants. */
uint64_t ptx_get(ptx_thread *t, const ptx_item *i, int bytes);
void ptx_set(ptx_thread *t, const ptx_item *i, int bytes, uint64_t v);
float ptx_get_float(ptx_thread *t, const ptx_item *i);
void ptx_set_float(ptx_thread *t, const ptx_item *i, float v);

/* An address of the cluster's shared memory. */
typedef struct ptx_place {
  int block, at;
} ptx_place;
ptx_place ptx_shared(ptx_thread *t, const ptx_item *i, int bytes, int align, bool of_cluster);
void ptx_async_write(ptx_place p, const void *data, int bytes); /* both see it */
void ptx_release(ptx_block *b); /* its stores to the cluster are there */
/* Where the 16 bytes about an address come to lie in rows of 128, 64, 32 bytes (0: where they are)
 * that are turned against each other. */
static inline int ptx_turned(int address, int row_bytes) {
  int line = address / 128, chunk = address / 16 % 8;
  if (row_bytes) chunk ^= line % (row_bytes / 16);
  return line * 128 + chunk * 16 + address % 16;
}

ptx_later *ptx_put_off(ptx_thread *t, void (*happen)(ptx_later *), char queue, void *state);
void ptx_wait_groups(ptx_thread *t, char queue, int left);

/* Bits of `v` rounded to a format: n bits of significand, exponents from `least` on. */
typedef enum ptx_rounding { PTX_EVEN, PTX_AWAY, PTX_ZERO } ptx_rounding;
double ptx_round(double v, int bits, int least, ptx_rounding how);
double ptx_decode16(unsigned bits, bool half);
unsigned ptx_encode16(double v, bool half);

/* What rows of table.c do. */
typedef void ptx_thread_fn(ptx_thread *t, const ptx_instruction *i);
typedef void ptx_warp_fn(ptx_thread *const *lane, const ptx_instruction *i);
ptx_thread_fn ptx_cvt_x2, ptx_cvt_f32_f16, ptx_cvt_tf32, ptx_cvt_s32, ptx_fma_bf16x2, ptx_mul_f16x2,
    ptx_extreme, ptx_ex2, ptx_rcp, ptx_setp, ptx_selp, ptx_mov, ptx_mapa;
ptx_thread_fn ptx_cp_async, ptx_cp_commit, ptx_cp_wait, ptx_ld, ptx_st;
ptx_warp_fn ptx_ldmatrix, ptx_mma, ptx_wgmma, ptx_wgmma_fence, ptx_wgmma_commit, ptx_wgmma_wait;
ptx_thread_fn ptx_mbar_init, ptx_mbar_arrive, ptx_mbar_expect, ptx_mbar_wait, ptx_fence_init,
    ptx_fence_async, ptx_tma_load, ptx_tma_store, ptx_bulk_commit, ptx_bulk_wait, ptx_st_async,
    ptx_cluster_arrive, ptx_cluster_wait, ptx_bar_sync;
ptx_warp_fn ptx_setmaxnreg;

#endif
