/* Products: the same bits on any number of threads and in every place of a matrix, in children of
 * processes that multiply, without memory an error, and nothing of it is the host's OpenBLAS. */
#include "runtime/launch/blas.h"
#include "runtime/base/base.h"
#include "runtime/launch/threads.h"
#include "tests/runtime/support.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

/* ---- products of all kinds ------------------------------------------------------------------- */

static const struct {
  int m, n, k;
} sizes[] = {{1, 1, 1},   {5, 7, 3},     {16, 16, 16},   {33, 65, 129},  {1, 40, 300},
             {97, 1, 50}, {64, 100, 40}, {50, 391, 391}, {130, 33, 770}, {3, 2000, 5}};
enum { N_SIZES = sizeof sizes / sizeof *sizes, MOST = 160000 };
static float a[MOST], b[MOST], before[MOST];

static void fill(void) {
  unsigned long long state = 7;
  for (int i = 0; i < MOST; i++) {
    a[i] = (float)test_random(&state);
    b[i] = (float)test_random(&state);
    before[i] = (float)test_random(&state);
  }
}

/* Kind 0 to 7: which operand is transposed, and whether the result is added to. */
static bool multiply(int size, int kind, float *c) {
  int m = sizes[size].m, n = sizes[size].n, k = sizes[size].k, ta = kind & 1, tb = kind >> 1 & 1;
  float beta = kind & 4 ? 0.5f : 0;
  memcpy(c, before, sizeof(float) * (size_t)(m * n));
  return vtb__blas_sgemm(ta, tb, m, n, k, 2, a, ta ? m : k, b, tb ? k : n, beta, c, n);
}

static double element(int size, int kind, int i, int j) {
  int m = sizes[size].m, n = sizes[size].n, k = sizes[size].k;
  double sum = 0;
  for (int x = 0; x < k; x++)
    sum +=
        (double)a[kind & 1 ? x * m + i : i * k + x] * (double)b[kind & 2 ? j * k + x : x * n + j];
  return 2 * sum + (kind & 4 ? 0.5 * (double)before[i * n + j] : 0);
}

static void check_products(void) {
  static float c[MOST];
  vtb__blas_retain();
  for (int size = 0; size < N_SIZES; size++)
    for (int kind = 0; kind < 8; kind++) {
      CHECK(multiply(size, kind, c));
      double worst = 0;
      for (int i = 0; i < sizes[size].m; i++)
        for (int j = 0; j < sizes[size].n; j++) {
          double e = fabs((double)c[i * sizes[size].n + j] - element(size, kind, i, j));
          if (!(e <= worst)) worst = e;
        }
      CHECK_MSG(worst <= 1e-4, "%d x %d x %d, kind %d: %g", sizes[size].m, sizes[size].n,
                sizes[size].k, kind, worst);
    }
  vtb__blas_release();
}

/* An element is the same bits wherever it stands: of rows of A that are alike every row of C is,
 * and of columns of B that are alike every column, whatever of tiles is left over. */
static void check_places(void) {
  enum { MOST_SIDE = 53, OTHER = 37, K = 131 };
  static float c[MOST_SIDE * OTHER];
  static const int others[] = {1, 2, 7, 16, 33, OTHER}, ks[] = {1, 30, K};
  static float same[K * MOST_SIDE];
  vtb__blas_retain();
  for (int side = 2; side <= MOST_SIDE; side++)
    for (int kind = 0; kind < 36 * 2; kind++) {
      bool ta = kind & 1, tb = kind >> 1 & 1, rows = kind >= 36;
      int other = others[kind / 4 % 3 * 2 + side % 2], k = ks[kind / 12 % 3], wrong_ones = 0;
      for (int x = 0; x < k; x++)
        for (int i = 0; i < side; i++) same[(rows ? ta : !tb) ? x * side + i : i * k + x] = a[x];
      int m = rows ? side : other, n = rows ? other : side;
      CHECK(vtb__blas_sgemm(ta, tb, m, n, k, 1, rows ? same : b, ta ? m : k, rows ? b : same,
                            tb ? k : n, 0, c, n));
      for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++)
          wrong_ones += memcmp(&c[i * n + j], rows ? &c[j] : &c[i * n], sizeof *c) != 0;
      CHECK_MSG(wrong_ones == 0, "%d x %d x %d, kind %d: %d elements of equal %s differ", m, n, k,
                kind, wrong_ones, rows ? "rows" : "columns");
    }
  vtb__blas_release();
}

