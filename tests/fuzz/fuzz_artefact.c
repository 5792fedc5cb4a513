/* What built files hold besides code: any bytes as a launch plan, and as a manifest. What is read
 * writes the same again.
 */
#include "runtime/artefact/artefact_file.h"
#include "runtime/launch/launch_plan_file.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void as_plan(const uint8_t *data, size_t n) {
  vtb_error err = {0};
  vtb_launch_plan *p = NULL;
  vtb_strbuf again = {0};
  if (vtb_launch_plan_read(data, n, &p, &err) != VTB_OK) return;
  vtb_launch_plan_write(p, &again);
  vtb_check(again.n == n && memcmp(again.at, data, n) == 0,
            "a plan is written differently from what was read");
  vtb_strbuf_free(&again);
  vtb_launch_plan_free(p);
}

static void as_manifest(const uint8_t *data, size_t n) {
  vtb_error err = {0};
  vtb_arena arena;
  vtb_manifest m;
  vtb_strbuf again = {0};
  vtb_arena_init(&arena);
  if (vtb__manifest_read("fuzz", data, n, 1 << 20, &arena, &m, &err) == VTB_OK) {
    vtb__manifest_write(&m, &again);
    vtb_check(again.n == n && memcmp(again.at, data, n) == 0,
              "a manifest is written differently from what was read");
  }
  vtb_strbuf_free(&again);
  vtb_arena_free(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  as_plan(data, n);
  as_manifest(data, n);
  return 0;
}
