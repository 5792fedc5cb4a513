/* Sessions on a device, in memory and on streams of the caller's, with a driver that needs no GPU
 * (fake_cuda.c): what is copied and what is not, which stream work is put on, what is shared, what
 * is refused, and that nothing is lost whichever call fails. */
#include "docs/examples/c/device.h"
#include "tests/runtime/session_device.h"

#include <pthread.h>

/* ---- tests ----------------------------------------------------------------------------------- */

/* Nothing passes through the host, everything is on the caller's stream, and runs only queue. */
TEST(runs_are_queued_on_the_callers_stream) {
  vtb_model *m = NULL;
  vtb_session *s = NULL;
  caller c;
  open_caller(&c, 0);
  CHECK_OK(make_model(&m, err));
  vtb_session_options o = on_stream(c.stream);
  CHECK_OK(vtb_session_open(m, &o, &s, err));
  CHECK_OK(bind(s, "x", c.x, ROWS, err));
  CHECK_OK(bind(s, "y", c.y, ROWS, err));
  fill(c.x, 5);
  at(c.y)[0] = -1;
  for (int i = 0; i < 3; i++) {
    *trace = '\0';
    *graph_launches = 0;
    CHECK_OK(vtb_session_run(s, 0, err));
    CHECK_MSG(at(c.y)[0] == -1, "%d: somebody waited", i);
    CHECK_STR(trace, i == 0 ? "launch k_twice;launch k_add;" : "graph;launch k_add;");
    CHECK(cu.cuStreamSynchronize(c.stream) == 0);
    expect(at(c.y), 5, 2, N);
    at(c.y)[0] = -1;
  }
  vtb_session_close(s);
  vtb_model_release(m);
  close_caller(&c, 0);
  expect_nothing_left();
}

/* A second session copies no parameters; the last one to leave frees them. */
TEST(parameters_are_there_once) {
  vtb_model *m = NULL;
  vtb_session *s[3] = {NULL};
  caller c;
  open_caller(&c, 0);
  CHECK_OK(make_model(&m, err));
  vtb_session_options o = on_stream(c.stream);
  *trace = '\0';
  for (int i = 0; i < 3; i++) {
    CHECK_OK(vtb_session_open(m, &o, &s[i], err));
    CHECK_MSG(count("in 64;") == 1, "%s", trace);
    CHECK_OK(bind(s[i], "x", c.x, ROWS, err));
    CHECK_OK(bind(s[i], "y", c.y, ROWS, err));
  }
  fill(c.x, 0);
  for (int i = 0; i < 3; i++) {
    at(c.y)[N - 1] = -1;
    CHECK_OK(vtb_session_run(s[i], 0, err));
    CHECK(cu.cuStreamSynchronize(c.stream) == 0);
    expect(at(c.y), 0, 2, N);
    CHECK_MSG(count("in ") == 1 && count("out ") == 0 && count("across") == 0, "%s", trace);
    vtb_session_close(s[i]);
  }
  vtb_session *again = NULL;
  CHECK_OK(vtb_session_open(m, &o, &again, err));
  CHECK(count("in 64;") == 2);
  vtb_session_close(again);
  vtb_model_release(m);
  close_caller(&c, 0);
  expect_nothing_left();
}

/* New addresses are launched step by step, those seen before as the graph that has them; ten sets
 * are more than the eight that are remembered: the two oldest are launched step by step again. */
