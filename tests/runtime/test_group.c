/* Devices that train together, with libraries that need none: joining, sums beside the work of a
 * device and between its steps, what is said when something fails or is missing. */
#include "runtime/cuda/device.h"
#include "runtime/launch/threads.h"
#include "runtime/ranks/ranks.h"
#include "tests/runtime/sample_plan.h"
#include "tests/test.h"

#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

typedef void (*fake_hook)(const char *kernel, unsigned blocks, unsigned threads, unsigned shared,
                          void **parameters);
static const char **fail_at, **fail_driver_at;
static int *version, *groups, *aborts, *async, *alive, *faults;
static char *trace;
static fake_hook *hook;
static vtb_cuda_device *device;

/* ---- a group --------------------------------------------------------------------------------- */

static vtb_cuda_group *join(int n, vtb_error *err) {
  vtb_cuda_group_id id = {{0}};
  vtb_cuda_group *g = NULL;
  if (vtb_cuda_group_make_id(&id, err) != VTB_OK) return NULL;
  return vtb_cuda_group_join(&id, n, n - 1, device, &g, err) == VTB_OK ? g : NULL;
}

/* Two buckets that a stream makes, one behind the other; the norm of both reads them behind. */
static vtb_status sum_two(vtb_cuda_group *g, const float *in, float *out, vtb_error *err) {
  const vtb_cu_api *api = &device->api;
  void *stream = device->stream;
  vtb_cu_address at = 0;
  CHECK(api->cuMemAlloc_v2(&at, 64) == 0);
  CHECK(api->cuMemcpyHtoDAsync_v2(at, in, 12, stream) == 0);
  vtb_status status = vtb_cuda_group_sum_begin(g, stream, at, 3, err);
  CHECK(api->cuMemcpyHtoDAsync_v2(at + 32, in + 3, 8, stream) == 0);
  if (status == VTB_OK) status = vtb_cuda_group_sum_begin(g, stream, at + 32, 2, err);
  if (status == VTB_OK) status = vtb_cuda_group_sum_wait(g, stream, err);
  CHECK(api->cuMemcpyDtoHAsync_v2(out, at, 12, stream) == 0);
  CHECK(api->cuMemcpyDtoHAsync_v2(out + 3, at + 32, 8, stream) == 0);
  CHECK(api->cuStreamSynchronize(stream) == 0);
  CHECK(api->cuMemFree_v2(at) == 0);
  return status;
}

static const float two[5] = {1, -2, 0.5f, 3, 1e30f};

TEST(sums_go_beside_the_stream_and_before_what_reads_them) {
  vtb_error err = {0};
  float out[5] = {0};
  CHECK(vtb__cu_enter(device, &err) == VTB_OK);
  int before = *alive;
  vtb_cuda_group *g = join(4, &err);
  CHECK_MSG(g, "%s", err.text);
  if (!g) return;
  *trace = '\0';
  CHECK(sum_two(g, two, out, &err) == VTB_OK);
  for (int i = 0; i < 5; i++) CHECK(out[i] == 4 * two[i]);
  CHECK_STR(trace, "in 12;event;2:after;2:sum 3;in 8;event;2:after;2:sum 2;2:event;after;"
                   "out 12;out 8;sync;");
  CHECK(vtb_cuda_group_check(g, &err) == VTB_OK && *faults == 0);
  vtb_cuda_group_leave(g);
  CHECK(*groups == 0 && *alive == before);
  vtb__cu_leave(device);
}

TEST(failures_name_the_call_and_leave_nothing) {
  static const char *const driver[] = {"cuStreamCreate", "cuEventCreate", "cuEventRecord",
                                       "cuStreamWaitEvent"};
  vtb_error err = {0};
  vtb_cuda_group_id id = {{0}};
  vtb_cuda_group *g = NULL;
  float out[5];
  int before = *alive;
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
  CHECK(g == NULL && *groups == 0 && *alive == before);
  CHECK(vtb__cu_enter(device, &err) == VTB_OK);
  for (int i = 0; i < 4; i++) {
    err = (vtb_error){0};
    if (i >= 2) g = join(2, &err);
    *fail_driver_at = driver[i];
    if (i < 2) g = join(2, &err);
    if (g) CHECK(sum_two(g, two, out, &err) == VTB_E_DEVICE);
    CHECK_MSG(err.status == VTB_E_DEVICE && strstr(err.text, driver[i]), "%s", err.text);
    *fail_driver_at = NULL;
    vtb_cuda_group_leave(g);
    g = NULL;
    CHECK(*groups == 0 && *alive == before);
  }
  err = (vtb_error){0};
  g = join(2, &err);
  *fail_at = "ncclAllReduce";
  CHECK(sum_two(g, two, out, &err) == VTB_E_DEVICE && strstr(err.text, "ncclAllReduce"));
  *fail_at = NULL;
  vtb_cuda_group_leave(g);
  vtb__cu_leave(device);
}

