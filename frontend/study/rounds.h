/* Timings in rounds, of studies and of the sweeps of `bench`: what the times of a cell add up to,
 * and how many rounds there are. */
#ifndef VTB_STUDY_ROUNDS_H
#define VTB_STUDY_ROUNDS_H

#include "frontend/study/json.h"
#include "runtime/base/base.h"

/* Times of one cell; the largest of what is known, NAN: nothing is. */
typedef struct study_times {
  VTB_VEC(double) best, median; /* ms, one a round */
  double percent, peak, others; /* of the peak; bytes; cores that other programs used */
  cJSON *rounds;                /* a list, owned */
} study_times;

study_times study_times_new(void);
void study_times_free(study_times *t);
/* Adds what `bench --json` told, and what is known of its process besides: its peak counts where
 * the document has none. Whether it is the best round so far. */
bool study_times_add(study_times *t, const cJSON *document, double percent, double peak_bytes,
                     double others);
/* (median - best) / best of the rounds' times; of one round of its runs. NAN: there is none. */
double study_times_spread(const study_times *t);
/* Sets best_ms, spread, median_ms, peak_bytes, percent_of_peak and rounds, as far as they are
 * known; the list is given away. */
void study_times_put(study_times *t, cJSON *to);

/* Rounds of all cells. Those whose times differ much between rounds are restless: then all are
 * measured again, as what is timed alone is compared with nothing. */
#define STUDY_RESTLESS 0.05
typedef struct study_rounds {
  int64_t planned;
  vtb_status (*measure)(void *user, int64_t round, vtb_error *err);
  size_t (*restless)(void *user);
  /* Some are, and at most so many further rounds follow: 0, at the end, none. */
  void (*again)(void *user, size_t restless, int64_t further);
  void *user;
} study_rounds;
VTB_MUST_USE vtb_status study_rounds_run(const study_rounds *r, vtb_error *err);

#endif