TEST(graphs_follow_the_addresses) {
  vtb_model *m = NULL;
  vtb_session *s = NULL;
  uint64_t y[10];
  caller c;
  open_caller(&c, 0);
  CHECK_OK(make_model(&m, err));
  vtb_session_options o = on_stream(c.stream);
  CHECK_OK(vtb_session_open(m, &o, &s, err));
  CHECK_OK(bind(s, "x", c.x, ROWS, err));
  cu.cuCtxPushCurrent_v2(c.context);
  for (int i = 0; i < 10; i++) CHECK(cu.cuMemAlloc_v2(&y[i], 4 * N) == 0);
  void *popped;
  cu.cuCtxPopCurrent_v2(&popped);
  for (int turn = 0; turn < 3; turn++)
    for (int i = 0; i < 10; i++) {
      int k = turn == 2 ? 9 - i : i % 5; /* five sets, twice; then ten */
      fill(c.x, (float)(10 * turn + i));
      CHECK_OK(bind(s, "y", y[k], ROWS, err));
      *graph_launches = 0;
      CHECK_OK(vtb_session_run(s, 0, err));
      CHECK_MSG(*graph_launches ==
                    (turn == 1 || (turn == 0 && i >= 5) || (turn == 2 && i >= 5 && i < 8)),
                "turn %d, %d", turn, i);
      CHECK(cu.cuStreamSynchronize(c.stream) == 0);
      expect(at(y[k]), (float)(10 * turn + i), 2, N);
    }
  vtb_session_close(s);
  vtb_model_release(m);
  for (int i = 0; i < 10; i++) CHECK(cu.cuMemFree_v2(y[i]) == 0);
  close_caller(&c, 0);
  expect_nothing_left();
}

/* What kernels cannot work in is copied on the device; rows that are not there read as zeros and
 * are not written. */
TEST(copies_on_the_device) {
  vtb_model *m = NULL;
  vtb_session *s = NULL;
  caller c;
  open_caller(&c, 0);
  CHECK_OK(make_model(&m, err));
  vtb_session_options o = on_stream(c.stream);
  CHECK_OK(vtb_session_open(m, &o, &s, err));
  for (int run = 0; run < 3; run++) { /* off by four bytes */
    fill(c.x + 4, 7);
    memset(at(c.y), 0x5a, 8 * N);
    CHECK_OK(bind(s, "x", c.x + 4, ROWS, err));
    CHECK_OK(bind(s, "y", c.y + 4, ROWS, err));
    *trace = '\0';
    CHECK_OK(vtb_session_run(s, 0, err));
    CHECK(cu.cuStreamSynchronize(c.stream) == 0);
    CHECK_MSG(count("across 256;") == 2 && !count("in ") && !count("out "), "%s", trace);
    expect(at(c.y + 4), 7, 2, N);
    CHECK(*(char *)at(c.y) == 0x5a && *(char *)at(c.y + 4 + 4 * N) == 0x5a);
  }
  for (int n = 1; n < ROWS; n++) {
    fill(c.x, (float)n);
    memset(at(c.y), 0x5a, 8 * N);
    CHECK_OK(bind(s, "x", c.x, n, err));
    CHECK_OK(bind(s, "y", c.y, n, err));
    *trace = '\0';
    CHECK_OK(vtb_session_run(s, 0, err));
    CHECK(cu.cuStreamSynchronize(c.stream) == 0);
    CHECK_MSG(count("across") == 2 && !count("in ") && !count("out "), "%s", trace);
    expect(at(c.y), (float)n, 2, n * COLUMNS);
    CHECK(*(char *)(at(c.y) + n * COLUMNS) == 0x5a);
  }
  CHECK_OK(bind(s, "x", c.x, ROWS, err)); /* all rows are there: only the result is short */
  CHECK_OK(bind(s, "y", c.y, ROWS, err));
  *trace = '\0';
  CHECK_OK(vtb_session_run(s, 3, err));
  CHECK_MSG(count("across 192;") == 1 && count("across") == 1, "%s", trace);
  vtb_session_close(s);
  vtb_model_release(m);
  close_caller(&c, 0);
  expect_nothing_left();
}

