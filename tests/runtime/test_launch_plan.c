/* The bytes that a step of a launch plan moves: each once, whichever arguments reach it. */
#include "runtime/launch/launch_plan.h"
#include "tests/test.h"

enum { R = VTB_LAUNCH_READ, W = VTB_LAUNCH_WRITE, T = VTB_LAUNCH_TENSOR };

static vtb_launch_arg view(int access, int tensor, int64_t offset, int64_t bytes, int64_t touched) {
  return (vtb_launch_arg){.space = T,
                          .access = (uint8_t)access,
                          .tensor = tensor,
                          .offset = offset,
                          .bytes = bytes,
                          .touched = touched};
}

static vtb_launch_traffic moved(vtb_launch_arg *args, int n) {
  vtb_launch_plan p = {.args = args, .n_args = n};
  vtb_launch_step s = {.n_args = n};
  return vtb_launch_traffic_of(&p, &s);
}

TEST(views_side_by_side_are_a_part_each) {
  /* q, k and v of rows of 3 x 64 bytes, 10 rows */
  vtb_launch_arg args[] = {view(R, 0, 0, 1792, 640), view(R, 0, 64, 1792, 640),
                           view(R, 0, 128, 1792, 640), view(W, 1, 0, 640, 640)};
  vtb_launch_traffic t = moved(args, 4);
  CHECK(t.read == 1920 && t.written == 640);
  t = moved(args, 1);
  CHECK(t.read == 640 && t.written == 0);
}

TEST(one_view_twice_is_read_once) {
  vtb_launch_arg args[] = {view(R, 0, 0, 1000, 300), view(R, 0, 0, 1000, 300),
                           view(R, 1, 0, 1000, 300), view(R | W, 2, 0, 80, 80)};
  vtb_launch_traffic t = moved(args, 4);
  CHECK(t.read == 680 && t.written == 80);
}

TEST(a_tensor_and_its_part_are_the_tensor) {
  vtb_launch_arg args[] = {view(R, 0, 256, 512, 512), view(R, 0, 0, 1024, 1024),
                           view(R, 0, 2048, 100, 100), view(W, 0, 1024, 10, 10)};
  vtb_launch_traffic t = moved(args, 4);
  CHECK(t.read == 1124 && t.written == 10);
}

TEST(nothing_moves_nothing) {
  vtb_launch_arg args[] = {view(R, 0, 0, 0, 0), view(W, 1, 0, 0, 0)};
  vtb_launch_traffic t = moved(args, 2);
  CHECK(t.read == 0 && t.written == 0);
}

int main(void) {
  RUN(views_side_by_side_are_a_part_each);
  RUN(one_view_twice_is_read_once);
  RUN(a_tensor_and_its_part_are_the_tensor);
  RUN(nothing_moves_nothing);
  return test_done();
}
