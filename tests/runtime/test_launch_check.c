/* The launch-plan checker: a sound plan passes, each kind of broken one is named. */
#include "runtime/launch/launch_check.h"
#include "tests/test.h"

/* x -> k -> t (workspace) -> k -> y, through memory at byte 0 and 256 of the workspace. */
typedef struct sample {
  vtb_launch_plan plan;
  vtb_tensor_info tensors[2];
  vtb_launch_kernel kernels[1];
  vtb_launch_gemm gemms[1];
  vtb_launch_step steps[4];
  vtb_launch_arg args[9];
} sample;

static vtb_launch_arg arg(int space, int index, int access, int value, int64_t offset,
                          int64_t bytes) {
  return (vtb_launch_arg){.space = (uint8_t)space,
                          .access = (uint8_t)access,
                          .element_bytes = 4,
                          .align = 16,
                          .tensor = index,
                          .value = value,
                          .offset = offset,
                          .bytes = bytes};
}

enum {
  R = VTB_LAUNCH_READ,
  W = VTB_LAUNCH_WRITE,
  T = VTB_LAUNCH_TENSOR,
  WS = VTB_LAUNCH_WORKSPACE
};

static sample *make(void) {
  sample *s = calloc(1, sizeof *s);
  if (!s) exit(3);
  s->tensors[0] = (vtb_tensor_info){.name = "x", .io = VTB_IO_INPUT, .rank = 1, .dim = {64}};
  s->tensors[1] = (vtb_tensor_info){.name = "y", .io = VTB_IO_OUTPUT, .rank = 1, .dim = {64}};
  s->kernels[0] =
      (vtb_launch_kernel){.name = "k", .threads = 64, .shared_bytes = 1024, .n_args = 2};
  for (int i = 0; i < 3; i++) s->steps[i] = (vtb_launch_step){VTB_LAUNCH_KERNEL, 0, 1, 2 * i, 2};
  s->args[0] = arg(T, 0, R, 0, 0, 256);
  s->args[1] = arg(WS, 0, W, 1, 0, 256);
  s->args[2] = arg(WS, 0, R, 1, 0, 256);
  s->args[3] = arg(WS, 0, W, 2, 256, 256);
  s->args[4] = arg(WS, 0, R, 2, 256, 256);
  s->args[5] = arg(T, 1, W, 3, 0, 256);
  s->plan = (vtb_launch_plan){.n_tensors = 2,
                              .tensors = s->tensors,
                              .batch = 1,
                              .workspace_bytes = 512,
                              .n_kernels = 1,
                              .n_gemms = 1,
                              .n_steps = 3,
                              .n_args = 6,
                              .kernels = s->kernels,
                              .gemms = s->gemms,
                              .steps = s->steps,
                              .args = s->args};
  return s;
}

static void expect(sample *s, const vtb_arch *arch, const char *message) {
  vtb_error err = {0};
  vtb_status status = vtb_launch_plan_check(&s->plan, arch, &err);
  if (message)
    CHECK_MSG(status == VTB_E_INTERNAL && strstr(err.text, message), "want \"%s\", got \"%s\"",
              message, err.text);
  else
    CHECK_MSG(status == VTB_OK, "%s", err.text);
  free(s);
}

TEST(sound_plan) { expect(make(), NULL, NULL); }

TEST(overlapping_workspace) {
  sample *s = make();
  s->args[3].offset = 128; /* over the second half of value 1, which the same launch reads */
  s->args[4].offset = 128;
  expect(s, NULL, "step 1 (k): argument 1 writes value 2 over value 1 of argument 0");
  s = make();
  s->args[3].offset = s->args[4].offset = 0; /* value 1 is read once more, too late */
  s->args[2] = arg(T, 0, R, 0, 0, 256);
  s->args[4].value = 1;
  expect(s, NULL,
         "step 2 (k): argument 0 reads value 1, but byte 0 has been overwritten by value 2");
  s = make();
  s->args[1].bytes = 252;
  expect(s, NULL, "step 1 (k): argument 0 reads byte 252 of value 1, which nothing has written");
}

