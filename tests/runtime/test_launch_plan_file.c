/* Launch plans as bytes: nothing is lost on the way, and no bytes do harm. */
#include "runtime/launch/launch_plan_file.h"
#include "tests/runtime/sample_plan.h"
#include "tests/runtime/support.h"

static vtb_strbuf bytes_of(const vtb_launch_plan *p) {
  vtb_strbuf s = {0};
  vtb_launch_plan_write(p, &s);
  return s;
}

TEST(a_plan_survives_the_way_through_bytes) {
  vtb_launch_plan *p = sample_plan(), *q = NULL;
  p->n_prepared = 1;
  p->loops = &(vtb_launch_loop){.first = 1, .n = 1, .times = 250, .condition = 5};
  p->n_loops = 1;
  vtb_launch_arg args[5];
  memcpy(args, p->args, 4 * sizeof *args);
  args[4] = args[2];
  args[4].bytes = args[4].touched = 4;
  p->args = vtb_arena_memdup(&p->arena, args, sizeof args);
  p->n_args = 5;
  vtb_strbuf bytes = bytes_of(p);
  CHECK_OK(vtb_launch_plan_read(bytes.at, bytes.n, &q, err));
  if (!q) return;
  CHECK(q->n_tensors == 2 && q->tensors[1].rank == 2 && q->tensors[1].dim[1] == 64);
  CHECK(q->tensors[1].io == VTB_IO_OUTPUT && q->tensors[0].init == NULL);
  CHECK_STR(q->tensors[1].name, "y");
  CHECK(q->batch == 1 && q->workspace_bytes == 256 && q->constant_bytes == 16 && !q->place);
  CHECK(memcmp(q->constants, p->constants, 16) == 0);
  CHECK_STR(q->common, p->common);
  CHECK_STR(q->sources[0].text, p->sources[0].text);
  CHECK_STR(q->kernels[1].name, "k_add_one");
  CHECK(q->kernels[0].threads == 32 && q->kernels[0].shared_bytes == 65536 &&
        q->kernels[0].n_args == 2);
  CHECK_STR(q->kernels[0].info.origin, "model.vtb:7");
  CHECK(q->kernels[0].info.flops == 64 && q->kernels[0].info.launches == 1);
  CHECK(memcmp(&q->gemms[0], &p->gemms[0], offsetof(vtb_launch_gemm, info)) == 0);
  CHECK_STR(q->gemms[0].info.origin, p->gemms[0].info.origin);
  CHECK(memcmp(q->steps, p->steps, 2 * sizeof *p->steps) == 0);
  CHECK(memcmp(q->args, p->args, 5 * sizeof *p->args) == 0);
  CHECK(q->n_prepared == 1 && q->n_loops == 1);
  CHECK(q->loops->first == 1 && q->loops->n == 1 && q->loops->times == 250);
  CHECK(q->loops->condition == 5);
  vtb_strbuf again = bytes_of(q);
  CHECK(again.n == bytes.n && memcmp(again.at, bytes.at, bytes.n) == 0);
  vtb_strbuf_free(&again);
  vtb_strbuf_free(&bytes);
  vtb_launch_plan_free(p);
  vtb_launch_plan_free(q);
}

TEST(places_in_the_state_are_kept) {
  vtb_launch_plan *p = sample_plan(), *q = NULL;
  p->state_bytes = 512;
  p->place = VTB_NEW_ARRAY(&p->arena, int64_t, 2);
  p->place[0] = 256;
  p->place[1] = -1;
  vtb_strbuf bytes = bytes_of(p);
  CHECK_OK(vtb_launch_plan_read(bytes.at, bytes.n, &q, err));
  if (q) CHECK(q->state_bytes == 512 && q->place && q->place[0] == 256 && q->place[1] == -1);
  vtb_launch_plan_free(q);
  p->place[0] = 272; /* its 256 bytes end behind the state */
  bytes.n = 0;
  vtb_launch_plan_write(p, &bytes);
  CHECK_REFUSED(vtb_launch_plan_read(bytes.at, bytes.n, &q, err), "outside the state");
  vtb_strbuf_free(&bytes);
  vtb_launch_plan_free(p);
}

