/* Devices that train together, with libraries that need none: joining, sums, and what is said when
 * something fails or is missing. */
#include "runtime/cuda/group.h"
#include "tests/test.h"

#include <dlfcn.h>

static const char **fail_at;
static int *version, *groups;
static vtb_cuda_device *device;

TEST(sums_are_over_all_ranks) {
  vtb_error err = {0};
  vtb_cuda_group_id id = {{0}};
  vtb_cuda_group *g = NULL;
  float x[3] = {1, -2, 0.5f};
  CHECK(vtb_cuda_group_make_id(&id, &err) == VTB_OK);
  CHECK_MSG(vtb_cuda_group_join(&id, 4, 3, device, &g, &err) == VTB_OK, "%s", err.text);
  if (!g) return;
  CHECK(vtb_cuda_group_sum(g, (uint64_t)(uintptr_t)x, 2, &err) == VTB_OK);
  CHECK(x[0] == 4 && x[1] == -8 && x[2] == 0.5f);
  vtb_cuda_group_leave(g);
  CHECK(*groups == 0);
}

TEST(failures_name_the_call) {
  vtb_error err = {0};
  vtb_cuda_group_id id = {{0}};
  vtb_cuda_group *g = NULL;
  float x = 1;
  CHECK(vtb_cuda_group_join(&id, 2, 0, device, &g, &err) == VTB_E_DEVICE &&
        strstr(err.text, "NCCL: invalid argument (5)"));
  CHECK(vtb_cuda_group_make_id(&id, &err) == VTB_OK);
  err = (vtb_error){0};
  CHECK(vtb_cuda_group_join(&id, 2, 2, device, &g, &err) == VTB_E_INPUT &&
        strstr(err.text, "no rank 2 among 2"));
  *fail_at = "ncclCommInitRank", err = (vtb_error){0};
  CHECK(vtb_cuda_group_join(&id, 2, 0, device, &g, &err) == VTB_E_DEVICE &&
        strstr(err.text, "unhandled system error (2) in ncclCommInitRank"));
  *fail_at = NULL;
  CHECK(g == NULL && *groups == 0);
  CHECK(vtb_cuda_group_join(&id, 2, 0, device, &g, &err) == VTB_OK);
  *fail_at = "ncclAllReduce", err = (vtb_error){0};
  CHECK(vtb_cuda_group_sum(g, (uint64_t)(uintptr_t)&x, 1, &err) == VTB_E_DEVICE &&
        strstr(err.text, "ncclAllReduce"));
  *fail_at = NULL;
  vtb_cuda_group_leave(g);
}

TEST(versions_and_what_is_missing_are_named) {
  vtb_strbuf text = {0};
  CHECK(vtb_cuda_probe_nccl(&text) && vtb_starts_with(text.at, "NCCL 2.27.3 (/"));
  text.n = 0, *version = 2708; /* before 2.9 the number had one digit less */
  CHECK(vtb_cuda_probe_nccl(&text) && vtb_starts_with(text.at, "NCCL 2.7.8 (/"));
  text.n = 0;
  setenv("VTB_NCCL", VTB_FAKE_CUDA, 1);
  CHECK(!vtb_cuda_probe_nccl(&text) && strstr(text.at, "it has no ncclGetVersion"));
  text.n = 0;
  setenv("VTB_NCCL", "/no/such/file.so", 1);
  CHECK(!vtb_cuda_probe_nccl(&text) &&
        strstr(text.at, "VTB_NCCL=/no/such/file.so cannot be loaded"));
  vtb_strbuf_free(&text);
}

int main(void) {
  vtb_error err = {0};
  void *fake = dlopen(VTB_FAKE_NCCL, RTLD_NOW);
  if (!fake) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  setenv("VTB_CUDA_DRIVER", VTB_FAKE_CUDA, 1);
  setenv("VTB_NCCL", VTB_FAKE_NCCL, 1);
  fail_at = dlsym(fake, "fake_nccl_fail");
  version = dlsym(fake, "fake_nccl_version");
  groups = dlsym(fake, "fake_nccl_groups");
  CHECK_MSG(vtb_cuda_device_open(&device, &err) == VTB_OK, "%s", err.text);
  RUN(sums_are_over_all_ranks);
  RUN(failures_name_the_call);
  RUN(versions_and_what_is_missing_are_named);
  vtb_cuda_device_close(device);
  dlclose(fake);
  return test_done();
}
