/* The two halves of `vertebra verify`. */
#ifndef VTB_CLI_VERIFY_H
#define VTB_CLI_VERIFY_H

#include "frontend/cli/verify/evaluate.h"

#include <string.h>

typedef struct verify_options {
  cli_model_options model;
  double tol, grad_tol; /* the fixed parts of bounds (verify_bounds.h) */
  bool given;           /* by --tol or --grad-tol: then nothing is added to them */
  vtb_precision precision;
  const char *model_file; /* --model: where the entry is looked for; NULL: the search folders */
  const char *map;        /* --map: what configs say beside (case_map.h); NULL: where it is found */
  const char *target;     /* a name, or all: those that need nothing but this program */
  const char *modes;      /* "all": each of them; NULL */
  bool no_grad, nan, verbose;
  bool unused; /* --unused: the map's lines, not the cases' numbers */
} verify_options;

typedef struct verify_mode {
  const char *mode; /* NULL: auto */
  int64_t chunk;
} verify_mode;

/* VTB_OK, VTB_E_NUMBERS, or what kept the case from running. Tells d of it, a list.
 * *scans: whether the entry has a recurrence, whose modes differ. */
vtb_status verify_case(const char *path, const verify_mode *mode, const vtb_target *target,
                       const verify_options *o, doc *d, bool *scans);
/* Tells the lines of the map that none of the cases needs: VTB_E_INPUT if there are any. */
VTB_MUST_USE vtb_status verify_map(const cli_list *cases, const char *map, vtb_error *err);
/* A case as something to compile: its entry at graph level, with its gradient if the case knows
 * any; map: as in verify_options; *batch: what the case's tensors have. On failure too
 * vtb_compilation_free() frees. */
VTB_MUST_USE vtb_status verify_case_model(const char *path, const char *map,
                                          const vtb_compile_options *o, vtb_report *r,
                                          vtb_compilation *c, int64_t *batch);
vtb_status verify_model(const char *what, const verify_options *o);

#endif