TEST(errors_that_come_up_later_are_seen_and_sums_can_be_given_up) {
  vtb_error err = {0};
  float out[5];
  CHECK(vtb__cu_enter(device, &err) == VTB_OK);
  vtb_cuda_group *g = join(2, &err);
  *async = 2;
  CHECK(vtb_cuda_group_check(g, &err) == VTB_E_DEVICE &&
        strstr(err.text, "unhandled system error (2) in a sum over the devices"));
  *async = 7, err = (vtb_error){0}; /* it is still at it */
  CHECK(vtb_cuda_group_check(g, &err) == VTB_OK);
  *async = 0, *aborts = 0;
  vtb_cuda_group_abort(g);
  vtb_cuda_group_abort(g);
  CHECK(*aborts == 1 && *groups == 0 && vtb_cuda_group_check(g, &err) == VTB_OK);
  CHECK(sum_two(g, two, out, &err) == VTB_E_DEVICE && strstr(err.text, "sums were given up"));
  vtb_cuda_group_leave(g);
  CHECK(*groups == 0);
  vtb__cu_leave(device);
}

/* ---- programs of several ranks --------------------------------------------------------------- */

enum { MOST = 4 };
typedef struct rank {
  vtb_ranks *r;
  int n, number;
  bool fails; /* the last rank, behind its first run */
  vtb_status status;
  vtb_error err;
  float y[64];
} rank;

/* y = 2 x + 1 of the sample, summed within it and at its end. */
static vtb_program *make_program(vtb_error *err) {
  vtb_cuda_image images[] = {{"fake", sizeof "fake"}};
  vtb_cuda_device *own = NULL;
  vtb_program *p = NULL;
  if (vtb_cuda_device_open(NULL, &own, err) != VTB_OK) return NULL;
  vtb_launch_plan *plan = sample_plan();
  plan->n_gemms = 0;
  plan->n_buckets = 2;
  plan->buckets = VTB_NEW_ARRAY(&plan->arena, vtb_launch_bucket, 2);
  plan->buckets[0] = (vtb_launch_bucket){.bytes = 256, .step = 0, .where = VTB_BUCKET_WORKSPACE};
  plan->buckets[1] =
      (vtb_launch_bucket){.bytes = 256, .step = 1, .where = VTB_BUCKET_TENSOR, .tensor = 1};
  if (vtb_cuda_program(plan, images, own, &p, err) == VTB_OK) return p;
  vtb_launch_plan_free(plan);
  vtb_cuda_device_close(own);
  return NULL;
}

static void run_rank(rank *k, vtb_program *p) {
  vtb_services *s = vtb_services_default(1);
  vtb_ranks_device *d = NULL;
  float x[64];
  void *args[] = {x, k->y};
  k->status = vtb_ranks_attach(k->r, p, &d, &k->err);
  double all = 1; /* nobody fails before all are there */
  if (k->status == VTB_OK) k->status = vtb_ranks_sum(k->r, &all, 1, &k->err);
  for (int run = 0; run < 4 && k->status == VTB_OK; run++) {
    for (int i = 0; i < 64; i++) x[i] = (float)(i + run);
    k->status = vtb_program_execute(p, args, NULL, s, &k->err);
    float n = (float)k->n;
    for (int i = 0; i < 64 && k->status == VTB_OK; i++)
      if (k->y[i] != n * (n * 2 * x[i] + 1))
        k->status = vtb_fail(&k->err, VTB_E_NUMBERS, "run %d: y[%d] = %g", run, i, (double)k->y[i]);
    if (!k->fails) continue;
    if (k->number == k->n - 1) {
      k->status = vtb_fail(&k->err, VTB_E_INPUT, "it burns");
      vtb_ranks_fail(k->r, k->err.status, k->err.text);
    } else if (k->status == VTB_OK) {
      double one = 1;
      k->status = vtb_ranks_sum(k->r, &one, 1, &k->err);
    }
  }
  for (int i = 0; k->fails && i < 300 && __atomic_load_n(aborts, __ATOMIC_SEQ_CST) < k->n; i++)
    usleep(10000);
  vtb_ranks_detach(d);
  CHECK(!p->on_bucket);
  vtb_services_free(s);
}

