/* NVRTC and the cache of what it made: code for every architecture, the log of a mistake, keys,
 * damage, bounds. */
#include "codegen/codegen.h"
#include "codegen/cuda/compile/nvrtc.h"
#include "codegen/cuda/compile/text.h"
#include "tests/test.h"

static const char source[] = "VTB_KERNEL(64, twice)(VTB_IN(float) x, VTB_OUT(float) y) {\n"
                             "  const int i = vtb_block() * 64 + vtb_tid();\n"
                             "  y[i] = 2.0f * vtb_gelu(x[i]);\n"
                             "}\n";

static size_t cached(void) {
  vtb_cuda_cache_entry *list = NULL;
  size_t n = 0;
  CHECK(vtb_cuda_cache_list(&list, &n, NULL) == VTB_OK);
  free(list);
  return n;
}

TEST(code_for_every_architecture_is_made_once) {
  static const char *const archs[] = {"sm_80", "sm_90a", "sm_100a", "compute_80"};
  for (size_t i = 0; i < sizeof archs / sizeof *archs; i++) {
    vtb_cuda_code first = {0}, second = {0};
    vtb_error err = {0};
    CHECK_MSG(vtb_cuda_compile("", source, archs[i], NULL, &first, &err) == VTB_OK, "%s", err.text);
    CHECK(!first.cached && cached() == i + 1);
    CHECK(vtb_cuda_compile("", source, archs[i], NULL, &second, &err) == VTB_OK && second.cached);
    CHECK(second.n_bytes == first.n_bytes && memcmp(first.data, second.data, first.n_bytes) == 0);
    CHECK_STR(second.log, first.log);
    vtb_cuda_resources r;
    bool ptx = strncmp(archs[i], "compute", 7) == 0;
    CHECK(vtb_cuda_resources_of(first.log, "twice", &r) == !ptx &&
          (ptx || (r.registers > 4 && r.spill_bytes == 0)));
    vtb_cuda_code_free(&first);
    vtb_cuda_code_free(&second);
  }
}

/* What kernels for sm_90a use compiles, and what makes it slow is an error. */
TEST(losses_of_speed_are_errors) {
  static const char *const bounds[] = {"VTB_KERNEL_ROOMY", "VTB_KERNEL"};
  for (int i = 0; i < 2; i++) {
    char text[1000];
    vtb_cuda_code code = {0};
    vtb_error err = {0};
    snprintf(text, sizeof text,
             "%s(384, k)(VTB_MAP(map), VTB_OUT(float) c) {\n"
             "  VTB_SHARED(vtb_u64, bar, 0, 1);\n"
             "  VTB_SHARED(vtb_bf16, tile, 1024, 4096);\n"
             "  float d[32];\n"
             "  if (vtb_tid() == 0) {\n"
             "    vtb_mbar_init(bar, 1);\n"
             "    vtb_mbar_ready();\n"
             "    vtb_mbar_expect(bar, 8192);\n"
             "    vtb_tma_load(tile, map, bar, 0, 0);\n"
             "  }\n"
             "  vtb_sync();\n"
             "  vtb_registers_up<168>();\n"
             "  vtb_mbar_wait(bar, 0);\n"
             "  const vtb_u64 of = vtb_wgmma_tile<128>(tile, 0, 1024);\n"
             "  vtb_wgmma_fence();\n"
             "  for (int k = 0; k < 4; k++)\n"
             "    vtb_wgmma<64, false, false, true>(d, of + 2 * k, of + 128 * k, k > 0);\n"
             "  vtb_wgmma_commit();\n"
             "  vtb_wgmma_wait<0>();\n"
             "  VTB_UNROLL for (int i = 0; i < 32; i++) c[i * 384 + vtb_tid()] = d[i];\n"
             "}\n",
             bounds[i]);
    vtb_status status =
        vtb_cuda_compile(vtb__text_find("hopper.cuh"), text, "sm_90a", NULL, &code, &err);
    CHECK_MSG((status == VTB_OK) == (i == 0), "%s", err.text);
    if (i) CHECK_MSG(strstr(err.text, "setmaxnreg"), "%s", err.text);
    vtb_cuda_code_free(&code);
  }
}

