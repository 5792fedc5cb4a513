/* See pairs.h. */
#include "frontend/study/pairs.h"

#include "runtime/base/random.h"

#include <stdlib.h>
#include <string.h>

size_t study_grid_count(const study *s) {
  size_t n = 1;
  for (size_t i = 0; i < s->axes.n; i++) {
    size_t values = s->axes.at[i].values.n;
    if (values && n > SIZE_MAX / 2 / values) return SIZE_MAX / 2;
    n *= values;
  }
  return n;
}

void study_grid_row(const study *s, size_t k, study_rows *out) {
  size_t first = out->n;
  for (size_t i = 0; i < s->axes.n; i++) vtb_vec_push(out, 0);
  for (size_t i = s->axes.n; i-- > 0;) {
    out->at[first + i] = k % s->axes.at[i].values.n;
    k /= s->axes.at[i].values.n;
  }
}

/* ---- pairs ----------------------------------------------------------------------------------- */

/* Rows are made one by one. Each begins with the first pair that is not covered; the other axes get
 * the value that covers most with those that are fixed already. */
typedef struct cover {
  const study *s;
  size_t n;       /* axes */
  size_t *offset; /* of an axis's values among all */
  size_t total;   /* values of all axes */
  bool *covered;  /* total x total, the earlier axis first */
  study_allowed allowed;
  void *user;
} cover;

enum { MOST_TRIES = 2000 };
#define FREE ((size_t)-1)

static bool *pair(const cover *c, size_t i, size_t a, size_t j, size_t b) {
  size_t x = c->offset[i] + a, y = c->offset[j] + b;
  return &c->covered[x < y ? x * c->total + y : y * c->total + x];
}

static size_t values(const cover *c, size_t axis) { return c->s->axes.at[axis].values.n; }

/* Pairs that value a of axis i would cover with what is fixed; among equals, those that it has yet
 * to cover with the others. */
static size_t gain(const cover *c, const size_t *row, size_t i, size_t a) {
  size_t now = 0, later = 0;
  for (size_t j = 0; j < c->n; j++)
    for (size_t b = 0; b < values(c, j) && j != i; b++) {
      if (*pair(c, i, a, j, b)) continue;
      now += row[j] == b;
      later += row[j] == FREE;
    }
  return now * (c->total + 1) + later;
}

/* Fills the free axes from `at` on, the best values first; false if no row that was tried is
 * allowed. */
static bool fill_row(const cover *c, size_t *row, size_t at, int *tries) {
  while (at < c->n && row[at] != FREE) at++;
  if (at == c->n) {
    ++*tries;
    return c->allowed(c->user, row);
  }
  size_t n = values(c, at);
  bool *tried = vtb_xcalloc(n, sizeof *tried), done = false;
  for (size_t k = 0; k < n && !done && *tries < MOST_TRIES; k++) {
    size_t best = FREE, most = 0;
    for (size_t a = 0; a < n; a++) {
      size_t g = tried[a] ? 0 : gain(c, row, at, a);
      if (!tried[a] && (best == FREE || g > most)) best = a, most = g;
    }
    tried[best] = true;
    row[at] = best;
    done = fill_row(c, row, at + 1, tries);
    if (!done) row[at] = FREE;
  }
  vtb_free(tried);
  return done;
}

static void mark(const cover *c, const size_t *row) {
  for (size_t i = 0; i < c->n; i++)
    for (size_t j = i + 1; j < c->n; j++) *pair(c, i, row[i], j, row[j]) = true;
}

/* The pair of values a and b, unless it is covered or in no row. */
static void cover_pair(const cover *c, size_t i, size_t a, size_t j, size_t b, study_rows *out) {
  if (*pair(c, i, a, j, b)) return;
  size_t *row = vtb_xcalloc(c->n, sizeof *row);
  int tries = 0;
  for (size_t k = 0; k < c->n; k++) row[k] = FREE;
  row[i] = a;
  row[j] = b;
  if (fill_row(c, row, 0, &tries)) {
    mark(c, row);
    for (size_t k = 0; k < c->n; k++) vtb_vec_push(out, row[k]);
  }
  vtb_free(row);
}

void study_pairs(const study *s, study_allowed allowed, void *user, study_rows *out) {
  cover c = {.s = s, .n = s->axes.n, .allowed = allowed, .user = user};
  c.offset = vtb_xcalloc(c.n + 1, sizeof *c.offset);
  for (size_t i = 0; i < c.n; i++) {
    c.offset[i] = c.total;
    c.total += values(&c, i);
  }
  c.covered = vtb_xcalloc(c.total * c.total + 1, sizeof *c.covered);
  for (size_t k = 0; c.n == 1 && k < values(&c, 0); k++)
    if (allowed(user, &k)) vtb_vec_push(out, k);
  for (size_t i = 0; i < c.n; i++)
    for (size_t j = i + 1; j < c.n; j++)
      for (size_t a = 0; a < values(&c, i); a++)
        for (size_t b = 0; b < values(&c, j); b++) cover_pair(&c, i, a, j, b, out);
  vtb_free(c.covered);
  vtb_free(c.offset);
}

/* ---- samples --------------------------------------------------------------------------------- */

static int by_number(const void *a, const void *b) {
  size_t x = *(const size_t *)a, y = *(const size_t *)b;
  return (x > y) - (x < y);
}

static bool holds(const size_t *at, size_t n, size_t k) {
  for (size_t i = 0; i < n; i++)
    if (at[i] == k) return true;
  return false;
}

/* 64 bits of the seed's i-th draw. */
static uint64_t draw(const study *s, uint32_t i) {
  return (uint64_t)vtb_random_hash((uint32_t)s->seed, 0, i) << 32 |
         vtb_random_hash((uint32_t)s->seed, 1, i);
}

void study_draw(const study *s, study_allowed allowed, void *user, study_rows *out) {
  VTB_VEC(size_t) taken = {0};
  size_t n = study_grid_count(s), wanted = (size_t)s->sample < n ? (size_t)s->sample : n;
  VTB_VEC(size_t) seen = {0};
  study_rows row = {0};
  bool shuffled = n <= STUDY_MOST_CELLS; /* else what is drawn twice is drawn again */
  for (size_t k = 0; shuffled && k < n; k++) vtb_vec_push(&seen, k);
  for (uint32_t i = 0; taken.n < wanted && i < (shuffled ? n : STUDY_MOST_CELLS); i++) {
    size_t k = draw(s, i) % (shuffled ? n - i : n);
    if (shuffled) {
      size_t other = seen.at[i + k];
      seen.at[i + k] = seen.at[i];
      k = seen.at[i] = other;
    }
    row.n = 0;
    study_grid_row(s, k, &row);
    if ((shuffled || !holds(taken.at, taken.n, k)) && allowed(user, row.at))
      vtb_vec_push(&taken, k);
  }
  if (taken.n) qsort(taken.at, taken.n, sizeof *taken.at, by_number);
  for (size_t i = 0; i < taken.n; i++) study_grid_row(s, taken.at[i], out);
  vtb_vec_free(&seen);
  vtb_vec_free(&taken);
  vtb_vec_free(&row);
}