static void check_kernels(void) {
  check_products();
  check_places();
}

/* Its exit status, 99: killed. */
static int in_child(void (*work)(void)) {
  int status = 0;
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    alarm(20);
    work();
    _exit(test_failures != 0);
  }
  if (child < 0 || waitpid(child, &status, 0) != child) return 98;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 99;
}

/* A set of kernels is chosen once, by OpenBLAS's own variable, and never one that the processor has
 * not. */
TEST(products_are_right_with_the_kernels_of_each_processor_wherever_they_stand) {
  static const char *const names[] = {"Prescott", "Core2", "Nehalem",  "Sandybridge",
                                      "Haswell",  "Zen",   "SkylakeX", "nobody's"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    setenv("OPENBLAS_CORETYPE", names[i], 1);
    CHECK_MSG(in_child(check_kernels) == 0, "kernels of %s", names[i]);
  }
  unsetenv("OPENBLAS_CORETYPE");
  check_kernels();
}

static uint64_t *hash; /* in memory that children share */

static void hash_product(void) {
  enum { SIDE = 48 };
  static float c[SIDE * SIDE];
  vtb__blas_retain();
  if (!vtb__blas_sgemm(0, 0, SIDE, SIDE, SIDE, 1, a, SIDE, b, SIDE, 0, c, SIDE)) _exit(1);
  *hash = vtb_hash64(c, sizeof c);
  vtb__blas_release();
}

static uint64_t hash_with(const char *core) {
  if (core) setenv("OPENBLAS_CORETYPE", core, 1);
  CHECK(in_child(hash_product) == 0);
  unsetenv("OPENBLAS_CORETYPE");
  return *hash;
}

