/* A training step in one process and by n ranks, which are threads here: equal parameters, equal
 * rows, what comes out side by side. */
#ifndef VTB_TEST_RANKS_H
#define VTB_TEST_RANKS_H

#include "frontend/compile/driver.h"
#include "runtime/artefact/init.h"
#include "runtime/base/update.h"
#include "runtime/launch/threads.h"
#include "tests/test.h"

#include <pthread.h>

enum { MOST_RANKS = 8, MOST_SUMS = 4096 };

/* ---- sums over threads, in the order of the ranks -------------------------------------------- */

typedef struct meeting {
  int n;
  pthread_barrier_t barrier;
  float *at[MOST_RANKS];
} meeting;

/* What is being summed holds NaN until it is waited for, so that whoever reads it shows. */
typedef struct rank_services {
  vtb_services s;
  meeting *meeting;
  int rank, n_begun, n_sums, n_waits, n_inside;
  float *begun[MOST_SUMS], *kept[MOST_SUMS];
  int64_t count[MOST_SUMS];
} rank_services;

/* The runtime hands its own copy of the services on. */
static _Thread_local rank_services *rank_of_thread;

static void rank_sum_begin(const vtb_services *s, float *at, int64_t n) {
  rank_services *r = rank_of_thread;
  (void)s;
  int k = r->n_begun++;
  if (k >= MOST_SUMS) exit(1);
  r->begun[k] = at;
  r->count[k] = n;
  r->kept[k] = malloc((size_t)(n + 1) * sizeof(float));
  memcpy(r->kept[k], at, (size_t)n * sizeof(float));
  for (int64_t i = 0; i < n; i++) at[i] = NAN;
  r->n_sums++;
}

static void rank_sum_wait(const vtb_services *s) {
  rank_services *r = rank_of_thread;
  (void)s;
  meeting *m = r->meeting;
  r->n_waits++;
  for (int k = 0; k < r->n_begun; k++) {
    m->at[r->rank] = r->kept[k];
    pthread_barrier_wait(&m->barrier);
    for (int64_t i = 0; i < r->count[k]; i++) {
      float sum = 0;
      for (int q = 0; q < m->n; q++) sum += m->at[q][i];
      r->begun[k][i] = sum;
    }
    pthread_barrier_wait(&m->barrier);
    free(r->kept[k]);
  }
  r->n_begun = 0;
}

/* The same for programs that tell of what is to be summed. */
static vtb_status rank_on_bucket(void *user, const vtb_bucket *b, vtb_error *err) {
  rank_services *r = user;
  (void)err;
  r->n_inside += b->inside;
  rank_sum_begin(&r->s, (float *)(uintptr_t)b->at, b->bytes / 4);
  rank_sum_wait(&r->s);
  return VTB_OK;
}

/* ---- what goes in ---------------------------------------------------------------------------- */

static inline size_t bytes_of(const vtb_tensor_info *t) {
  return (size_t)vtb_tensor_info_count(t) * 4;
}

static inline bool is_result(const vtb_tensor_info *t) {
  return t->io == VTB_IO_OUTPUT || t->io == VTB_IO_GRAD_OUT || t->io == VTB_IO_UPDATE;
}

/* "adamw t lr average clip scale beta1=0.9 ...": a scalar a row, as two numbers. */
static inline void fill_scalars(const vtb_tensor_info *t, float *out) {
  char text[512], *rest = NULL;
  snprintf(text, sizeof text, "%s", t->init);
  (void)strtok_r(text, " ", &rest);
  for (int row = 0; row < t->dim[0]; row++) {
    const char *word = strtok_r(NULL, " ", &rest), *value = word ? strchr(word, '=') : NULL;
    static const double fixed[VTB_N_SCALARS] = {1, 0.01, 0.5, 0, 1};
    out[2 * row] = (float)(value ? atof(value + 1) : row < VTB_N_SCALARS ? fixed[row] : 0);
    out[2 * row + 1] = 0;
  }
}

static bool all_count;      /* no row is padding */
static int test_pieces = 1; /* runs of an update */

/* Element i of the input as one process with `batch` rows has it. */
static inline double input_number(const vtb_tensor_info *t, int64_t i, int64_t row, int64_t rows,
                                  unsigned long long *state) {
  double x = test_random(state);
  if (!t->rank) return t->is_int ? 4711 : 1;
  if (strcmp(t->name, "valid") == 0) return all_count || row + 1 < rows;
  if (!t->is_int) return x;
  if (strcmp(t->name, "labels") == 0 && row == 1 && !all_count) return -1;
  return i % 7 == 3 && t->rank > 1 ? 255 : (double)(int)(2 + 2 * x);
}

