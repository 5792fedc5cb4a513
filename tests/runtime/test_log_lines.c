/* Lines of a log. */
#include "runtime/train/log.h"
#include "tests/runtime/support.h"

TEST(json_lines_escape_and_turn_what_is_not_finite_into_null) {
  vtb_log_field f[] = {{.key = "a\"b", .kind = VTB_LOG_TEXT, .text = "x\ny"},
                       {.key = "n", .kind = VTB_LOG_INT, .i = INT64_MAX},
                       {.key = "r", .kind = VTB_LOG_REAL, .r = 0.1},
                       {.key = "bad", .kind = VTB_LOG_REAL, .r = NAN}};
  vtb_strbuf out = {0};
  vtb_json_line(&out, f, 4);
  CHECK_STR(out.at, "{\"a\\\"b\":\"x\\ny\",\"n\":9223372036854775807,\"r\":0.1,\"bad\":null}\n");
  vtb_strbuf_free(&out);
}

int main(void) {
  RUN(json_lines_escape_and_turn_what_is_not_finite_into_null);
  return test_done();
}