/* y is the gradient of x, at byte 256 of the state. */
TEST(buckets_of_gradients_are_kept) {
  vtb_launch_plan *p = sample_plan(), *q = NULL;
  vtb_launch_bucket b = {.offset = 256, .bytes = 256, .step = 1, .n_tensors = 1};
  p->state_bytes = 512;
  p->tensors[1].io = VTB_IO_GRAD_OUT;
  p->place = VTB_NEW_ARRAY(&p->arena, int64_t, 2);
  p->place[0] = -1;
  p->place[1] = 256;
  p->buckets = &b;
  p->n_buckets = 1;
  vtb_strbuf bytes = bytes_of(p);
  CHECK_OK(vtb_launch_plan_read(bytes.at, bytes.n, &q, err));
  if (q) CHECK(q->n_buckets == 1 && memcmp(&q->buckets[0], &b, sizeof b) == 0);
  vtb_launch_plan_free(q);
  b = (vtb_launch_bucket){.bytes = 8, .step = 1, .where = VTB_BUCKET_TENSOR, .tensor = 1};
  bytes.n = 0;
  vtb_launch_plan_write(p, &bytes);
  CHECK_OK(vtb_launch_plan_read(bytes.at, bytes.n, &q, err));
  if (q) CHECK(q->n_buckets == 1 && memcmp(&q->buckets[0], &b, sizeof b) == 0);
  vtb_launch_plan_free(q);
  b = (vtb_launch_bucket){.offset = 256, .bytes = 256, .step = 1, .n_tensors = 1};
  b.step = 0; /* the gradient is written by step 1 */
  bytes.n = 0;
  vtb_launch_plan_write(p, &bytes);
  CHECK_REFUSED(vtb_launch_plan_read(bytes.at, bytes.n, &q, err), "writes to bucket 0");
  vtb_strbuf_free(&bytes);
  vtb_launch_plan_free(p);
}

TEST(every_cut_is_refused) {
  vtb_launch_plan *p = sample_plan(), *q = NULL;
  vtb_strbuf bytes = bytes_of(p);
  for (size_t n = 4; n < bytes.n; n++)
    CHECK_REFUSED(vtb_launch_plan_read(bytes.at, n, &q, err), "the launch plan is damaged");
  vtb_strbuf_putc(&bytes, 0);
  CHECK_REFUSED(vtb_launch_plan_read(bytes.at, bytes.n, &q, err), "the launch plan is damaged");
  bytes.at[0] = 1;
  CHECK_REFUSED(vtb_launch_plan_read(bytes.at, bytes.n, &q, err),
                "has format 1; this runtime reads 11: build the file again");
  vtb_strbuf_free(&bytes);
  vtb_launch_plan_free(p);
}

/* Each change makes a plan that would reach outside its memory or its tables. */
static void change(vtb_launch_plan *p, int which) {
  switch (which) {
  case 0:
    p->args[0].bytes = 260;
    break;
  case 1:
    p->args[0].tensor = 7;
    break;
  case 2:
    p->steps[1].index = 2;
    break;
  case 3:
    p->steps[1].first_arg = 3;
    break;
  case 4:
    p->kernels[0].source = 1;
    break;
  case 5:
    p->kernels[0].shared_bytes = 1 << 20;
    break;
  case 6:
    p->workspace_bytes = -1;
    break;
  case 7:
    p->batch = 0;
    break;
  case 8:
    p->tensors[0].dim[0] = -4;
    break;
  case 9:
    p->tensors[0].rank = 9;
    break;
  case 10:
    p->tensors[0].dim[0] = INT64_C(1) << 60;
    break;
  case 11:
    p->args[1].space = 9;
    break;
  case 12:
    p->steps[0] = (vtb_launch_step){VTB_LAUNCH_GEMM, 0, 0, 0, 3};
    break; /* 6 numbers in 2 x 3, B of 12 */
  default:
    p->tensors[0].name = NULL;
    break;
  }
}

TEST(plans_that_reach_too_far_are_refused) {
  for (int i = 0; i < 14; i++) {
    vtb_launch_plan *p = sample_plan(), *q = NULL;
    vtb_error err = {0};
    p->gemms[0].m = 1 << 20;
    change(p, i);
    vtb_strbuf bytes = bytes_of(p);
    vtb_status status = vtb_launch_plan_read(bytes.at, bytes.n, &q, &err);
    CHECK_MSG(status == VTB_E_INPUT && err.text[0], "change %d: status %d, \"%s\"", i, (int)status,
              err.text);
    vtb_strbuf_free(&bytes);
    vtb_launch_plan_free(p);
  }
}

int main(void) {
  RUN(a_plan_survives_the_way_through_bytes);
  RUN(places_in_the_state_are_kept);
  RUN(buckets_of_gradients_are_kept);
  RUN(every_cut_is_refused);
  RUN(plans_that_reach_too_far_are_refused);
  return test_done();
}
