/* The peak that a machine reaches, and how much of it a measured run does. */
#ifndef VTB_STUDY_PEAK_H
#define VTB_STUDY_PEAK_H

#include <cjson/cJSON.h>
#include <stdbool.h>

enum { STUDY_COPIES = 8 };
typedef struct study_peak {
  double product; /* FLOP/s of a large product of matrices */
  struct {
    double bytes, rate; /* read and written, in all; a second */
  } copies[STUDY_COPIES];
  int n_copies; /* the smallest first */
} study_peak;

/* Reads the document of `bench --peak`; false: it is none. */
bool study_peak_read(const cJSON *document, study_peak *out);
/* Seconds that the machine at its peak would need for so many floating point operations and bytes:
 * the slower of the product's rate and that of a copy of so many bytes. */
double study_peak_seconds(const study_peak *p, double flops, double bytes);
/* The share that the document of `bench` reached, whose kernels run one after another; NAN: it has
 * none. */
double study_percent_of_peak(const study_peak *p, const cJSON *bench);

#endif
