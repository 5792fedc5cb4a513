/* Steps on many ranks, predicted: sums by hand, what is hidden, what is waited for. */
#include "codegen/scaling.h"
#include "tests/test.h"

static const vtb_links nodes = {.name = "test",
                                .per_node = 8,
                                .near_bytes = 100e9,
                                .near_latency = 1e-6,
                                .far_bytes = 10e9,
                                .far_latency = 5e-6};

TEST(a_sum_takes_hops_and_its_slowest_link) {
  CHECK(vtb_links_sum(&nodes, 1, 1e9) == 0);
  CHECK_NEAR(vtb_links_sum(&nodes, 2, 1e9), 2 * 1e-6 + 1e9 / 100e9, 1e-12);
  CHECK_NEAR(vtb_links_sum(&nodes, 8, 1e9), 6 * 1e-6 + 2 * 7.0 / 8 * 1e9 / 100e9, 1e-12);
  /* an eighth of it between two nodes, half of that twice: 12.5 ms, less than inside them */
  CHECK_NEAR(vtb_links_sum(&nodes, 16, 1e9), 6e-6 + 10e-6 + 2 * 7.0 / 8 * 1e9 / 100e9, 1e-12);
  CHECK_NEAR(vtb_links_sum(&nodes, 512, 1e9), 6e-6 + 60e-6 + 2 * 63.0 / 64 / 8 * 1e9 / 10e9, 1e-12);
}

TEST(ranks_that_send_everything_themselves_fill_the_network) {
  vtb_links direct = nodes;
  direct.direct = true;
  CHECK_NEAR(vtb_links_sum(&direct, 4, 1e9), vtb_links_sum(&nodes, 4, 1e9), 1e-12);
  CHECK_NEAR(vtb_links_sum(&direct, 16, 1e9), 6e-6 + 10e-6 + 2 * 8.0 / 16 * 1e9 / 10e9, 1e-12);
}

TEST(sums_are_hidden_by_the_rest_of_the_work) {
  const vtb_scaling_bucket early[] = {{.ready = 1e-3, .bytes = 1e6}, {.ready = 2e-3, .bytes = 1e6}};
  const vtb_scaling_step s = {
      .images = 4, .work = 10e-3, .rest = 1e-3, .buckets = early, .n_buckets = 2};
  vtb_scaling_point p = vtb_scaling_at(&s, &nodes, 8);
  CHECK(p.exposed == 0 && p.spread == 0 && p.images == 32 && p.nodes == 1);
  CHECK_NEAR(p.seconds, 11e-3, 1e-12);
  CHECK(p.limit == VTB_SCALING_WORK);
  CHECK_NEAR(p.exchange, 2 * vtb_links_sum(&nodes, 8, 1e6), 1e-15);
}

TEST(the_last_bucket_is_waited_for) {
  const vtb_scaling_bucket late[] = {{.ready = 9e-3, .bytes = 100e6},
                                     {.ready = 10e-3, .bytes = 100e6}};
  const vtb_scaling_step s = {
      .images = 1, .work = 10e-3, .rest = 1e-3, .buckets = late, .n_buckets = 2};
  double one = vtb_links_sum(&nodes, 8, 100e6);
  vtb_scaling_point p = vtb_scaling_at(&s, &nodes, 8);
  CHECK_NEAR(p.exposed, 2 * one - 1e-3, 1e-12);
  CHECK_NEAR(p.seconds, 9e-3 + 2 * one + 1e-3, 1e-12);
  CHECK(p.limit == VTB_SCALING_NEAR);
  CHECK(vtb_scaling_at(&s, &nodes, 512).limit == VTB_SCALING_FAR);
  p = vtb_scaling_at(&s, &nodes, 1);
  CHECK_NEAR(p.seconds, 11e-3, 1e-12);
  CHECK(p.exchange == 0);
}

TEST(sums_take_a_share_of_the_ranks_speed) {
  vtb_links shared = nodes;
  shared.share = 0.25;
  const vtb_scaling_bucket first[] = {{.ready = 0, .bytes = 100e6}};
  const vtb_scaling_step s = {.images = 1, .work = 10e-3, .buckets = first, .n_buckets = 1};
  double sum = vtb_links_sum(&shared, 8, 100e6); /* in it three quarters of its time are done */
  vtb_scaling_point p = vtb_scaling_at(&s, &shared, 8);
  CHECK_NEAR(p.seconds, sum + (10e-3 - 0.75 * sum), 1e-12);
  CHECK_NEAR(p.slowed, 0.25 * sum, 1e-12);
  /* work that ends while a sum is under way */
  const vtb_scaling_bucket large[] = {{.ready = 0, .bytes = 1e9}};
  const vtb_scaling_step t = {.images = 1, .work = 3e-3, .buckets = large, .n_buckets = 1};
  p = vtb_scaling_at(&t, &shared, 8);
  CHECK_NEAR(p.slowed, 1e-3, 1e-12);
  CHECK_NEAR(p.seconds, vtb_links_sum(&shared, 8, 1e9), 1e-12);
}

