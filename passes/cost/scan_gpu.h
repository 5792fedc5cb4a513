/* Times of a recurrence's forms on a GPU, for select_mode. */
#ifndef VTB_SCAN_GPU_H
#define VTB_SCAN_GPU_H

#include "ir/recurrence.h"
#include "passes/cost/gpu.h"
#include "passes/target.h"

/* A scan whose decays are one a head; of its adjoint: grad. */
typedef struct vtb_gpu_scan {
  double batch, tokens, heads, keys, values;
  bool grad;
  vtb_precision precision;
} vtb_gpu_scan;

/* Seconds of its launches if chunks have so many tokens; 0: one chunk, the form without states. */
double vtb_gpu_scan_seconds(const vtb_gpu *g, const vtb_gpu_scan *s, int64_t chunk);

#endif