TEST(reuse_of_dead_memory_is_fine) {
  sample *s = make();
  s->args[2] = arg(T, 0, R, 0, 0, 256); /* value 1 is dead */
  s->args[3].offset = s->args[4].offset = 64;
  expect(s, NULL, NULL);
}

/* Value 1 is made once and read by every run: nothing may take its place. */
TEST(what_is_prepared_must_last) {
  sample *s = make();
  s->plan.n_prepared = 1;
  expect(s, NULL, NULL);
  s = make();
  s->args[5] = arg(WS, 0, W, 3, 0, 256);
  s->plan.n_tensors = 1; /* no result to be written */
  expect(s, NULL, NULL);
  s = make();
  s->args[5] = arg(WS, 0, W, 3, 0, 256);
  s->plan.n_tensors = 1;
  s->plan.n_prepared = 1;
  expect(s, NULL,
         "step 1 (k): argument 0 reads value 1, but byte 0 has been overwritten by value 3");
}

/* x -> k -> a, then three times { a -> k -> b, b -> k -> a }, a -> k -> y; a at 0, b at 256. */
static sample *make_loop(vtb_launch_loop *l) {
  sample *s = make();
  s->plan.n_steps = 4;
  s->plan.n_args = 8;
  s->steps[3] = (vtb_launch_step){VTB_LAUNCH_KERNEL, 0, 1, 6, 2};
  s->args[4] = arg(WS, 0, R, 2, 256, 256);
  s->args[5] = arg(WS, 0, W, 1, 0, 256);
  s->args[6] = arg(WS, 0, R, 1, 0, 256);
  s->args[7] = arg(T, 1, W, 3, 0, 256);
  *l = (vtb_launch_loop){.first = 1, .n = 2, .times = 3};
  s->plan.loops = l;
  s->plan.n_loops = 1;
  return s;
}

TEST(a_turn_finds_what_the_one_before_left) {
  vtb_launch_loop l;
  expect(make_loop(&l), NULL, NULL);
  sample *s = make_loop(&l);
  s->args[5] = arg(WS, 0, W, 4, 0, 256); /* a is there for the first turn alone */
  expect(s, NULL,
         "step 1 (k): argument 0 reads value 1, but byte 0 has been overwritten by value 4");
  s = make_loop(&l);
  s->args[5] = arg(WS, 0, W, 4, 0, 256);
  l.times = 1;
  s->args[6] = arg(WS, 0, R, 4, 0, 256);
  expect(s, NULL, NULL);
  s = make_loop(&l);
  s->args[2] = arg(WS, 0, R, 2, 256, 256); /* before the second turn nobody has written it */
  expect(s, NULL, "step 1 (k): argument 0 reads byte 256 of value 2, which nothing has written");
}

static void expect_loops(int n_prepared, vtb_launch_loop first, vtb_launch_loop second,
                         const char *message) {
  vtb_launch_loop l[2];
  sample *s = make_loop(l);
  l[0] = first, l[1] = second;
  s->plan.n_loops = 2;
  s->plan.n_prepared = n_prepared;
  expect(s, NULL, message);
}

