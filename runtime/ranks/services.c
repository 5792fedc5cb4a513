/* Programs that sum over the ranks of a job, through their services. */
#include "runtime/launch/threads.h"
#include "runtime/ranks/ranks.h"

static vtb_status begin_sum(void *user, float *at, int64_t n, vtb_error *err) {
  return vtb_ranks_sum_begin(user, at, n, err);
}

static vtb_status wait(void *user, vtb_error *err) { return vtb_ranks_sum_wait(user, err); }

void vtb_services_ranks(vtb_services *s, vtb_ranks *r) {
  const vtb_summer summer = {begin_sum, wait, r};
  vtb_services_sums(s, r ? &summer : NULL);
}