/* Of clusters, too: the emulator's test has kernels that use all of it. */
TEST(clusters_compile) {
  char *text = NULL;
  size_t n;
  vtb_cuda_code code = {0};
  vtb_error err = {0};
  CHECK(vtb_file_read(VTB_SOURCE_DIR "/tests/codegen/emulator_cluster_bugs.cu", 1 << 20, &text, &n,
                      &err) == VTB_OK);
  CHECK_MSG(vtb_cuda_compile(vtb__text_find("hopper.cuh"), text, "sm_90a", NULL, &code, &err) ==
                VTB_OK,
            "%s", err.text);
  vtb_cuda_resources r;
  CHECK(vtb_cuda_resources_of(code.log, "ok_sends", &r) && r.spill_bytes == 0);
  vtb_cuda_code_free(&code);
  free(text);
}

TEST(a_damaged_entry_is_made_again) {
  vtb_cuda_cache_entry *list = NULL;
  size_t n = 0;
  CHECK(vtb_cuda_cache_list(&list, &n, NULL) == VTB_OK && n > 0);
  char *folder = vtb_cuda_cache_folder();
  for (size_t i = 0; i < n; i++) {
    char path[600];
    snprintf(path, sizeof path, "%s/%s", folder, list[i].key);
    char *data;
    size_t bytes;
    CHECK(vtb_file_read(path, 1 << 20, &data, &bytes, NULL) == VTB_OK);
    data[bytes / 2 + i % (bytes / 4)] ^= 1; /* one bit of the image */
    CHECK(vtb_file_write_atomic(path, data, bytes, NULL) == VTB_OK);
    free(data);
  }
  vtb_cuda_code code = {0};
  CHECK(vtb_cuda_compile("", source, "sm_80", NULL, &code, NULL) == VTB_OK && !code.cached &&
        code.n_bytes > 100);
  vtb_cuda_code_free(&code);
  free(list);
  free(folder);
}

TEST(an_architecture_that_is_too_new_is_named) {
  vtb_cuda_code code = {0};
  vtb_error err = {0};
  CHECK(vtb_cuda_compile("", source, "sm_999", NULL, &code, &err) == VTB_E_DEVICE && !code.data &&
        !code.log);
  CHECK_MSG(strstr(err.text, "does not know --gpu-architecture=sm_999"), "%s", err.text);
}

TEST(a_mistake_is_an_error_with_the_log_and_numbered_lines) {
  vtb_cuda_code code = {0};
  vtb_error err = {0};
  fflush(stderr);
  FILE *kept = stderr, *file = tmpfile();
  CHECK(file != NULL);
  vtb_log_verbose(false);
  stderr = file;
  vtb_status status =
      vtb_cuda_compile("", "VTB_KERNEL(64, k)(VTB_OUT(float) y) {\n  y[0] = nothing;\n}\n", "sm_80",
                       NULL, &code, &err);
  stderr = kept;
  CHECK(status == VTB_E_INTERNAL && !code.data && ftell(file) == 0);
  CHECK_MSG(strstr(err.text, "\"nothing\" is undefined"), "%s", err.text);
  const char *at = strstr(err.text, "vertebra.cu("),
             *shown = strstr(err.text, "    y[0] = nothing;");
  int line = 0;
  CHECK(at && sscanf(at, "vertebra.cu(%d)", &line) == 1 && shown && atoi(shown - 5) == line);
  fclose(file);
}

TEST(the_verbose_see_the_whole_source) {
  vtb_cuda_code code = {0};
  fflush(stderr);
  FILE *kept = stderr, *file = tmpfile();
  CHECK(file != NULL);
  vtb_log_verbose(true);
  stderr = file;
  CHECK(vtb_cuda_compile("", "nonsense", "sm_80", NULL, &code, NULL) == VTB_E_INTERNAL);
  stderr = kept;
  vtb_log_verbose(false);
  static char text[1 << 20];
  rewind(file);
  text[fread(text, 1, sizeof text - 1, file)] = '\0';
  CHECK(strstr(text, "    1  ") && strstr(text, "  nonsense") && strstr(text, "): error"));
  fclose(file);
}