/* Some arrays here, some there; and the session's own on the device. */
TEST(arrays_of_the_host_and_the_device) {
  vtb_model *m = NULL;
  vtb_session *s = NULL;
  float x[N], y[N];
  caller c;
  open_caller(&c, 0);
  CHECK_OK(make_model(&m, err));
  vtb_session_options o = on_stream(c.stream);
  vtb_array host = rows((uint64_t)(uintptr_t)x, ROWS, VTB_DEVICE_CPU), out = {.size = sizeof out};
  CHECK_OK(vtb_session_open(m, &o, &s, err));
  for (int i = 0; i < N; i++) x[i] = 3 + (float)i;
  CHECK_OK(vtb_session_bind(s, "x", &host, err));
  CHECK_OK(bind(s, "y", c.y, ROWS, err));
  *trace = '\0';
  CHECK_OK(vtb_session_run(s, 0, err));
  CHECK(cu.cuStreamSynchronize(c.stream) == 0);
  CHECK_STR(trace, "in 256;launch k_twice;launch k_add;sync;");
  expect(at(c.y), 3, 2, N);
  CHECK_OK(vtb_session_array(s, VTB_ARRAY_OUTPUT, "y", &out, err));
  CHECK(out.device == VTB_DEVICE_CUDA && out.data == at(c.y));
  host.data = y;
  fill(c.x, 9);
  CHECK_OK(bind(s, "x", c.x, ROWS, err));
  CHECK_OK(vtb_session_bind(s, "y", &host, err));
  *trace = '\0';
  CHECK_OK(vtb_session_run(s, 0, err));
  CHECK(cu.cuStreamSynchronize(c.stream) == 0);
  CHECK_STR(trace, "launch k_add;out 256;sync;");
  expect(y, 9, 2, N);
  /* no data: the session's own, there */
  vtb_array own = {.size = sizeof own, .type = VTB_ARRAY_F32, .device = VTB_DEVICE_CUDA};
  CHECK_OK(vtb_session_bind(s, "y", &own, err));
  CHECK_OK(vtb_session_array(s, VTB_ARRAY_OUTPUT, "y", &out, err));
  CHECK(out.device == VTB_DEVICE_CUDA && out.dim[0] == ROWS && out.data != at(c.y));
  *trace = '\0';
  CHECK_OK(vtb_session_run(s, 0, err));
  CHECK(cu.cuStreamSynchronize(c.stream) == 0);
  CHECK_STR(trace, "launch k_add;sync;");
  expect(out.data, 9, 2, N);
  CHECK_OK(vtb_session_bind(s, "y", NULL, err)); /* and here again */
  CHECK_OK(vtb_session_run(s, 0, err));
  CHECK(cu.cuStreamSynchronize(c.stream) == 0);
  CHECK_OK(vtb_session_array(s, VTB_ARRAY_OUTPUT, "y", &out, err));
  CHECK(out.device == VTB_DEVICE_CPU);
  expect(out.data, 9, 2, N);
  vtb_session_close(s);
  vtb_model_release(m);
  close_caller(&c, 0);
  expect_nothing_left();
}

/* The caller's parameters, which it may change between runs; then the model's again. */
TEST(parameters_of_the_callers) {
  vtb_model *m = NULL;
  vtb_session *s = NULL;
  caller c;
  open_caller(&c, 0);
  CHECK_OK(make_model(&m, err));
  vtb_session_options o = on_stream(c.stream);
  CHECK_OK(vtb_session_open(m, &o, &s, err));
  uint64_t w = c.x + 4 * N;
  vtb_array param = rows(w, 0, VTB_DEVICE_CUDA);
  param.rank = 1, param.dim[0] = COLUMNS;
  CHECK_OK(bind(s, "x", c.x, ROWS, err));
  CHECK_OK(bind(s, "y", c.y, ROWS, err));
  for (int run = 0; run < 8; run++) {
    bool own = run % 4 != 3;
    CHECK_OK(vtb_session_bind(s, "w", own ? &param : NULL, err));
    fill(c.x, 1);
    for (int i = 0; i < COLUMNS; i++) at(w)[i] = 10 * (float)run;
    CHECK_OK(vtb_session_run(s, 0, err));
    CHECK(cu.cuStreamSynchronize(c.stream) == 0);
    expect(at(c.y), 1, own ? 20 * (float)run : 2, N);
    for (int i = 0; i < COLUMNS; i++) at(w)[i] = -1; /* without binding it again */
    CHECK_OK(vtb_session_run(s, 0, err));
    CHECK(cu.cuStreamSynchronize(c.stream) == 0);
    expect(at(c.y), 1, own ? -2 : 2, N);
  }
  CHECK(!count("across"));
  vtb_session_close(s);
  vtb_model_release(m);
  close_caller(&c, 0);
  expect_nothing_left();
}

