/* A module shared out over ranks, which are interpreters that run at once in double precision: what
 * they return together is what one returns. */
#ifndef VTB_TEST_RANK_CHECK_H
#define VTB_TEST_RANK_CHECK_H

#include "tests/passes/pass_check.h"
#include "ir/ops.h"

#include <pthread.h>

enum { MOST_RANKS = 4, ROWS = 2 }; /* rows of each */

static int rank_count = 3;

typedef struct rank {
  vtb_module *m;
  vtb_tensor *args, *results;
  int number;
} rank;

static pthread_barrier_t barrier;
static double *parts[MOST_RANKS];

static inline void sum(void *user, double *at, int64_t n) {
  const rank *r = user;
  double *mine = vtb_xcalloc((size_t)n + 1, sizeof *mine);
  memcpy(mine, at, (size_t)n * sizeof *mine);
  parts[r->number] = mine;
  pthread_barrier_wait(&barrier);
  for (int64_t i = 0; i < n; i++) {
    at[i] = 0;
    for (int q = 0; q < rank_count; q++) at[i] += parts[q][i];
  }
  pthread_barrier_wait(&barrier);
  vtb_free(mine);
}

static inline void *run(void *user) {
  rank *r = user;
  vtb_error err = {0};
  vtb_interp_options o = {.batch = ROWS, .sum = sum, .user = r};
  r->results = vtb_xcalloc((size_t)r->m->entry->n_returns + 1, sizeof *r->results);
  CHECK_MSG(vtb_interpret(r->m->entry, r->args, r->results, &o, &err) == VTB_OK, "%s", err.text);
  return NULL;
}

/* Elements of a rank's rows within those of all: x of type `all` to or from y of type `own`. */
static inline void copy_rows(const vtb_tensor *all, const vtb_tensor *own, int number, bool back) {
  int64_t outer = 1, inner = 1;
  int axis = 0;
  while (axis < all->type.rank && all->type.dim[axis].size == own->type.dim[axis].size)
    outer *= all->type.dim[axis++].size;
  bool split = axis < all->type.rank;
  for (int a = axis + 1; a < all->type.rank; a++) inner *= all->type.dim[a].size;
  for (int64_t o = 0; o < outer; o++)
    for (int64_t k = 0; k < (split ? ROWS * inner : 1); k++) {
      double *x =
          all->data + (split ? o * rank_count * ROWS * inner + number * ROWS * inner + k : o);
      double *y = own->data + (split ? o * ROWS * inner + k : o);
      if (back)
        *x = *y;
      else
        *y = *x;
    }
}

static inline vtb_tensor *args_of(const vtb_func *f, const vtb_func *whole, const vtb_tensor *all,
                                  int number) {
  vtb_tensor *args = random_args(f, ROWS, 1);
  for (int i = 0; i < f->n_args; i++)
    if (i < whole->n_args)
      copy_rows(&all[i], &args[i], number, false);
    else
      args[i].data[0] = number * ROWS; /* its first row */
  return args;
}

static inline vtb_module *shared(const vtb_module *m, int ranks, vtb_diags *d) {
  vtb_module *made = vtb_module_clone(m);
  vtb_error err = {0};
  vtb_pass_context c = {.module = made, .ranks = ranks, .diags = d};
  vtb_status status =
      vtb_run_pipeline(&c, &(vtb_pipeline_options){.pipeline = "ranks", .verify_each = true}, &err);
  if (status == VTB_OK) return made;
  CHECK_MSG(d->n_errors > 0, "%s", err.text);
  vtb_module_free(made);
  return NULL;
}

/* What the ranks return together is what one returns; they sum `sums` times, below 0: however
 * often. */
static inline void check_ranks(const char *text, int sums) {
  vtb_module *m = parse_ir(text);
  vtb_diags d = {0};
  vtb_module *part = shared(m, rank_count, &d);
  vtb_diags_print(&d, stderr);
  CHECK(part != NULL);
  if (!part) return;
  CHECK_MSG(sums < 0 || count_ops(part, VTB_OP_sum_ranks) == sums, "%d sums",
            count_ops(part, VTB_OP_sum_ranks));
  vtb_tensor *all = random_args(m->entry, rank_count * ROWS, 77);
  for (int i = 0; i < m->entry->n_args; i++)
    if (m->entry->args[i]->type.dtype == VTB_I32) all[i].data[0] = 5;
  vtb_tensor *want = interpret(m, all, rank_count * ROWS);
  pthread_t threads[MOST_RANKS];
  rank ranks[MOST_RANKS];
  pthread_barrier_init(&barrier, NULL, (unsigned)rank_count);
  for (int r = 0; r < rank_count; r++) {
    ranks[r] = (rank){.m = vtb_module_clone(part), .number = r};
    ranks[r].args = args_of(ranks[r].m->entry, m->entry, all, r);
    pthread_create(&threads[r], NULL, run, &ranks[r]);
  }
  for (int r = 0; r < rank_count; r++) pthread_join(threads[r], NULL);
  pthread_barrier_destroy(&barrier);
  for (int i = 0; i < m->entry->n_returns; i++) {
    vtb_tensor got = vtb_tensor_new(want[i].type);
    for (int r = 0; r < rank_count; r++) copy_rows(&got, &ranks[r].results[i], r, true);
    double error = largest_error(&got, &want[i]);
    CHECK_MSG(error < 1e-12, "result %d is %g off in\n%s", i, error, text);
    vtb_tensor_free(&got);
  }
  for (int r = 0; r < rank_count; r++) {
    free_tensors(ranks[r].args, part->entry->n_args);
    free_tensors(ranks[r].results, part->entry->n_returns);
    vtb_module_free(ranks[r].m);
  }
  free_tensors(want, m->entry->n_returns);
  free_tensors(all, m->entry->n_args);
  vtb_module_free(part);
  vtb_module_free(m);
}

#endif