/* Rows [first, first + batch) of `rows`. */
static inline void fill_input(const vtb_tensor_info *t, int64_t batch, int64_t first, int64_t rows,
                              void *out) {
  bool split = t->rank && t->dim[0] == batch;
  int64_t n = vtb_tensor_info_count(t), row = split ? n / batch : n;
  unsigned long long state = 88172645463325252ull;
  for (int64_t i = 0; i < (split ? rows * row : n); i++) {
    double x = input_number(t, i % row, i / row, rows, &state);
    int64_t at = split ? i - first * row : i;
    if (at < 0 || at >= n) continue;
    if (t->is_int)
      ((int32_t *)out)[at] = (int32_t)x;
    else
      ((float *)out)[at] = (float)x;
  }
}

static inline void fill(const vtb_tensor_info *t, int64_t batch, int64_t first, int64_t rows,
                        void *out) {
  vtb_error err = {0};
  float *f = out;
  if (is_result(t)) {
    memset(out, 0xff, bytes_of(t));
  } else if (strcmp(t->name, VTB_UPDATE_SCALARS) == 0) {
    fill_scalars(t, f);
  } else if (strcmp(t->name, VTB_UPDATE_RATES) == 0) {
    for (int64_t i = 0; i < vtb_tensor_info_count(t); i++) f[i] = 1;
  } else if (strcmp(t->name, VTB_UPDATE_SHARE) == 0) {
    f[0] = f[1] = 1;
  } else if (strcmp(t->name, VTB_RANK_FIRST) == 0) {
    *(int32_t *)out = (int32_t)first;
  } else if (t->io == VTB_IO_INPUT) {
    fill_input(t, batch, first, rows, out);
  } else if (t->io == VTB_IO_STATE) {
    memset(out, 0, bytes_of(t));
  } else {
    CHECK_MSG(vtb_init_tensor(t->init, t->name, 7, t->rank, t->dim, f, &err) == VTB_OK, "%s",
              err.text);
    unsigned long long state = 1234567 + (unsigned long long)t->name[0];
    for (int64_t i = 0; i < vtb_tensor_info_count(t); i++)
      f[i] += (float)(t->io == VTB_IO_PARAM ? 0.02 * test_random(&state) : 0);
  }
}

/* ---- a run ----------------------------------------------------------------------------------- */

typedef struct rank_run {
  vtb_program *p;
  void **args;
  void *workspace;
  rank_services services;
  vtb_services *alone;
  int ranks, pieces, n_counted;
  vtb_status status;
  vtb_error err;
} rank_run;

/* What is given to a run: its rows, and whether it is the update's last. */
static inline void fill_piece(rank_run *r, int piece) {
  const vtb_program *p = r->p;
  int share = vtb_program_find(p, VTB_UPDATE_SHARE);
  int64_t first = (r->services.rank * r->pieces + piece) * p->batch;
  for (int i = 0; i < p->n_tensors; i++)
    if (p->tensors[i].io == VTB_IO_INPUT)
      fill(&p->tensors[i], p->batch, first, p->batch * r->ranks * r->pieces, r->args[i]);
  bool is_last = piece == r->pieces - 1;
  if (p->run) r->p->is_part = !is_last;
  if (share < 0) return;
  ((float *)r->args[share])[0] = 1 / (float)r->pieces;
  ((float *)r->args[share])[1] = is_last;
}

static inline void *run_rank(void *user) {
  rank_run *r = user;
  vtb_program *p = r->p;
  int verdict = vtb_program_find(p, VTB_UPDATE_VERDICT);
  if (p->exchange) r->status = vtb_program_exchange(p, r->args, true, &r->err);
  for (int piece = 0; piece < r->pieces && r->status == VTB_OK; piece++) {
    fill_piece(r, piece);
    rank_of_thread = &r->services;
    r->status = vtb_program_execute(p, r->args, r->workspace, &r->services.s, &r->err);
    if (r->status == VTB_OK) r->n_counted += ((float *)r->args[verdict])[VTB_VERDICT_COUNTS] != 0;
  }
  if (r->status == VTB_OK && p->exchange)
    r->status = vtb_program_exchange(p, r->args, false, &r->err);
  return NULL;
}