/* Without a stream of the caller's a run is over when it returns. */
TEST(without_a_stream_runs_wait) {
  vtb_model *m = NULL;
  vtb_session *s = NULL;
  caller c;
  open_caller(&c, 0);
  CHECK_OK(make_model(&m, err));
  vtb_session_options o = {.size = sizeof o, .device = VTB_DEVICE_CUDA};
  CHECK_OK(vtb_session_open(m, &o, &s, err));
  CHECK_OK(bind(s, "x", c.x, ROWS, err));
  CHECK_OK(bind(s, "y", c.y, ROWS, err));
  for (int i = 0; i < 3; i++) {
    fill(c.x, (float)i);
    CHECK_OK(vtb_session_run(s, 0, err));
    expect(at(c.y), (float)i, 2, N);
  }
  vtb_session_close(s);
  vtb_model_release(m);
  close_caller(&c, 0);
  expect_nothing_left();
}

/* On the default stream, which cannot be captured; and while the caller records its own. */
TEST(default_streams_and_recordings) {
  vtb_model *m = NULL;
  vtb_session *s = NULL;
  caller c;
  open_caller(&c, 1);
  *default_streams = true;
  CHECK_OK(make_model(&m, err));
  vtb_session_options o = on_stream(NULL);
  o.has_cuda_device = true, o.cuda_device = 1;
  CHECK_OK(vtb_session_open(m, &o, &s, err));
  CHECK_OK(bind(s, "x", c.x, ROWS, err));
  CHECK_OK(bind(s, "y", c.y, ROWS, err));
  *graph_launches = 0;
  for (int i = 0; i < 4; i++) {
    fill(c.x, (float)i);
    *trace = '\0';
    CHECK_OK(vtb_session_run(s, 0, err));
    CHECK_MSG(count("0:launch k_add;") == 1, "%s", trace);
    CHECK(cu.cuStreamSynchronize(NULL) == 0);
    expect(at(c.y), (float)i, 2, N);
  }
  CHECK(*graph_launches == 3);
  vtb_session_close(s);
  *default_streams = false;
  o = on_stream(c.stream);
  CHECK_OK(vtb_session_open(m, &o, &s, err));
  CHECK_OK(bind(s, "x", c.x, ROWS, err));
  CHECK_OK(bind(s, "y", c.y, ROWS, err));
  for (int i = 0; i < 5; i++) {
    fill(c.x, (float)i);
    *graph_launches = *launches = 0;
    record(i == 1 || i == 3 ? c.stream : NULL);
    CHECK_OK(vtb_session_run(s, 0, err));
    record(NULL);
    CHECK_MSG(*graph_launches == (i == 2 || i == 4), "run %d", i);
    CHECK(cu.cuStreamSynchronize(c.stream) == 0);
    expect(at(c.y), (float)(i == 1 || i == 3 ? i - 1 : i), 2, N);
  }
  uint64_t w = c.x + 4 * N; /* prepared steps that were recorded have not run */
  vtb_array param = rows(w, 0, VTB_DEVICE_CUDA);
  param.rank = 1, param.dim[0] = COLUMNS;
  for (int i = 0; i < COLUMNS; i++) at(w)[i] = 30;
  CHECK_OK(vtb_session_bind(s, "w", &param, err));
  CHECK_OK(vtb_session_run(s, 0, err));
  CHECK_OK(vtb_session_bind(s, "w", NULL, err));
  record(c.stream);
  *trace = '\0';
  CHECK_OK(vtb_session_run(s, 0, err));
  CHECK(count("record k_twice;record k_add;") == 1);
  record(NULL);
  CHECK_OK(vtb_session_run(s, 0, err));
  CHECK(cu.cuStreamSynchronize(c.stream) == 0);
  expect(at(c.y), 4, 2, N);
  vtb_session_close(s);
  vtb_model_release(m);
  close_caller(&c, 1);
  expect_nothing_left();
}

