/* Between the files that find corrections: the step values that read a state as sums over that
 * state.
 *
 *   matrix  a * S + sum_i key_i line_i^T      of the state's shape, a [1] or [K]
 *   line    c + S^T b                         along the value axis, linear in the old state
 *
 * a, c and b are values of the step function that S does not enter, made as they are needed, of one
 * axis or none; a key is a product of factors on axis 0, so that equal keys are known as such. A
 * value that no state enters is a matrix without a, or a line without b.
 */
#ifndef VTB_PASSES_RECURRENCE_DELTA_H
#define VTB_PASSES_RECURRENCE_DELTA_H

#include "passes/recurrence/recurrence.h"

enum { VTB__MAX_ROWS = 16 };

/* One state looked at, with one of its axes as the key. */
typedef struct vtb__finder {
  vtb__rec *r;
  int state, key, value; /* axes; value -1: the state is a vector */
  int64_t n_keys, n_values;
  vtb_builder b;
  struct vtb__form **memo; /* by id of the step's own values */
  bool *tried;
  int n_memo;
  VTB_VEC(vtb__factor) gains; /* factors exp(.) that went into lines */
  /* the first thing that does not fit */
  const vtb_inst *blame;
  const char *why;
} vtb__finder;

typedef struct vtb__form {
  bool matrix;
  int key, value; /* axes of the step value; -1: it has none */
  vtb_value *a;   /* NULL: 0 */
  vtb__row *rows; /* VTB__MAX_ROWS */
  int n_rows;
  vtb_value *c, *b; /* of a line; NULL: 0 */
} vtb__form;

/* NULL, after noting the reason if it is the first. */
vtb__form *vtb__form_fail(vtb__finder *d, const vtb_inst *inst, const char *why);
vtb__form *vtb__form_new(vtb__finder *d, bool matrix, int key, int value);
vtb__form *vtb__form_copy(vtb__finder *d, const vtb__form *x);

/* x += y, x += by * f (f: no state enters it; axis: its axes on those of x), x *= t. False after a
 * failure. */
bool vtb__form_add(vtb__finder *d, vtb__form *x, const vtb__form *y, const vtb_inst *inst);
bool vtb__form_add_free(vtb__finder *d, vtb__form *x, vtb_value *f, const vtb__term *by,
                        const int *axis, const vtb_inst *inst);
bool vtb__form_scale(vtb__finder *d, vtb__form *x, const vtb__term *t, const vtb_inst *inst);
/* The line that x, a vector along the key or nothing (NULL), reads of a matrix. */
vtb__form *vtb__form_contract(vtb__finder *d, const vtb__form *m, vtb_value *x, int value);
/* A line as a matrix, under a key of ones, whose key is `axis`. */
void vtb__form_spread(vtb__form *x, int axis);

/* A reason that another key axis may not have. */
extern const char vtb__reads_both_ways[];

/* The form of a value that reads the state; NULL after a failure. */
vtb__form *vtb__form_of(vtb__finder *d, vtb_value *v);

#endif
