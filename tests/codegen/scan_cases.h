/* What the tests of scans and deltas share: decays, two directions as one kernel, random
 * choices. */
#ifndef VTB_TEST_SCAN_CASES_H
#define VTB_TEST_SCAN_CASES_H

#include "ir/recurrence.h"
#include "passes/passes.h"
#include "tests/codegen/one_kernel.h"

/* Decays of size up to 1: mostly near 1, some exactly 0 or 1, some tiny, some negative. */
static void fill_decays(vtb_tensor *d, unsigned long long *seed) {
  for (int64_t i = 0; i < kernel_count(&d->type); i++) {
    double u = test_random(seed), v = 0.5 + 0.5 * test_random(seed);
    d->data[i] = (float)(u < -0.9   ? 0
                         : u < -0.8 ? 1
                         : u < -0.7 ? 1e-6 * v
                         : u < -0.4 ? v
                         : u > 0.9  ? -v
                                    : 1 - 0.05 * v);
  }
}

static void join_directions(vtb_module *m) {
  vtb_error err = {0};
  vtb_pass_context c = {.module = m};
  vtb_pipeline_options o = {.pipeline = "grow{directions}", .verify_each = true};
  CHECK_MSG(vtb_run_pipeline(&c, &o, &err) == VTB_OK, "%s", err.text);
  int n = 0;
  for (const vtb_inst *i = m->entry->first; i; i = i->next) n += vtb_is_scans(i);
  CHECK(n == 1);
}

static int64_t pick(unsigned long long *seed, const int64_t *from, int n) {
  int i = (int)((test_random(seed) + 1) / 2 * n);
  return from[i < n ? i : n - 1];
}
#define PICK(...)                                                                                  \
  pick(seed, (const int64_t[]){__VA_ARGS__},                                                       \
       (int)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)))

#endif
