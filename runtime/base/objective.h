/* Names of the tensors of a model's objective (ir/objective.h), for compiler and runtime. */
#ifndef VTB_BASE_OBJECTIVE_H
#define VTB_BASE_OBJECTIVE_H

#define VTB_MEASURE_LOSS "loss:"
#define VTB_MEASURE_METRIC "metric:"
#define VTB_MEASURE_LOWER "lower:"
#define VTB_MEASURE_BY "by:"
#define VTB_VALID "valid" /* an input, f32 [B]: 1 for samples, 0 for padding */

#endif