/* The host reads whether a loop goes on: on a stream as ever, in a recording it cannot. */
TEST(loops_that_end_by_values_are_not_recorded) {
  vtb_launch_plan *p = make_plan();
  vtb_model *m = NULL;
  vtb_session *s = NULL;
  caller c;
  const vtb_launch_loop loop = {.first = 1, .n = 1, .times = 3, .condition = 6};
  vtb_launch_arg args[6];
  open_caller(&c, 0);
  memcpy(args, p->args, 5 * sizeof *args);
  args[5] = args[3]; /* 2 as a float: as many turns as there are */
  args[5].bytes = args[5].touched = 4;
  p->args = vtb_arena_memdup(&p->arena, args, sizeof args);
  p->n_args = 6;
  p->loops = vtb_arena_memdup(&p->arena, &loop, sizeof loop);
  p->n_loops = 1;
  CHECK_OK(model_of(p, "fake\nk_twice 2\nk_add 3\n", &m, err));
  vtb_session_options o = on_stream(c.stream);
  CHECK_OK(vtb_session_open(m, &o, &s, err));
  CHECK_OK(bind(s, "x", c.x, ROWS, err));
  CHECK_OK(bind(s, "y", c.y, ROWS, err));
  for (int i = 0; i < 4; i++) {
    fill(c.x, (float)i);
    record(i == 2 ? c.stream : NULL);
    *trace = '\0';
    if (i == 2)
      CHECK_REFUSED(vtb_session_run(s, 0, err), "cannot be recorded into a graph");
    else
      CHECK_OK(vtb_session_run(s, 0, err));
    record(NULL);
    CHECK_MSG(count("launch k_add;") == (i == 2 ? 0 : 3), "%s", trace);
    CHECK(cu.cuStreamSynchronize(c.stream) == 0);
    expect(at(c.y), (float)(i == 2 ? 1 : i), 2, N);
  }
  vtb_session_close(s);
  vtb_model_release(m);
  close_caller(&c, 0);
  expect_nothing_left();
}

/* Whatever is current in the thread is so again; what is of another device is refused. */
TEST(contexts_stay_and_devices_are_checked) {
  vtb_model *m = NULL;
  vtb_session *s = NULL, *none = NULL;
  caller here, there;
  void *now = NULL, *popped;
  open_caller(&here, 0);
  open_caller(&there, 1);
  float x[N] = {0};
  for (int turn = 0; turn < 2; turn++) { /* none current; another device's */
    if (turn) CHECK(cu.cuCtxPushCurrent_v2(there.context) == 0);
    void *before = turn ? there.context : NULL;
    CHECK_OK(make_model(&m, err));
    vtb_session_options o = on_stream(here.stream);
    CHECK_OK(vtb_session_open(m, &o, &s, err));
    CHECK_OK(bind(s, "x", here.x, ROWS, err));
    CHECK_OK(bind(s, "y", here.y, ROWS, err));
    CHECK(cu.cuCtxGetCurrent(&now) == 0 && now == before);
    for (int i = 0; i < 3; i++) CHECK_OK(vtb_session_run(s, 0, err));
    CHECK(cu.cuCtxGetCurrent(&now) == 0 && now == before);
    CHECK_REFUSED(bind(s, "x", there.x, ROWS, err),
                  "\"x\" is on device 1, and the session on device 0");
    CHECK_REFUSED(bind(s, "x", (uint64_t)(uintptr_t)x, ROWS, err),
                  "\"x\" is not in the memory of a device");
    CHECK_OK(vtb_session_run(s, 0, err)); /* with what was bound before */
    CHECK_REFUSED(bind(s, "x", here.x, 0, err), "is [0, 16], and [rows, 16] is needed");
    vtb_session_close(s);
    CHECK(cu.cuCtxGetCurrent(&now) == 0 && now == before);
    o.has_cuda_device = true, o.cuda_device = 1;
    CHECK_REFUSED(vtb_session_open(m, &o, &none, err),
                  "the stream is of device 0, and device 1 is asked for");
    o.cuda_device = -1;
    CHECK_REFUSED(vtb_session_open(m, &o, &none, err), "cuda_device is -1");
    o = on_stream(NULL), o.has_cuda_stream = false, o.has_cuda_device = true, o.cuda_device = 7;
    CHECK_REFUSED(vtb_session_open(m, &o, &none, err), "there is no CUDA device 7");
    vtb_model_release(m);
    CHECK(cu.cuCtxGetCurrent(&now) == 0 && now == before);
    if (turn) CHECK(cu.cuCtxPopCurrent_v2(&popped) == 0);
  }
  close_caller(&here, 0);
  close_caller(&there, 1);
  expect_nothing_left();
}

/* ---- two threads ----------------------------------------------------------------------------- */

typedef struct worker {
  vtb_model *model;
  caller c;
  float results[8][N];
} worker;

