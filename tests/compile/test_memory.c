/* Memory that runs out during a compilation: the n-th allocation of ours fails, and the call
 * returns VTB_E_MEMORY, gives back what it took and leaves everything as it was. Only calls of this
 * program are made to fail (the linker wraps them): LLVM ends the process when it finds no memory.
 */
#include "frontend/compile/driver.h"
#include "tests/test.h"

#include <stdatomic.h>

void *__real_malloc(size_t n);
void *__real_calloc(size_t count, size_t n);
void *__real_realloc(void *p, size_t n);
void __real_free(void *p);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t count, size_t n);
void *__wrap_realloc(void *p, size_t n);
void __wrap_free(void *p);

static _Atomic int64_t countdown; /* 0 and below: off */
static _Atomic int64_t n_live, n_calls;

static bool fails_now(void) {
  n_calls++;
  return atomic_load(&countdown) > 0 && atomic_fetch_sub(&countdown, 1) == 1;
}

void *__wrap_malloc(size_t n) {
  if (fails_now()) return NULL;
  n_live++;
  return __real_malloc(n);
}

void *__wrap_calloc(size_t count, size_t n) {
  if (fails_now()) return NULL;
  n_live++;
  return __real_calloc(count, n);
}

void *__wrap_realloc(void *p, size_t n) {
  if (fails_now()) return NULL;
  n_live += !p;
  return __real_realloc(p, n);
}

void __wrap_free(void *p) {
  n_live -= p != NULL;
  __real_free(p);
}

static const char text[] = "use std.nn\n"
                           "use std.conv\n"
                           "model small() {\n"
                           "  input image: image[1, 6, 6]\n"
                           "  x = gelu(linear(\"up\", layer_norm(\"norm\", pixels(image)), 8))\n"
                           "  output logits = linear(\"head\", mean(x, axis = \"tokens\"), 3)\n"
                           "}\n";

/* What a compilation gives is freed; its status. */
static vtb_status compile(const char *stage, vtb_report *r) {
  vtb_compile_options o = {.size = sizeof o, .model = "small.vtb", .text = text};
  o.training = strcmp(stage, "grad") == 0;
  vtb_program *p = NULL;
  char *out = NULL;
  vtb_status status =
      stage[0] ? vtb_compile_stage(&o, stage, NULL, &out, r) : vtb_compile(&o, &p, r);
  CHECK_MSG((p || out) == (status == VTB_OK), "status %d with a result", status);
  vtb_program_free(p);
  free(out);
  return status;
}

static void fail_in_turn(const char *stage) {
  vtb_report *r = vtb_report_new();
  CHECK(compile(stage, r) == VTB_OK); /* what is made once is made */
  int64_t before = n_calls, n = 0, failed = 0;
  CHECK(compile(stage, r) == VTB_OK);
  int64_t all = n_calls - before;
  for (n = 1; n <= all; n += 1 + n / 12) {
    int64_t live = n_live;
    countdown = n;
    vtb_status status = compile(stage, r);
    bool reached = countdown == 0;
    countdown = 0;
    CHECK_MSG(status == VTB_E_MEMORY || status == VTB_OK, "call %lld of %lld: status %d: %s",
              (long long)n, (long long)all, status, vtb_report_error(r));
    if (status == VTB_E_MEMORY) failed++;
    CHECK_MSG(!reached || status != VTB_OK || n > all / 2, "call %lld was not missed",
              (long long)n);
    /* fewer: some blocks are of the C library and freed here */
    CHECK_MSG(n_live <= live, "call %lld of %lld: %lld blocks are lost", (long long)n,
              (long long)all, (long long)(n_live - live));
    if (status == VTB_E_MEMORY) CHECK(strstr(vtb_report_error(r), "out of memory"));
  }
  CHECK_MSG(failed > 20, "%lld failures of %lld calls", (long long)failed, (long long)all);
  CHECK(compile(stage, r) == VTB_OK);
  vtb_report_free(r);
}

TEST(the_frontend_and_the_passes_survive) { fail_in_turn("grad"); }
TEST(kernels_of_cuda_survive) { fail_in_turn("cuda"); }
TEST(native_code_survives) { fail_in_turn(""); }

int main(void) {
  setenv("VTB_MODELS", VTB_SOURCE_DIR "/models", 1);
  RUN(the_frontend_and_the_passes_survive);
  RUN(kernels_of_cuda_survive);
  RUN(native_code_survives);
  return test_done();
}
