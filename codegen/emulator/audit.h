/* Memory traffic of a plan's launches, counted by running a few blocks of each in the emulator: no
 * device, and no memory but what these blocks write. docs/cuda_cost.md says what the numbers mean.
 *
 * Tensors and the workspace are reserved addresses that read as ones (indices as zeros); constants
 * and tables are the plan's. Launches of one kernel with equal grids and equally aligned arguments
 * are audited once. Ownership: an audit is the caller's until vtb_audit_free(); the plan must
 * outlive it. One thread.
 */
#ifndef VTB_EMULATOR_AUDIT_H
#define VTB_EMULATOR_AUDIT_H

#include "codegen/emulator/emulator.h"

typedef struct vtb_audit_row {
  int step;                 /* the first of them */
  int launches;             /* of a run, what is prepared left out */
  vtb_launch_traffic moved; /* by each, as the plan says */
  bool counted;             /* else it moves too little */
  vtb_emulator_counts counts;
} vtb_audit_row;

typedef struct vtb_audit {
  const vtb_launch_plan *plan;
  bool whole;
  VTB_VEC(vtb_audit_row) rows; /* in the order of the steps */
} vtb_audit;

/* Launches that move less than least_bytes are listed and not counted. whole: all blocks run, and
 * what is counted by blocks is of the launch. */
VTB_MUST_USE vtb_status vtb_audit_plan(const vtb_launch_plan *plan, int64_t least_bytes, bool whole,
                                       vtb_audit *out, vtb_error *err);
void vtb_audit_free(vtb_audit *a);

/* Sectors over the ideal, of warps' accesses and of whole blocks; 1 where there are none. */
double vtb_audit_sectors(const vtb_audit_row *r);
/* Tables: for people, in 80 columns; and as JSON. */
void vtb_audit_print(const vtb_audit *a, vtb_strbuf *out);
void vtb_audit_json(const vtb_audit *a, vtb_strbuf *out);

#endif
