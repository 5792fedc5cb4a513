/* OpenBLAS's product, with memory for any number of threads: see blas.h. What has external linkage
 * here is linked with the archive's objects into one, which shows nothing but the functions of
 * blas.h. */
#include "runtime/launch/blas.h"
#include "runtime/base/lock.h"

#include <assert.h>
#include <limits.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- what OpenBLAS defines, and its objects use ---------------------------------------------- */

/* Constants of its header, which lies elsewhere on each machine. */
enum { ROW_MAJOR = 101, AS_IT_IS = 111, TRANSPOSED = 112 };
void cblas_sgemm(int order, int trans_a, int trans_b, int m, int n, int k, float alpha,
                 const float *a, int lda, const float *b, int ldb, float beta, float *c, int ldc);
/* Chooses the kernels for this processor. */
void gotoblas_dynamic_init(void);

/* In place of its own, which start threads, print and are not for several threads. */
extern void *gotoblas; /* the chosen kernels */
void *blas_memory_alloc(int purpose);
void blas_memory_free(void *memory);
void openblas_warning(int verbosity, const char *text);
int xerbla_(const char *routine, const int *argument, int length);

void *gotoblas;

void openblas_warning(int verbosity, const char *text) { (void)verbosity, (void)text; }

/* Tables of kernels say on stderr where a processor hides the size of its cache. */
size_t vtb__no_text(const void *text, size_t size, size_t n, FILE *file) __asm__("fwrite");
extern FILE *vtb__no_file __asm__("stderr");

FILE *vtb__no_file;

size_t vtb__no_text(const void *text, size_t size, size_t n, FILE *file) {
  (void)text, (void)size, (void)file;
  return n;
}

/* Called for arguments that are wrong, which blas_int() excludes. */
int xerbla_(const char *routine, const int *argument, int length) {
  (void)routine, (void)argument, (void)length;
  return 0;
}

/* ---- which kernels --------------------------------------------------------------------------- */

#if defined(__x86_64__)
/* Four sets of kernels are left of the many: those whose sums blas_kernels.c speaks for. */
static const char *const sets[] = {"Prescott", "Sandybridge", "Haswell", "SkylakeX"};

/* Words of OPENBLAS_CORETYPE, and the widest set that such a processor runs. */
static const struct {
  const char *name;
  int set;
} cores[] = {{"Katmai", 0},     {"Coppermine", 0},    {"Northwood", 0},   {"Prescott", 0},
             {"Banias", 0},     {"Core2", 0},         {"Penryn", 0},      {"Dunnington", 0},
             {"Nehalem", 0},    {"Athlon", 0},        {"Opteron", 0},     {"Opteron_SSE3", 0},
             {"Barcelona", 0},  {"Nano", 0},          {"Bobcat", 0},      {"Atom", 0},
             {"Bulldozer", 1},  {"Piledriver", 1},    {"Steamroller", 1}, {"Sandybridge", 1},
             {"Excavator", 2},  {"Haswell", 2},       {"Zen", 2},         {"SkylakeX", 3},
             {"Cooperlake", 3}, {"SapphireRapids", 3}};

/* The widest set of this processor. */
static int own_set(void) {
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw"))
    return 3;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return 2;
  return __builtin_cpu_supports("avx") ? 1 : 0;
}

/* The set that is asked for, as far as this processor has it; its own for names nobody knows. */
static const char *set_for(const char *asked) {
  int set = own_set();
  for (size_t i = 0; asked && i < sizeof cores / sizeof *cores; i++)
    if (strcasecmp(asked, cores[i].name) == 0 && cores[i].set < set) set = cores[i].set;
  return sets[set];
}

/* OpenBLAS's question to its environment. */
const char *vtb__environment(const char *name) __asm__("getenv");
const char *vtb__environment(const char *name) {
  const char *value = NULL;
  size_t n = strlen(name);
  for (char **at = environ; at && *at; at++)
    if (strncmp(*at, name, n) == 0 && (*at)[n] == '=') value = *at + n + 1;
  return strcmp(name, "OPENBLAS_CORETYPE") == 0 ? set_for(value) : value;
}
#endif

