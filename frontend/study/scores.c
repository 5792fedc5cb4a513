/* The numbers of a cell as they are compared. */
#include "frontend/study/scores.h"

#include "runtime/base/base.h"

#include <math.h>
#include <string.h>

study_score study_score_of(const cJSON *cell) {
  const cJSON *train = study_member(cell, "train");
  bool tested = isfinite(study_number(train, "mean"));
  double mean = study_number(train, tested ? "mean" : "val_mean");
  double spread = study_number(train, tested ? "spread" : "val_spread");
  double images = study_number(train, "images");
  bool proportion = isfinite(images) && strcmp(study_text_of(train, "score"), "top1") == 0;
  int seeds = cJSON_GetArraySize(study_member(train, "seeds"));
  return (study_score){.mean = mean,
                       .deviation = spread,
                       .seeds = isfinite(spread) ? (size_t)seeds : 1,
                       .images = proportion ? images : 0};
}

bool study_cells_differ_in_score(const cJSON *a, const cJSON *b) {
  study_score x = study_score_of(a), y = study_score_of(b);
  return study_scores_differ(&x, &y);
}

bool study_cells_differ_in_speed(const cJSON *a, const cJSON *b, double margin) {
  const cJSON *x = study_member(a, "bench"), *y = study_member(b, "bench");
  return study_times_differ(1 / study_number(x, "samples_per_sec"),
                            1 / study_number(y, "samples_per_sec"), margin);
}

double study_margin_of(const cJSON *cells, const char *rounds) {
  const cJSON *cell, *round;
  size_t n = 0, most = 0;
  cJSON_ArrayForEach(cell, cells) {
    size_t of_cell = (size_t)cJSON_GetArraySize(study_member(cell, rounds));
    n++;
    if (of_cell > most) most = of_cell;
  }
  double *ms = vtb_xcalloc(n * most + 1, sizeof *ms), *at = ms;
  for (size_t i = 0; i < n * most; i++) ms[i] = (double)NAN;
  cJSON_ArrayForEach(cell, cells) {
    size_t k = 0;
    cJSON_ArrayForEach(round, study_member(cell, rounds)) at[k++] = study_number(round, "best_ms");
    at += most;
  }
  double margin = study_margin(ms, n, most);
  vtb_free(ms);
  return margin;
}
