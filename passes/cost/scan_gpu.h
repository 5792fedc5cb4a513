/* Times of a recurrence's forms on a GPU, for select_mode. */
#ifndef VTB_SCAN_GPU_H
#define VTB_SCAN_GPU_H

#include "passes/cost/gpu.h"
#include "passes/cost/tuning.h"

/* Seconds of the launches of a scan whose decays are one a head, or of its adjoint, if chunks have
 * so many tokens; 0: one chunk, the form without states. */
double vtb_gpu_scan_seconds(const vtb_gpu *g, const vtb_tuning_key *s, bool grad, int64_t chunk);

#endif