TEST(work_behind_a_sum_that_is_read_waits_for_it) {
  const vtb_scaling_bucket read[] = {{.ready = 2e-3, .bytes = 1e6},
                                     {.ready = 5e-3, .bytes = 1e6, .wait = true},
                                     {.ready = 10e-3, .bytes = 1e6}};
  const vtb_scaling_step s = {.images = 1, .work = 10e-3, .buckets = read, .n_buckets = 3};
  double one = vtb_links_sum(&nodes, 8, 1e6);
  vtb_scaling_point p = vtb_scaling_at(&s, &nodes, 8);
  CHECK_NEAR(p.seconds, 10e-3 + 2 * one, 1e-12);
  CHECK_NEAR(p.exposed, 2 * one, 1e-12);
  CHECK_NEAR(p.slowed, 0, 1e-12);
}

TEST(small_buckets_are_latency_and_many_ranks_wait_for_the_slowest) {
  vtb_scaling_bucket small[200];
  for (int i = 0; i < 200; i++) small[i] = (vtb_scaling_bucket){.ready = 10e-3, .bytes = 1};
  vtb_scaling_step s = {.images = 1, .work = 10e-3, .buckets = small, .n_buckets = 200};
  CHECK(vtb_scaling_at(&s, &nodes, 64).limit == VTB_SCALING_LATENCY);
  vtb_links uneven = nodes;
  uneven.spread = 0.05;
  s.n_buckets = 0;
  vtb_scaling_point p = vtb_scaling_at(&s, &uneven, 64);
  CHECK(p.limit == VTB_SCALING_SPREAD);
  CHECK_NEAR(p.spread, 10e-3 * 0.05 * sqrt(2 * log(64)), 1e-12);
  CHECK_NEAR(p.seconds, 10e-3 + p.spread, 1e-12);
}

TEST(buckets_are_ready_behind_the_launch_that_completes_them) {
  vtb_launch_bucket in_plan[] = {{.bytes = 512, .step = 1},
                                 {.bytes = 256, .step = 4, .where = VTB_BUCKET_WORKSPACE}};
  vtb_launch_plan plan = {.batch = 3, .n_buckets = 2, .buckets = in_plan};
  vtb_launch_estimates each = {0};
  for (int i = 0; i < 6; i++)
    vtb_vec_push(&each, ((vtb_launch_estimate){.step = i, .runs = 1, .time = {.seconds = 1e-3}}));
  vtb_scaling_bucket *buckets;
  vtb_scaling_step s = vtb_scaling_of_plan(&plan, &each, &buckets);
  CHECK(s.images == 3 && s.n_buckets == 2 && s.buckets == buckets);
  CHECK_NEAR(s.work, 5e-3, 1e-12);
  CHECK_NEAR(s.rest, 1e-3, 1e-12);
  CHECK_NEAR(buckets[0].ready, 2e-3, 1e-12);
  CHECK_NEAR(buckets[1].ready, 5e-3, 1e-12);
  CHECK(buckets[0].bytes == 512 && buckets[1].bytes == 256);
  CHECK(!buckets[0].wait && buckets[1].wait);
  vtb_vec_free(&each);
  vtb_free(buckets);
}

TEST(every_gpu_of_the_table_has_links) {
  size_t n;
  const vtb_gpu *gpus = vtb_gpus(&n);
  for (size_t i = 0; i < n; i++) CHECK_MSG(vtb_links_find(gpus[i].name), "%s", gpus[i].name);
  CHECK(!vtb_links_find("h300"));
}

int main(void) {
  RUN(a_sum_takes_hops_and_its_slowest_link);
  RUN(ranks_that_send_everything_themselves_fill_the_network);
  RUN(sums_are_hidden_by_the_rest_of_the_work);
  RUN(the_last_bucket_is_waited_for);
  RUN(sums_take_a_share_of_the_ranks_speed);
  RUN(work_behind_a_sum_that_is_read_waits_for_it);
  RUN(small_buckets_are_latency_and_many_ranks_wait_for_the_slowest);
  RUN(buckets_are_ready_behind_the_launch_that_completes_them);
  RUN(every_gpu_of_the_table_has_links);
  return test_done();
}