static void *work(void *of) {
  worker *w = of;
  vtb_session *s = NULL;
  vtb_session_options o = on_stream(w->c.stream);
  CHECK_OK(vtb_session_open(w->model, &o, &s, err));
  CHECK_OK(bind(s, "x", w->c.x, ROWS, err));
  CHECK_OK(bind(s, "y", w->c.y, ROWS, err));
  for (int i = 0; i < 8; i++) {
    fill(w->c.x, (float)i / 3);
    CHECK_OK(vtb_session_run(s, 0, err));
    CHECK(cu.cuStreamSynchronize(w->c.stream) == 0);
    memcpy(w->results[i], at(w->c.y), 4 * N);
  }
  vtb_session_close(s);
  return NULL;
}

TEST(two_threads_and_two_streams) {
  static worker w[2];
  vtb_model *m = NULL;
  pthread_t threads[2];
  CHECK_OK(make_model(&m, err));
  for (int i = 0; i < 2; i++) open_caller(&w[i].c, 0);
  *trace = '\0';
  for (int i = 0; i < 2; i++) {
    w[i].model = m;
    CHECK(pthread_create(&threads[i], NULL, work, &w[i]) == 0);
  }
  for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
  CHECK(memcmp(w[0].results, w[1].results, sizeof w[0].results) == 0);
  CHECK(w[0].results[7][3] == 7.0f / 3 + 3 + 2);
  vtb_model_release(m);
  for (int i = 0; i < 2; i++) close_caller(&w[i].c, 0);
  expect_nothing_left();
}

/* ---- failures -------------------------------------------------------------------------------- */

/* From the model to the end with some of everything, as far as it goes. */
static vtb_status use_all(const caller *c, vtb_error *err) {
  vtb_model *m = NULL;
  vtb_session *s[2] = {NULL};
  float x[N] = {0};
  vtb_session_options o = on_stream(c->stream);
  vtb_array host = rows((uint64_t)(uintptr_t)x, ROWS, VTB_DEVICE_CPU);
  vtb_array own = {.size = sizeof own, .type = VTB_ARRAY_F32, .device = VTB_DEVICE_CUDA};
  vtb_status status = make_model(&m, err);
  for (int i = 0; i < 2 && status == VTB_OK; i++) status = vtb_session_open(m, &o, &s[i], err);
  for (int i = 0; i < 8 && status == VTB_OK; i++) {
    vtb_session *at = s[i % 2];
    status = i < 4   ? bind(at, "x", c->x + 4 * (uint64_t)(i == 3), i == 2 ? 3 : ROWS, err)
             : i < 6 ? vtb_session_bind(at, "x", &host, err)
                     : vtb_session_bind(at, "x", &own, err);
    if (status == VTB_OK) status = bind(at, "y", c->y, ROWS, err);
    if (status == VTB_OK) status = vtb_session_run(at, 0, err);
    if (status == VTB_OK) status = vtb_session_run(at, 0, err);
  }
  for (int i = 0; i < 2; i++) vtb_session_close(s[i]);
  if (m) vtb_model_release(m);
  return status;
}

TEST(any_call_may_fail) {
  caller c;
  int n = 1, errors = 0;
  *allocations = *alive = *faults = 0;
  open_caller(&c, 0);
  int mine[] = {*allocations, *alive};
  for (; n < 3000; n++) {
    vtb_error err = {0};
    *failed = NULL;
    *fail_number = n;
    vtb_status status = use_all(&c, &err);
    *fail_number = 0;
    const char *name = *failed ? *failed : "";
    errors += status != VTB_OK;
    CHECK_MSG(status == VTB_OK || (status == VTB_E_DEVICE &&
                                   (strstr(err.text, name) || strstr(name, "PointerGet"))),
              "call %d, %s: %d, \"%s\"", n, name, (int)status, err.text);
    CHECK_MSG(*allocations == mine[0] && *alive == mine[1] && *faults == 0,
              "call %d, %s: %d allocations, %d others, %d faults", n, name, *allocations - mine[0],
              *alive - mine[1], *faults);
    if (!*name) break;
  }
  CHECK_MSG(n > 100 && n < 3000 && errors > 80, "%d errors in %d calls", errors, n);
  close_caller(&c, 0);
  expect_nothing_left();
}

