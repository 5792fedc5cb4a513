/* Measured times of recurrences, in each mode and chunk, on one kind of processor: rows that
 * `vertebra tune` writes and that the mode auto is decided by (passes/recurrence/select_mode.c).
 *
 * Ownership: a table is its maker's. One thread. Its text: frontend/compile/tuning_text.c.
 */
#ifndef VTB_TUNING_H
#define VTB_TUNING_H

#include "ir/ir.h"
#include "passes/target.h"

/* The key of a time. Zeroed, then filled: compared as bytes. */
typedef struct vtb_tuning_key {
  char target[16], op[16], klass[16];
  int64_t precision, threads;
  int64_t batch, tokens, heads, rank, K, V, normalizer;
} vtb_tuning_key;

typedef struct vtb_tuning_row {
  vtb_tuning_key key;
  char mode[12];
  int64_t chunk; /* 0 unless the mode is chunkwise */
  int64_t nanoseconds;
} vtb_tuning_row;

typedef struct vtb_tuning {
  VTB_VEC(vtb_tuning_row) rows;
  char processor[128];
} vtb_tuning;

/* The key of a linscan, linscan_grad or delta of known sizes. */
vtb_tuning_key vtb_tuning_key_of(const vtb_inst *inst, const vtb_target *target,
                                 vtb_precision precision, int threads);
bool vtb_tuning_same_key(const vtb_tuning_key *a, const vtb_tuning_key *b);
/* In place of what was there for the same key, mode and chunk. */
void vtb_tuning_set(vtb_tuning *t, const vtb_tuning_row *row);
/* Sets every row of `from`. */
void vtb_tuning_merge(vtb_tuning *t, const vtb_tuning *from);
void vtb_tuning_free(vtb_tuning *t);

/* The time measured for the key in that form; 0: none. */
double vtb_tuning_seconds(const vtb_tuning *t, const vtb_tuning_key *key, const char *mode,
                          int64_t chunk);

typedef struct vtb_tuned {
  const char *mode; /* the table's */
  int64_t chunk;
  double seconds;
  const char *other; /* the fastest of another mode; NULL: none was measured */
  int64_t other_chunk;
  double other_seconds;
  int64_t below, above; /* numbers of tokens that were measured; equal: this one or one near it */
  int64_t batch;        /* that was measured */
} vtb_tuned;
/* The fastest that was measured for the key; or for another batch whose heads keep all threads busy
 * likewise; or between two numbers of tokens at most four times apart, where both have a row, of
 * times that grow as a power; or for a number within an eighth. False: nothing was. */
bool vtb_tuning_best(const vtb_tuning *t, const vtb_tuning_key *key, vtb_tuned *out);

#endif