/* ---- memory of products ---------------------------------------------------------------------- */

/* As many as can multiply at the same time. A slot that a parent's thread had at a fork stays taken
 * in the child; there is no lock that could. */
enum { SLOTS = 1024 };
static struct {
  _Atomic bool taken;
  void *memory; /* of who has taken it */
} slots[SLOTS];
static _Atomic int users;

/* In the static block: a lazily made thread-local variable would end the process without memory. */
static _Thread_local int my_slot __attribute__((tls_model("initial-exec")));

/* Kernels of small products ask malloc() and do not look whether there was any: theirs is behind
 * the packed operands, which take up to 128 MiB. */
#define PACKED_ROOM ((size_t)129 << 20)
void *vtb__kernel_memory(size_t n) __asm__("malloc");
void vtb__kernel_memory_free(void *memory) __asm__("free");
static _Thread_local size_t my_used __attribute__((tls_model("initial-exec")));

void *blas_memory_alloc(int purpose) {
  (void)purpose;
  return slots[my_slot].memory;
}

void blas_memory_free(void *memory) { (void)memory; }

void *vtb__kernel_memory(size_t n) {
  char *memory = (char *)slots[my_slot].memory + PACKED_ROOM + my_used;
  my_used += (n + 63) / 64 * 64;
  return my_used <= VTB_BLAS_ROOM - PACKED_ROOM ? memory : NULL;
}

void vtb__kernel_memory_free(void *memory) { (void)memory; }

static bool take_kernels(int i) {
  return !atomic_load_explicit(&slots[i].taken, memory_order_relaxed) &&
         !atomic_exchange_explicit(&slots[i].taken, true, memory_order_acquire);
}

static void give(int i) { atomic_store_explicit(&slots[i].taken, false, memory_order_release); }

/* The one that this thread had last is warm. */
static bool take_memory(void) {
  while (!take_kernels(my_slot))
    if (++my_slot == SLOTS) my_slot = 0, sched_yield();
  if (slots[my_slot].memory) return true;
  void *memory = mmap(NULL, VTB_BLAS_ROOM, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory != MAP_FAILED) slots[my_slot].memory = memory;
  if (memory == MAP_FAILED) give(my_slot);
  return memory != MAP_FAILED;
}

static void give_all_back(void) {
  for (int i = 0; i < SLOTS; i++) {
    if (!take_kernels(i)) continue;
    if (slots[i].memory) munmap(slots[i].memory, VTB_BLAS_ROOM);
    slots[i].memory = NULL;
    give(i);
  }
}

/* ---- the interface --------------------------------------------------------------------------- */

void vtb__blas_retain(void) {
  static vtb_lock lock;
  static bool ready;
  atomic_fetch_add(&users, 1);
  if (!vtb_lock_take(&lock) && !ready) gotoblas = NULL; /* half chosen in the parent */
  if (!ready) gotoblas_dynamic_init();
  ready = true;
  vtb_lock_give(&lock);
}

void vtb__blas_release(void) {
  if (atomic_fetch_sub(&users, 1) == 1) give_all_back();
}

static int blas_int(int64_t v) {
  assert(v >= 0 && v <= INT_MAX); /* sizes of compiled code, whose tensors are far smaller */
  return (int)v;
}

bool vtb__blas_sgemm(int trans_a, int trans_b, int64_t m, int64_t n, int64_t k, float alpha,
                     const float *a, int64_t lda, const float *b, int64_t ldb, float beta, float *c,
                     int64_t ldc) {
  if (m == 0 || n == 0) return true;
  if (!take_memory()) return false;
  my_used = 0;
  cblas_sgemm(ROW_MAJOR, trans_a ? TRANSPOSED : AS_IT_IS, trans_b ? TRANSPOSED : AS_IT_IS,
              blas_int(m), blas_int(n), blas_int(k), alpha, a, blas_int(lda), b, blas_int(ldb),
              beta, c, blas_int(ldc));
  give(my_slot);
  return true;
}