TEST(loops_nest_or_are_apart) {
  expect_loops(0, (vtb_launch_loop){1, 2, 3, 0}, (vtb_launch_loop){1, 1, 3, 0}, NULL);
  expect_loops(0, (vtb_launch_loop){1, 2, 3, 0}, (vtb_launch_loop){3, 1, 3, 0}, NULL);
  expect_loops(0, (vtb_launch_loop){1, 2, 3, 0}, (vtb_launch_loop){2, 2, 3, 0},
               "loop 1: 2 steps from step 2 on, 3 times");
  expect_loops(0, (vtb_launch_loop){1, 1, 3, 0}, (vtb_launch_loop){0, 1, 3, 0}, "loop 1: 1 steps");
  expect_loops(0, (vtb_launch_loop){1, 2, 0, 0}, (vtb_launch_loop){1, 1, 3, 0}, "loop 0: 2 steps");
  expect_loops(0, (vtb_launch_loop){1, 0, 3, 0}, (vtb_launch_loop){1, 1, 3, 0}, "loop 0: 0 steps");
  expect_loops(0, (vtb_launch_loop){1, 2, 3, 0}, (vtb_launch_loop){3, 2, 3, 0}, "loop 1: 2 steps");
  expect_loops(0, (vtb_launch_loop){1, INT32_MAX, 3, 0}, (vtb_launch_loop){3, 1, 3, 0}, "loop 0");
  expect_loops(2, (vtb_launch_loop){1, 2, 3, 0}, (vtb_launch_loop){3, 1, 3, 0}, "loop 0: 2 steps");
  vtb_launch_loop deep[VTB_LAUNCH_DEPTH + 1];
  sample *s = make_loop(deep);
  for (int i = 0; i <= VTB_LAUNCH_DEPTH; i++) deep[i] = (vtb_launch_loop){1, 2, 2, 0};
  s->plan.n_loops = VTB_LAUNCH_DEPTH + 1;
  expect(s, NULL, "loop 8: 2 steps");
}

TEST(conditions_are_numbers_that_are_there) {
  vtb_launch_loop l;
  sample *s = make_loop(&l);
  l.condition = 9;
  expect(s, NULL, "step 1 (k): the condition of its loop is argument 9");
  s = make_loop(&l);
  l.condition = -1;
  expect(s, NULL, "the condition of its loop is argument -1");
  s = make_loop(&l);
  l.condition = 3; /* 256 bytes */
  expect(s, NULL, "the condition of its loop is no number that is read");
  static const struct {
    int offset, value;
    const char *message;
  } all[] = {{0, 1, NULL},
             {252, 1, NULL},
             {512, 1, "reaches bytes 512 to 515 of the workspace"},
             {256, 2, "reads byte 256 of value 2, which nothing has written"},
             {0, 4, "has been overwritten by value 1"}};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    s = make_loop(&l);
    s->args[8] = arg(WS, 0, R, all[i].value, all[i].offset, 4);
    s->args[8].align = 4;
    s->plan.n_args = 9;
    l.condition = 9;
    expect(s, NULL, all[i].message);
  }
}

/* A parameter w at byte 0 of the state, its gradient at 256: k makes the gradient, k updates w by
 * it. */
static sample *make_update(int64_t place[2]) {
  sample *s = make();
  s->tensors[0] = (vtb_tensor_info){.name = "w", .io = VTB_IO_PARAM, .rank = 1, .dim = {64}};
  s->tensors[1] = (vtb_tensor_info){.name = "d:w", .io = VTB_IO_GRAD_OUT, .rank = 1, .dim = {64}};
  place[0] = 0, place[1] = 256;
  s->plan.place = place;
  s->plan.state_bytes = 512;
  s->plan.n_steps = 2;
  s->args[0] = arg(T, 0, R, 0, 0, 256);
  s->args[1] = arg(T, 1, W, 1, 0, 256);
  s->args[2] = arg(VTB_LAUNCH_STATE, 0, R, -1, 256, 256);
  s->args[3] = arg(VTB_LAUNCH_STATE, 0, R | W, -1, 0, 256);
  return s;
}

TEST(the_state_is_followed_too) {
  int64_t place[2];
  expect(make_update(place), NULL, NULL);
  sample *s = make_update(place);
  vtb_launch_step first = s->steps[0]; /* the update before the gradient */
  s->steps[0] = s->steps[1];
  s->steps[1] = first;
  expect(s, NULL, "step 0 (k): argument 0 reads byte 256 of value -1, which nothing has written");
  s = make_update(place);
  s->plan.n_steps = 3; /* w is read once more, after its update */
  s->args[4] = arg(T, 0, R, 0, 0, 256);
  s->args[5] = arg(WS, 0, W, 2, 0, 256);
  expect(s, NULL,
         "step 2 (k): argument 0 reads value 0, but byte 0 has been overwritten by value -1");
  s = make_update(place);
  s->args[3].offset = 128; /* over the gradient that the same launch reads */
  expect(s, NULL, "step 1 (k): argument 1 writes value -1 over value -1 of argument 0");
  s = make_update(place);
  s->args[3].bytes = 528;
  expect(s, NULL, "reaches bytes 0 to 527 of the state, which has 512");
  s = make_update(place);
  place[1] = 272;
  expect(s, NULL, "d:w has byte 272 of the state, which has 512");
  s = make_update(place);
  s->args[1].bytes = 240;
  expect(s, NULL, "reads byte 496");
}