TEST(names_of_processors_choose_among_the_sets) {
  hash = mmap(NULL, sizeof *hash, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  uint64_t own = hash_with(NULL);
  CHECK(hash_with("nobody's") == own && hash_with("") == own && hash_with("skylakex") == own);
  CHECK(hash_with("Nehalem") == hash_with("Prescott") && hash_with("Zen") == hash_with("haswell"));
#if defined(__x86_64__)
  if (__builtin_cpu_supports("fma")) CHECK(hash_with("Prescott") != own); /* rounds twice */
#endif
  munmap(hash, sizeof *hash);
}

/* ---- threads --------------------------------------------------------------------------------- */

static float *want[N_SIZES];
static atomic_int wrong;
static atomic_bool stop;

static void *multiply_at_random(void *seed) {
  unsigned state = (unsigned)(uintptr_t)seed;
  float *c = malloc(sizeof *c * MOST);
  for (int round = 0; round < 2000; round++) {
    int size = rand_r(&state) % N_SIZES;
    if (sizes[size].m > 100) continue;
    bool done = multiply(size, 0, c);
    if (!done || memcmp(c, want[size], sizeof(float) * (size_t)(sizes[size].m * sizes[size].n)))
      atomic_fetch_add(&wrong, 1);
  }
  free(c);
  return NULL;
}

TEST(eight_threads_have_the_bits_of_one) {
  pthread_t threads[8];
  for (int i = 0; i < N_SIZES; i++) {
    want[i] = malloc(sizeof(float) * MOST);
    CHECK(multiply(i, 0, want[i]));
  }
  for (int i = 0; i < 8; i++)
    pthread_create(&threads[i], NULL, multiply_at_random, (void *)(uintptr_t)(i + 1));
  for (int i = 0; i < 8; i++) pthread_join(threads[i], NULL);
  CHECK_MSG(wrong == 0, "%d products are wrong", (int)wrong);
}

/* ---- forks ----------------------------------------------------------------------------------- */

static void *multiply_until_stopped(void *unused) {
  static _Thread_local float c[256];
  (void)unused;
  while (!atomic_load(&stop))
    if (!multiply(2, 0, c)) atomic_fetch_add(&wrong, 1);
  return NULL;
}

static void multiply_once(void) {
  float c[256];
  CHECK(multiply(2, 0, c) && memcmp(c, want[2], sizeof c) == 0);
}

TEST(children_of_a_process_that_multiplies_multiply) {
  pthread_t threads[4];
  for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, multiply_until_stopped, NULL);
  for (int i = 0; i < 50; i++) {
    int status = in_child(multiply_once);
    CHECK_MSG(status == 0, "child %d ends with %d", i, status);
    if (status) break;
  }
  atomic_store(&stop, true);
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
  CHECK(wrong == 0);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static size_t addresses(void) {
  size_t pages = 0;
  FILE *f = fopen("/proc/self/statm", "r");
  if (!f || fscanf(f, "%zu", &pages) != 1) pages = 0;
  if (f) fclose(f);
  return pages * (size_t)sysconf(_SC_PAGESIZE);
}

static void limit_addresses(size_t bytes) {
  struct rlimit l;
  getrlimit(RLIMIT_AS, &l);
  l.rlim_cur = bytes;
  setrlimit(RLIMIT_AS, &l);
}

static void one_product(void *const *args, void *workspace, const vtb_services *s) {
  (void)workspace;
  s->sgemm(0, 0, 16, 16, 16, 2, a, 16, b, 16, 0, args[0], 16);
}

TEST(memory_is_taken_once_and_given_back) {
  static float c[256];
  void *args[] = {c};
  vtb_program p = {.entry = one_product};
  size_t free_of_it = addresses();
  vtb_services *s = vtb_services_default(1);
  for (int i = 0; i < 3; i++) CHECK_OK(vtb_program_execute(&p, args, NULL, s, err));
  size_t with_it = addresses();
  CHECK_MSG(with_it - free_of_it >= VTB_BLAS_ROOM && with_it - free_of_it < 2 * VTB_BLAS_ROOM,
            "%zu", with_it - free_of_it);
  vtb_services_free(s);
  CHECK(addresses() < free_of_it + VTB_BLAS_ROOM / 2);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && !defined(__clang__)
  s = vtb_services_default(1);
  limit_addresses(addresses() + VTB_BLAS_ROOM / 2);
  CHECK_REFUSED(vtb_program_execute(&p, args, NULL, s, err), "out of memory for products");
  limit_addresses(RLIM_INFINITY);
  CHECK_OK(vtb_program_execute(&p, args, NULL, s, err)); /* and the refusal is forgotten */
  CHECK(memcmp(c, want[2], sizeof c) == 0);
  vtb_services_free(s);
#else
  (void)limit_addresses;
#endif
}

/* ---- the host's OpenBLAS --------------------------------------------------------------------- */

static bool is_mapped(const char *name) {
  char line[1024];
  bool found = false;
  FILE *f = fopen("/proc/self/maps", "r");
  while (f && fgets(line, sizeof line, f)) found |= strstr(line, name) != NULL;
  if (f) fclose(f);
  return found;
}

static int (*host_threads)(void);
static int host_threads_inside;

static void look_at_host(void *const *args, void *workspace, const vtb_services *s) {
  one_product(args, workspace, s);
  host_threads_inside = host_threads();
}

/* Loaded for everybody to see, with names that OpenBLAS's objects use, it is not found by them. */
static void run_beside_host(void *host) {
  static float c[256];
  void *args[] = {c};
  vtb_program p = {.entry = look_at_host};
  void (*set_threads)(int) = NULL;
  *(void **)&host_threads = dlsym(host, "openblas_get_num_threads");
  *(void **)&set_threads = dlsym(host, "openblas_set_num_threads");
  CHECK(host_threads && set_threads);
  if (!host_threads || !set_threads) return;
  set_threads(2);
  int before_run = host_threads();
  vtb_services *s = vtb_services_default(2);
  CHECK_OK(vtb_program_execute(&p, args, NULL, s, err));
  CHECK(host_threads_inside == before_run && host_threads() == before_run);
  CHECK(memcmp(c, want[2], sizeof c) == 0);
  vtb_services_free(s);
  CHECK(host_threads() == before_run);
}

int main(void) {
  fill();
  bool alone = !is_mapped("openblas");
  void *host = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_GLOBAL);
  RUN(names_of_processors_choose_among_the_sets);
  RUN(products_are_right_with_the_kernels_of_each_processor_wherever_they_stand);
  vtb__blas_retain();
  RUN(eight_threads_have_the_bits_of_one);
  RUN(children_of_a_process_that_multiplies_multiply);
  vtb__blas_release();
  RUN(memory_is_taken_once_and_given_back);
  CHECK_MSG(alone, "an OpenBLAS is loaded with the library");
  if (host)
    run_beside_host(host);
  else
    puts("no OpenBLAS of a host's is installed: libopenblas0-pthread");
  for (int i = 0; i < N_SIZES; i++) free(want[i]);
  return test_done();
}