static void *play(void *arg) {
  rank *k = arg;
  vtb_program *p = make_program(&k->err);
  if (p) run_rank(k, p);
  vtb_program_free(p);
  vtb_ranks_close(k->r);
  return NULL;
}

static void play_all(int n, bool fails, rank k[MOST]) {
  vtb_error err = {0};
  vtb_ranks *ranks[MOST];
  pthread_t threads[MOST];
  CHECK(vtb_ranks_open_threads(n, NULL, ranks, &err) == VTB_OK);
  for (int i = 0; i < n; i++) {
    k[i] = (rank){.r = ranks[i], .n = n, .number = i, .fails = fails};
    CHECK(pthread_create(&threads[i], NULL, play, &k[i]) == 0);
  }
  for (int i = 0; i < n; i++) pthread_join(threads[i], NULL);
}

TEST(programs_sum_within_a_run_and_at_its_end) {
  rank k[MOST];
  for (int n = 1; n <= 3; n++) {
    play_all(n, false, k);
    for (int i = 0; i < n; i++)
      CHECK_MSG(k[i].status == VTB_OK && !k[i].err.status, "%d of %d: %s", i, n, k[i].err.text);
    CHECK(*groups == 0); /* the fake's faults are those of one thread's calls */
  }
}

TEST(a_rank_that_fails_ends_the_sums_of_the_others) {
  rank k[MOST];
  *aborts = 0;
  play_all(3, true, k);
  CHECK_MSG(*aborts == 3 && *groups == 0, "%d aborts, %d groups", *aborts, *groups);
  for (int i = 0; i < 2; i++)
    CHECK_MSG(k[i].status == VTB_E_INPUT && strstr(k[i].err.text, "it burns"), "%s", k[i].err.text);
}

TEST(errors_of_the_device_end_the_job) {
  rank k[MOST];
  *fail_at = "ncclCommInitRank";
  play_all(2, false, k);
  *fail_at = NULL;
  CHECK_MSG(k[0].status == VTB_E_DEVICE && strstr(k[0].err.text, "a GPU of its own"), "%s",
            k[0].err.text);
}

/* As the emulator does: buckets in the host's memory. */
static vtb_status never_run(void *owner, void *const *args, const vtb_services *s, vtb_error *err) {
  (void)owner, (void)args, (void)s;
  return vtb_fail(err, VTB_E_INTERNAL, "it is not run");
}

static void *play_on_host(void *arg) {
  rank *k = arg;
  vtb_ranks_device *d = NULL;
  vtb_program p = {.run = never_run, .n_buckets = 3};
  k->status = vtb_ranks_attach(k->r, &p, &d, &k->err);
  for (int i = 0; i < 64; i++) k->y[i] = (float)(i + k->number);
  const int length[3] = {10, 3, 51};
  for (int i = 0, at = 0; i < 3 && k->status == VTB_OK; at += length[i++]) {
    vtb_bucket b = {.index = i,
                    .at = (uint64_t)(uintptr_t)(k->y + at),
                    .bytes = length[i] * 4,
                    .inside = i == 1};
    k->status = p.on_bucket(p.bucket_user, &b, &k->err);
    for (int e = 0; i == 1 && e < 13; e++) /* the rest of the step reads it now */
      if (k->y[e] != (float)(2 * e + 1)) vtb_fail(&k->err, VTB_E_NUMBERS, "y[%d] early", e);
  }
  for (int e = 0; e < 64; e++)
    if (k->y[e] != (float)(2 * e + 1)) vtb_fail(&k->err, VTB_E_NUMBERS, "y[%d]", e);
  vtb_ranks_detach(d);
  vtb_ranks_close(k->r);
  return NULL;
}