/* w's gradient as a bucket, whole behind the first step. */
static sample *make_bucket(int64_t place[2], vtb_launch_bucket *b) {
  sample *s = make_update(place);
  *b = (vtb_launch_bucket){.offset = 256, .bytes = 256, .step = 0, .n_tensors = 1};
  s->plan.buckets = b;
  s->plan.n_buckets = 1;
  return s;
}

TEST(buckets_hold_whole_gradients_that_nothing_changes) {
  int64_t place[2];
  vtb_launch_bucket b[2];
  expect(make_bucket(place, b), NULL, NULL);
  sample *s = make_bucket(place, b);
  s->args[2].access = R | W; /* the update clears the gradient */
  expect(s, NULL, "step 1 (k): argument 0 writes to bucket 0, which is complete behind step 0");
  s = make_bucket(place, b);
  vtb_launch_loop l = {.first = 0, .n = 1, .times = 2};
  s->plan.loops = &l;
  s->plan.n_loops = 1;
  expect(s, NULL, "bucket 0: complete behind step 0");
  s = make_bucket(place, b);
  b->step = 2;
  expect(s, NULL, "bucket 0: complete behind step 2");
  s = make_bucket(place, b);
  b->bytes = 512;
  expect(s, NULL, "bucket 0: bytes 256 to 767 of the state, which has 512");
  s = make_bucket(place, b);
  b->bytes = INT64_MAX - 255;
  expect(s, NULL, "bucket 0: bytes 256 to 9223372036854775807 of the state, which has 512");
  s = make_bucket(place, b);
  b->offset = 0;
  expect(s, NULL, "bucket 0: w is no gradient");
  s = make_bucket(place, b);
  s->plan.state_bytes = 768;
  s->tensors[1].dim[0] = 65; /* one more than the bucket has */
  s->args[1].bytes = 260;
  expect(s, NULL, "bucket 0: d:w is cut by its end");
  s = make_bucket(place, b);
  b->n_tensors = 2;
  expect(s, NULL, "bucket 0: 1 gradients, 2 are said");
  s = make_bucket(place, b);
  b[1] = b[0];
  s->plan.n_buckets = 2;
  expect(s, NULL, "bucket 1: it meets bucket 0");
}

TEST(sums_inside_a_step_lie_in_its_memory) {
  int64_t place[2];
  vtb_launch_bucket b[2];
  for (int tensor = 0; tensor < 2; tensor++) {
    sample *s = make_bucket(place, b);
    s->plan.workspace_bytes = 512;
    int64_t room = tensor ? vtb_tensor_info_count(&s->tensors[0]) * 4 : 512;
    int32_t where = tensor ? VTB_BUCKET_TENSOR : VTB_BUCKET_WORKSPACE;
    b[1] = (vtb_launch_bucket){.offset = room - 4, .bytes = 4, .where = where};
    s->plan.n_buckets = 2;
    expect(s, NULL, NULL);
    s = make_bucket(place, b);
    s->plan.workspace_bytes = 512;
    s->plan.n_buckets = 2;
    b[1] = (vtb_launch_bucket){.offset = room - 4, .bytes = 8, .where = where};
    expect(s, NULL, "of a sum, where there are");
  }
  sample *s = make_bucket(place, b);
  s->plan.n_buckets = 2;
  b[1] = (vtb_launch_bucket){.bytes = 4, .where = VTB_BUCKET_TENSOR, .tensor = 99};
  expect(s, NULL, "bucket 1: bytes 0 to 3 of a sum, where there are 0");
  s = make_bucket(place, b);
  s->plan.n_buckets = 2;
  b[1] = (vtb_launch_bucket){.offset = 4, .bytes = INT64_MAX, .where = VTB_BUCKET_WORKSPACE};
  expect(s, NULL, "bucket 1: bytes 4 to 9223372036854775807 of a sum");
  s = make_bucket(place, b);
  s->args[0].offset = 16, s->args[0].bytes = INT64_MAX;
  expect(s, NULL, "argument 0 reaches bytes 16 to 9223372036854775807");
}

