/* vertebra train --trace: the first updates of every rank, kernels and sums side by side. */
#ifndef VTB_CLI_TRAIN_TRACE_H
#define VTB_CLI_TRAIN_TRACE_H

#include "frontend/cli/train/train_programs.h"

typedef struct train_trace train_trace;

/* Services that notice the kernels of `step`, which was compiled with calls around them. Both are
 * freed by their own functions, the services first. */
VTB_MUST_USE vtb_services *train_trace_services(const vtb_program *step, int threads,
                                                train_trace **out);
/* From now on; every rank calls it at the same time. */
VTB_MUST_USE vtb_status train_trace_begin(train_trace *t, vtb_services *s, vtb_ranks *r,
                                          vtb_error *err);
/* Writes what there was, of all ranks, as a Chrome trace; every rank calls it, rank 0 writes. */
VTB_MUST_USE vtb_status train_trace_end(train_trace *t, vtb_services *s, const char *model,
                                        const char *path, vtb_error *err);
void train_trace_free(train_trace *t); /* NULL is fine */

#endif
