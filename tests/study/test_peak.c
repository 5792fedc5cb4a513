/* How much of a machine's peak a run reaches. */
#include "frontend/study/peak.h"
#include "tests/test.h"

static const char machine[] = "{\"product_gflops\": 100, \"copies\": [{\"bytes\": 1e6, \"gbytes\": "
                              "200}, {\"bytes\": 1e8, \"gbytes\": 20}]}";

TEST(the_slower_of_products_and_copies) {
  study_peak p;
  cJSON *json = cJSON_Parse(machine);
  CHECK(study_peak_read(json, &p) && p.n_copies == 2);
  CHECK_NEAR(study_peak_seconds(&p, 1e9, 1e6), 1e-2, 1e-9);  /* products */
  CHECK_NEAR(study_peak_seconds(&p, 1e3, 1e6), 5e-6, 1e-12); /* fits the smaller */
  CHECK_NEAR(study_peak_seconds(&p, 1e3, 2e6), 1e-4, 1e-10); /* does not */
  CHECK_NEAR(study_peak_seconds(&p, 1e3, 1e10), 0.5, 1e-9);  /* larger than any */
  cJSON_Delete(json);
}

/* Ten launches of 1 ms each at the peak and one of 10 ms, in 80 ms. */
TEST(of_a_run_kernels_add_up) {
  study_peak p;
  cJSON *json = cJSON_Parse(machine);
  cJSON *run = cJSON_Parse("{\"best_ms\": 80, \"kernels\": [{\"launches\": 10, \"gflop\": 1, "
                           "\"gbyte\": 0}, {\"launches\": 1, \"gflop\": 0, \"gbyte\": 0.2}]}");
  cJSON *none = cJSON_Parse("{\"best_ms\": 80}");
  CHECK(study_peak_read(json, &p));
  CHECK_NEAR(study_percent_of_peak(&p, run), 25, 1e-6);
  CHECK(isnan(study_percent_of_peak(&p, none)));
  CHECK(!study_peak_read(none, &p) && !study_peak_read(NULL, &p));
  cJSON_Delete(json);
  cJSON_Delete(run);
  cJSON_Delete(none);
}

int main(void) {
  RUN(the_slower_of_products_and_copies);
  RUN(of_a_run_kernels_add_up);
  return test_done();
}
