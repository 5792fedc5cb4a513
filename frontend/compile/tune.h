/* Times the forms that the recurrences of a model can be computed in, each as the compiled kernel
 * that a program would run, alone. In rounds: every form once a round, so that what else the
 * machine does meets all alike; the least time of each counts.
 */
#ifndef VTB_COMPILE_TUNE_H
#define VTB_COMPILE_TUNE_H

#include "frontend/compile/driver.h"

typedef struct vtb_tune_form {
  char mode[12];
  int64_t chunk;  /* 0 unless the mode is chunkwise */
  double seconds; /* the least; 0: not measured */
  bool failed;    /* it does not compile, or has no memory */
} vtb_tune_form;

/* A recurrence and its sizes, wherever it stands. */
typedef struct vtb_tune_case {
  vtb_tuning_key key;
  const char *name;     /* of the first place, "blocks.*.cell" */
  const vtb_inst *inst; /* the first */
  VTB_VEC(vtb_tune_form) forms;
} vtb_tune_case;

typedef struct vtb_tune {
  const vtb_target *target;
  vtb_codegen_options code;
  VTB_VEC(vtb_tune_case) cases;
  vtb_compilation modes; /* whose module the cases point into */
  vtb_arena arena;
} vtb_tune;

/* The cases of what the compilation is at, for its options' target and threads at a batch. Those
 * that have one form only are left out. Free it after failures too. */
VTB_MUST_USE vtb_status vtb_tune_open(const vtb_compilation *c, int64_t batch, vtb_tune *out);
void vtb_tune_close(vtb_tune *t);

/* Called between measurements, with the case's number and what is done of it, 0 to 1; false: stop,
 * and what is measured of the case counts. */
typedef bool (*vtb_tune_progress)(void *user, size_t number, double part);
/* Measures the forms of one case for about `seconds`. VTB_OK also if forms failed. */
VTB_MUST_USE vtb_status vtb_tune_measure(vtb_tune *t, size_t number, double seconds,
                                         vtb_tune_progress progress, void *user, vtb_error *err);
/* Rows of the case's measured forms. */
void vtb_tune_rows(const vtb_tune_case *c, vtb_tuning *out);
/* The fastest; NULL: none is measured. */
const vtb_tune_form *vtb_tune_fastest(const vtb_tune_case *c);

#endif
