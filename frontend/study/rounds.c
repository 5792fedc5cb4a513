/* See rounds.h. */
#include "frontend/study/rounds.h"

#include "frontend/document/document.h"
#include "frontend/study/statistics.h"

#include <math.h>

study_times study_times_new(void) {
  return (study_times){.percent = (double)NAN,
                       .peak = (double)NAN,
                       .others = (double)NAN,
                       .rounds = cJSON_CreateArray()};
}

void study_times_free(study_times *t) {
  vtb_vec_free(&t->best);
  vtb_vec_free(&t->median);
  cJSON_Delete(t->rounds);
}

bool study_times_add(study_times *t, const cJSON *document, double percent, double peak_bytes,
                     double others) {
  double best = study_number(document, "best_ms"), median = study_number(document, "median_ms");
  double own = study_number(document, "peak_bytes");
  bool is_best = !t->best.n || best < study_least(t->best.at, t->best.n);
  if (isfinite(best)) vtb_vec_push(&t->best, best);
  if (isfinite(median)) vtb_vec_push(&t->median, median);
  t->percent = fmax(t->percent, percent);
  t->peak = fmax(t->peak, isfinite(own) ? own : peak_bytes);
  t->others = fmax(t->others, others);
  doc_item(t->rounds, K("best_ms", best), K("median_ms", median), K("others", others));
  return is_best;
}

double study_times_spread(const study_times *t) {
  double best = study_least(t->best.at, t->best.n);
  if (t->best.n == 1 && best > 0) return (study_median(t->median.at, t->median.n) - best) / best;
  return study_time_spread(t->best.at, t->best.n);
}

void study_times_put(study_times *t, cJSON *to) {
  doc_put(to, K("best_ms", study_least(t->best.at, t->best.n)), K("spread", study_times_spread(t)),
          K("median_ms", study_median(t->median.at, t->median.n)),
          K("peak_bytes", t->peak > 0 ? t->peak : (double)NAN),
          K("percent_of_peak", t->percent > 0 ? t->percent : (double)NAN), F("rounds", t->rounds));
  t->rounds = NULL;
}

vtb_status study_rounds_run(const study_rounds *r, vtb_error *err) {
  int64_t round = 0;
  for (; round < r->planned; round++) VTB_TRY(r->measure(r->user, round, err));
  size_t restless = r->planned > 1 ? r->restless(r->user) : 0;
  if (restless) r->again(r->user, restless, r->planned);
  for (; restless && round < 2 * r->planned; round++) {
    VTB_TRY(r->measure(r->user, round, err));
    restless = r->restless(r->user);
  }
  if (restless) r->again(r->user, restless, 0);
  return VTB_OK;
}