TEST(bounds_and_alignment) {
  sample *s = make();
  s->args[3].bytes = 260;
  expect(s, NULL, "reaches bytes 256 to 515 of the workspace, which has 512");
  s = make();
  s->args[0].offset = 4;
  expect(s, NULL, "reaches bytes 4 to 259 of the tensor");
  s = make();
  s->args[0].offset = 8;
  s->args[0].bytes = 64;
  expect(s, NULL, "not aligned to 16 bytes");
  s = make();
  s->args[0].offset = -16;
  expect(s, NULL, "argument 0 reaches");
  s = make();
  s->args[0].tensor = 2;
  expect(s, NULL, "memory that does not exist");
  s = make();
  s->args[0].access = W;
  expect(s, NULL, "read only");
  s = make();
  s->args[5].bytes = 128;
  expect(s, NULL, "nothing writes byte 128 of result y");
}

TEST(limits) {
  sample *s = make();
  s->kernels[0].shared_bytes = 200 * 1024;
  expect(s, vtb_arch_find("sm_90a"), NULL);
  s = make();
  s->kernels[0].shared_bytes = 200 * 1024;
  expect(s, NULL, "204800 bytes of shared memory; sm_80 has 166912 a block");
  s = make();
  s->kernels[0].threads = 1056;
  expect(s, NULL, "blocks of 1056 threads");
  s = make();
  s->steps[1].grid = INT64_C(1) << 31;
  expect(s, NULL, "step 1 (k): 2147483648 blocks");
  s = make();
  s->steps[1].n_args = 1;
  expect(s, NULL, "1 arguments instead of 2");
  s = make();
  s->steps[2].first_arg = 5;
  expect(s, NULL, "not in the plan");
  s = make();
  s->steps[2].index = 1;
  expect(s, NULL, "neither a kernel nor a product");
  CHECK(vtb_arch_find("sm_20") == NULL);
}

static sample *make_clusters(int cluster, int64_t grid, int arch) {
  sample *s = make();
  s->kernels[0].cluster = cluster;
  s->kernels[0].arch = arch;
  for (int i = 0; i < 3; i++) s->steps[i].grid = grid;
  return s;
}

TEST(clusters) {
  expect(make_clusters(2, 6, 90), NULL, NULL);
  expect(make_clusters(8, 16, 90), vtb_arch_find("sm_90a"), NULL);
  expect(make_clusters(1, 5, 0), NULL, NULL);
  expect(make_clusters(2, 5, 90), NULL, "5 blocks, which clusters of 2 do not divide");
  expect(make_clusters(9, 9, 90), NULL, "clusters of 9 blocks; there are at most 8");
  expect(make_clusters(-1, 9, 90), NULL, "clusters of -1 blocks");
  expect(make_clusters(2, 6, 0), NULL, "in a kernel not for sm_90a");
}

int main(void) {
  RUN(sound_plan);
  RUN(overlapping_workspace);
  RUN(reuse_of_dead_memory_is_fine);
  RUN(what_is_prepared_must_last);
  RUN(a_turn_finds_what_the_one_before_left);
  RUN(loops_nest_or_are_apart);
  RUN(conditions_are_numbers_that_are_there);
  RUN(the_state_is_followed_too);
  RUN(buckets_hold_whole_gradients_that_nothing_changes);
  RUN(sums_inside_a_step_lie_in_its_memory);
  RUN(bounds_and_alignment);
  RUN(limits);
  RUN(clusters);
  return test_done();
}