/* Updates have the memory of what they update, as in training. */
static inline void rank_open(rank_run *r, vtb_program *p, int rank, int ranks, meeting *m) {
  *r = (rank_run){.p = p, .ranks = ranks, .pieces = test_pieces};
  r->alone = vtb_services_default(1);
  r->services.s = *r->alone;
  r->services.meeting = m;
  r->services.rank = rank;
  if (ranks > 1) {
    r->services.s.sum_begin = rank_sum_begin;
    r->services.s.sum_wait = rank_sum_wait;
    p->on_bucket = rank_on_bucket;
    p->bucket_user = &r->services;
  }
  r->args = calloc((size_t)p->n_tensors + 1, sizeof *r->args);
  for (int i = 0; i < p->n_tensors; i++) {
    if (p->tensors[i].io == VTB_IO_UPDATE) continue;
    r->args[i] = aligned_alloc(64, (bytes_of(&p->tensors[i]) + 127) / 64 * 64);
    fill(&p->tensors[i], p->batch, p->batch * rank, p->batch * ranks, r->args[i]);
  }
  for (int i = 0; i < p->n_tensors; i++)
    if (p->tensors[i].io == VTB_IO_UPDATE)
      r->args[i] = r->args[vtb_program_find(p, p->tensors[i].name + strlen("updated."))];
  r->workspace = aligned_alloc(64, ((size_t)p->workspace_bytes + 127) / 64 * 64);
  memset(r->workspace, 0xff, (size_t)p->workspace_bytes);
}

static inline void rank_close(rank_run *r) {
  for (int i = 0; i < r->p->n_tensors; i++)
    if (r->p->tensors[i].io != VTB_IO_UPDATE) free(r->args[i]);
  free(r->args);
  free(r->workspace);
  vtb_services_free(r->alone);
}

/* The step of p[0] ... p[n - 1] by n ranks at once. */
static inline void run_programs(vtb_program *const *p, int n, rank_run *runs) {
  static meeting m;
  pthread_t threads[MOST_RANKS];
  m.n = n;
  pthread_barrier_init(&m.barrier, NULL, (unsigned)n);
  for (int r = 0; r < n; r++) rank_open(&runs[r], p[r], r, n, &m);
  for (int r = 0; r < n; r++) pthread_create(&threads[r], NULL, run_rank, &runs[r]);
  for (int r = 0; r < n; r++) pthread_join(threads[r], NULL);
  for (int r = 0; r < n; r++) CHECK_MSG(runs[r].status == VTB_OK, "%s", runs[r].err.text);
  pthread_barrier_destroy(&m.barrier);
}

/* Of native code, which is one program for all. */
static inline void run_ranks(vtb_program *p, int n, rank_run *runs) {
  vtb_program *programs[MOST_RANKS];
  for (int r = 0; r < n; r++) programs[r] = p;
  run_programs(programs, n, runs);
}

/* ---- comparing ------------------------------------------------------------------------------- */

/* Results of one process against those of the ranks: rows where the ranks have rows, else on all
 * ranks the same bits. */
static inline void compare(const char *what, const rank_run *one, const rank_run *runs, int n,
                           double tolerance) {
  for (int i = 0; i < one->p->n_tensors; i++) {
    const vtb_tensor_info *t = &one->p->tensors[i];
    bool on_device = vtb_program_is_resident(one->p, i);
    if (is_result(t) ? on_device : t->io == VTB_IO_INPUT) continue;
    if (t->io == VTB_IO_OUTPUT && runs[0].pieces > 1) continue; /* of the last piece */
    int k = vtb_program_find(runs[0].p, t->name);
    CHECK_MSG(k >= 0, "%s: the ranks do not give %s", what, t->name);
    if (k < 0 || strcmp(t->name, VTB_UPDATE_VERDICT) == 0) continue;
    int64_t count = vtb_tensor_info_count(t), each = vtb_tensor_info_count(&runs[0].p->tensors[k]);
    bool split = t->rank && each * n == count && t->dim[0] == one->p->batch;
    const float *want = one->args[i];
    double worst = 0, largest = 1e-30;
    for (int64_t e = 0; e < count; e++) {
      const float *got = runs[split ? e / each : 0].args[k];
      double difference = fabs((double)got[split ? e % each : e] - (double)want[e]);
      worst = difference <= worst ? worst : difference;
      largest = fmax(largest, fabs((double)want[e]));
    }
    CHECK_MSG(worst <= tolerance * largest + 2e-7, "%s, %d ranks: %s differs by %g of %g", what, n,
              t->name, worst, largest);
    for (int r = 1; r < n && !split; r++)
      CHECK_MSG(memcmp(runs[r].args[k], runs[0].args[k], bytes_of(t)) == 0,
                "%s: rank %d has other bits of %s", what, r, t->name);
  }
}

#endif
