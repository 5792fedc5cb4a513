/* A machine's peak, and a run's part of it. */
#include "frontend/study/peak.h"
#include "frontend/study/json.h"

#include <math.h>

bool study_peak_read(const cJSON *document, study_peak *out) {
  const cJSON *copy;
  *out = (study_peak){.product = 1e9 * study_number(document, "product_gflops")};
  cJSON_ArrayForEach(copy, study_member(document, "copies")) {
    double bytes = study_number(copy, "bytes"), rate = 1e9 * study_number(copy, "gbytes");
    if (!(bytes > 0) || !(rate > 0) || out->n_copies == STUDY_COPIES) continue;
    out->copies[out->n_copies].bytes = bytes;
    out->copies[out->n_copies++].rate = rate;
  }
  return out->product > 0 && out->n_copies > 0;
}

double study_peak_seconds(const study_peak *p, double flops, double bytes) {
  int at = 0;
  while (at + 1 < p->n_copies && bytes > p->copies[at].bytes) at++;
  return fmax(flops / p->product, bytes / p->copies[at].rate);
}

double study_percent_of_peak(const study_peak *p, const cJSON *bench) {
  const cJSON *kernel;
  double seconds = 0, best = 1e-3 * study_number(bench, "best_ms");
  cJSON_ArrayForEach(kernel, study_member(bench, "kernels")) {
    double launches = study_number(kernel, "launches");
    seconds += launches * study_peak_seconds(p, 1e9 * study_number(kernel, "gflop") / launches,
                                             1e9 * study_number(kernel, "gbyte") / launches);
  }
  return seconds > 0 && best > 0 ? 100 * seconds / best : (double)NAN;
}