TEST(the_cache_stays_within_its_bound_and_can_be_cleared) {
  vtb_cuda_code big = {.data = vtb_xcalloc(700000, 1), .n_bytes = 700000, .log = vtb_xstrdup("")};
  size_t n = 0;
  CHECK(vtb_cuda_cache_clear(&n, NULL) == VTB_OK); /* others are as old, to the second */
  for (int i = 0; i < 5; i++) {
    char name[16];
    const char *parts[] = {name};
    snprintf(name, sizeof name, "big %d", i);
    vtb_cuda_key key = vtb__cuda_cache_key(parts, 1);
    vtb__cuda_cache_put(&key, &big, 2);
  }
  CHECK(cached() >= 2 && cached() <= 3);
  CHECK(vtb_cuda_cache_clear(&n, NULL) == VTB_OK && n >= 2 && cached() == 0);
  vtb_cuda_code_free(&big);
}

TEST(keys_depend_on_every_part_and_its_length) {
  const char *a[] = {"ab", "c"}, *b[] = {"a", "bc"}, *c[] = {"ab", "c"};
  CHECK(strcmp(vtb__cuda_cache_key(a, 2).text, vtb__cuda_cache_key(b, 2).text) != 0);
  CHECK_STR(vtb__cuda_cache_key(a, 2).text, vtb__cuda_cache_key(c, 2).text);
}

#define PTXAS(kernel, spills)                                                                      \
  "ptxas info    : Compiling entry function '" kernel                                              \
  "' for 'sm_90a'\n    8 bytes stack frame, " spills " bytes spill stores, " spills                \
  " bytes spill loads\nptxas info    : Used 48 registers\n"

TEST(kernels_that_spill_are_given_room) {
  static const char text[] =
      "VTB_KERNEL(threads, name) x\nVTB_KERNEL(64, a_1)() {}\nVTB_KERNEL(64, a_12)() {}\n";
  CHECK(vtb__cuda_give_room(text, PTXAS("a_1", "0") PTXAS("a_12", "0")) == NULL);
  char *roomy = vtb__cuda_give_room(text, PTXAS("a_1", "0") PTXAS("a_12", "4"));
  CHECK_STR(
      roomy ? roomy : "",
      "VTB_KERNEL(threads, name) x\nVTB_KERNEL(64, a_1)() {}\nVTB_KERNEL_ROOMY(64, a_12)() {}\n");
  free(roomy);
  roomy = vtb__cuda_give_room("VTB_KERNEL_PAIRED(64, a_1)() {}\nVTB_KERNEL_PAIRED(64, a_2)() {}\n",
                              PTXAS("a_1", "12") PTXAS("a_2", "8"));
  CHECK_STR(roomy ? roomy : "",
            "VTB_KERNEL_ROOMY(64, a_1)() {}\nVTB_KERNEL_PAIRED(64, a_2)() {}\n");
  free(roomy);
}

int main(void) {
  vtb_strbuf why = {0};
  setenv("XDG_CACHE_HOME", VTB_BINARY_DIR "/test-cache-nvrtc", 1);
  RUN(keys_depend_on_every_part_and_its_length);
  RUN(kernels_that_spill_are_given_room);
  if (!vtb_cuda_describe_nvrtc(&why)) {
    printf("skipped: %s\n", why.at);
    return test_done() ? 1 : 77;
  }
  vtb_strbuf_free(&why);
  size_t n = 0;
  CHECK(vtb_cuda_cache_clear(&n, NULL) == VTB_OK);
  RUN(code_for_every_architecture_is_made_once);
  RUN(a_damaged_entry_is_made_again);
  RUN(an_architecture_that_is_too_new_is_named);
  RUN(a_mistake_is_an_error_with_the_log_and_numbered_lines);
  RUN(the_verbose_see_the_whole_source);
  RUN(the_cache_stays_within_its_bound_and_can_be_cleared);
  RUN(losses_of_speed_are_errors);
  RUN(clusters_compile);
  return test_done();
}