TEST(emulated_programs_sum_as_the_host_does) {
  rank k[2];
  vtb_ranks *ranks[2];
  pthread_t threads[2];
  vtb_error err = {0};
  CHECK(vtb_ranks_open_threads(2, NULL, ranks, &err) == VTB_OK);
  for (int i = 0; i < 2; i++) {
    k[i] = (rank){.r = ranks[i], .n = 2, .number = i};
    CHECK(pthread_create(&threads[i], NULL, play_on_host, &k[i]) == 0);
  }
  for (int i = 0; i < 2; i++) {
    pthread_join(threads[i], NULL);
    CHECK_MSG(k[i].status == VTB_OK && !k[i].err.status, "%s", k[i].err.text);
  }
}

/* ---- which NCCL, which device ---------------------------------------------------------------- */

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

TEST(processes_of_one_machine_take_the_next_device_each) {
  vtb_error err = {0};
  int *devices = dlsym(dlopen(VTB_FAKE_CUDA, RTLD_NOW), "fake_cuda_devices");
  *devices = 3;
  static const struct {
    const char *rank;
    bool first; /* is asked for */
    const char *name;
  } cases[] = {{"2", false, "Fake 2"},
               {"4", false, "Fake 1"},
               {"2", true, "Fake 0"},
               {"x", false, "Fake 0"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    vtb_cuda_device *d = NULL;
    setenv("OMPI_COMM_WORLD_LOCAL_RANK", cases[i].rank, 1);
    const vtb_behaviour how = {.has_cuda_device = cases[i].first};
    CHECK(vtb_cuda_device_open(&how, &d, &err) == VTB_OK);
    if (d) CHECK_STR(d->name, cases[i].name);
    vtb_cuda_device_close(d);
  }
  unsetenv("OMPI_COMM_WORLD_LOCAL_RANK");
  *devices = 1;
}

static void compute(const char *kernel, unsigned blocks, unsigned threads, unsigned shared,
                    void **parameters) {
  const float *in = *(float **)parameters[0];
  float *out = *(float **)parameters[1];
  (void)blocks, (void)threads, (void)shared;
  for (int i = 0; i < 64; i++) out[i] = strcmp(kernel, "k_double") == 0 ? 2 * in[i] : in[i] + 1;
}

int main(void) {
  vtb_error err = {0};
  void *nccl = dlopen(VTB_FAKE_NCCL, RTLD_NOW), *cuda = dlopen(VTB_FAKE_CUDA, RTLD_NOW);
  if (!nccl || !cuda) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  alarm(100);
  setenv("VTB_CUDA_DRIVER", VTB_FAKE_CUDA, 1);
  setenv("VTB_NCCL", VTB_FAKE_NCCL, 1);
  fail_at = dlsym(nccl, "fake_nccl_fail");
  version = dlsym(nccl, "fake_nccl_version");
  groups = dlsym(nccl, "fake_nccl_groups");
  aborts = dlsym(nccl, "fake_nccl_aborts");
  async = dlsym(nccl, "fake_nccl_async");
  *(void **)dlsym(nccl, "fake_nccl_put") = dlsym(cuda, "fake_cuda_call");
  fail_driver_at = dlsym(cuda, "fake_cuda_fail");
  alive = dlsym(cuda, "fake_cuda_alive");
  faults = dlsym(cuda, "fake_cuda_faults");
  trace = dlsym(cuda, "fake_cuda_trace");
  hook = dlsym(cuda, "fake_cuda_hook");
  *hook = compute;
  CHECK_MSG(vtb_cuda_device_open(NULL, &device, &err) == VTB_OK, "%s", err.text);
  RUN(sums_go_beside_the_stream_and_before_what_reads_them);
  RUN(failures_name_the_call_and_leave_nothing);
  RUN(errors_that_come_up_later_are_seen_and_sums_can_be_given_up);
  *(bool *)dlsym(cuda, "fake_cuda_quiet") = true;
  *trace = '\0';
  RUN(programs_sum_within_a_run_and_at_its_end);
  RUN(a_rank_that_fails_ends_the_sums_of_the_others);
  RUN(errors_of_the_device_end_the_job);
  RUN(emulated_programs_sum_as_the_host_does);
  RUN(processes_of_one_machine_take_the_next_device_each);
  RUN(versions_and_what_is_missing_are_named);
  vtb_cuda_device_close(device);
  dlclose(nccl);
  return test_done();
}