/* After an error everything is as it was: the call may be made again. */
TEST(a_failed_run_may_be_repeated) {
  vtb_model *m = NULL;
  vtb_session *s = NULL;
  caller c;
  open_caller(&c, 0);
  CHECK_OK(make_model(&m, err));
  vtb_session_options o = on_stream(c.stream);
  CHECK_OK(vtb_session_open(m, &o, &s, err));
  CHECK_OK(bind(s, "x", c.x + 4, 3, err));
  CHECK_OK(bind(s, "y", c.y, 3, err));
  for (int n = 1; n < 40; n++) {
    vtb_error e = {0};
    fill(c.x + 4, (float)n);
    memset(at(c.y), 0, 4 * N);
    *fail_number = n % 13 + 1;
    vtb_status status = vtb_session_run(s, 0, &e);
    *fail_number = 0;
    CHECK(status == VTB_OK || status == VTB_E_DEVICE);
    CHECK_OK(vtb_session_run(s, 0, err));
    CHECK(cu.cuStreamSynchronize(c.stream) == 0);
    expect(at(c.y), (float)n, 2, 3 * COLUMNS);
  }
  vtb_session_close(s);
  vtb_model_release(m);
  close_caller(&c, 0);
  expect_nothing_left();
}

/* ---- the example ----------------------------------------------------------------------------- */

TEST(the_example_runs) {
  vtb_model *m = NULL;
  vtb_session *s = NULL;
  caller c;
  open_caller(&c, 0);
  CHECK_OK(make_model(&m, err));
  CHECK_OK(open_there(m, c.stream, &s, err));
  *trace = '\0';
  for (int n = 1; n <= ROWS; n++) {
    fill(c.x, (float)n);
    CHECK_OK(run_there(s, at(c.x), at(c.y), n, err));
    CHECK(cu.cuStreamSynchronize(c.stream) == 0);
    expect(at(c.y), (float)n, 2, n * COLUMNS);
  }
  CHECK(!count("in ") && !count("out "));
  vtb_session_close(s);
  vtb_model_release(m);
  close_caller(&c, 0);
  expect_nothing_left();
}

/* ---- built files ----------------------------------------------------------------------------- */

/* A built file's programs are opened where the caller says, and its options are refused on the
 * processor. */
TEST(built_files_run_on_the_callers_stream) {
  vtb_model *m = NULL;
  vtb_session *s = NULL;
  const char *path = temp_path("built.so");
  sample *file = make();
  caller c;
  open_caller(&c, 0);
  CHECK_OK(write_sample(file, path, err));
  CHECK_OK(vtb_model_open(path, NULL, &m, err));
  vtb_session_options o = on_stream(c.stream);
  CHECK_OK(vtb_session_open(m, &o, &s, err));
  vtb_session_close(s);
  s = NULL;
  o.device = VTB_DEVICE_CPU;
  CHECK_REFUSED(vtb_session_open(m, &o, &s, err), "set .device to VTB_DEVICE_CUDA");
  o.has_cuda_stream = false;
  CHECK_OK(vtb_session_open(m, &o, &s, err));
  vtb_array a = rows(c.x, ROWS, VTB_DEVICE_CUDA);
  CHECK_REFUSED(vtb_session_bind(s, "x", &a, err),
                "not in the host's memory, where the session is");
  vtb_session_close(s);
  vtb_model_release(m);
  free(file);
  close_caller(&c, 0);
  expect_nothing_left();
}

int main(void) {
  void *fake = open_fake();
  *devices = 2;
  RUN(runs_are_queued_on_the_callers_stream);
  RUN(parameters_are_there_once);
  RUN(graphs_follow_the_addresses);
  RUN(copies_on_the_device);
  RUN(arrays_of_the_host_and_the_device);
  RUN(parameters_of_the_callers);
  RUN(without_a_stream_runs_wait);
  RUN(default_streams_and_recordings);
  RUN(loops_that_end_by_values_are_not_recorded);
  RUN(contexts_stay_and_devices_are_checked);
  RUN(two_threads_and_two_streams);
  RUN(any_call_may_fail);
  RUN(a_failed_run_may_be_repeated);
  RUN(the_example_runs);
  RUN(built_files_run_on_the_callers_stream);
  dlclose(fake);
  return test_done();
}
