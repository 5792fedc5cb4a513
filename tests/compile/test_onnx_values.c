/* What exported files of ONNX compute, against the program that the same source becomes: by a small
 * interpreter of the nodes that are written (onnx_run.h). onnx/ runs them in ONNX Runtime. */
#include "frontend/compile/compile.h"
#include "frontend/compile/driver.h"
#include "runtime/artefact/tensors.h"
#include "runtime/launch/threads.h"
#include "tests/compile/onnx_run.h"

#include <unistd.h>

enum { BATCH = 2 };
static char path[] = "/tmp/vtb_onnx_values_XXXXXX";

/* Initial values are zeros and ones in many places, which hide what is wrong: those of the file get
 * noise. */
static void add_noise(VtbOnnx__Model *m) {
  unsigned long long state = 4711;
  for (size_t i = 0; i < m->graph->n_initializer; i++) {
    VtbOnnx__Tensor *t = m->graph->initializer[i];
    if (vtb_starts_with(t->name, "constant.") || t->data_type != 1) continue;
    for (size_t k = 0; k < t->raw_data.len / 4; k++)
      ((float *)(void *)t->raw_data.data)[k] += (float)(0.05 * test_random(&state));
  }
}

static VtbOnnx__Model *exported(const vtb_compile_options *options) {
  vtb_compile_options o = *options;
  vtb_onnx_options x = {.size = sizeof x};
  vtb_report *r = vtb_report_new();
  char *data = NULL;
  size_t n = 0;
  vtb_error err = {0};
  vtb_status status = vtb_compile_onnx(&o, &x, path, NULL, r);
  char *text = vtb_report_text(r, false);
  CHECK_MSG(status == VTB_OK, "%s: %s%s", o.entry ? o.entry : o.model, text, vtb_report_error(r));
  free(text);
  vtb_report_free(r);
  if (status != VTB_OK) exit(1);
  CHECK(vtb_file_read(path, (size_t)1 << 30, &data, &n, &err) == VTB_OK);
  VtbOnnx__Model *m = vtb_onnx__model__unpack(NULL, n, (const uint8_t *)data);
  vtb_free(data);
  if (!m) exit(1);
  add_noise(m);
  return m;
}

static vtb_program *compiled(const vtb_compile_options *options) {
  vtb_compile_options o = *options;
  vtb_program *p = NULL;
  vtb_report *r = vtb_report_new();
  o.batch = BATCH;
  o.mode = NULL, o.chunk = 0;
  vtb_status status = vtb_compile(&o, &p, r);
  char *text = vtb_report_text(r, false);
  CHECK_MSG(status == VTB_OK, "%s: %s%s", o.entry ? o.entry : o.model, text, vtb_report_error(r));
  free(text);
  vtb_report_free(r);
  if (status != VTB_OK) exit(1);
  return p;
}

/* ---- both sides ------------------------------------------------------------------------------ */

static double initial(const VtbOnnx__Tensor *t, int64_t i) {
  const void *at = t->raw_data.data;
  switch (t->data_type) {
  case 1:
    return (double)((const float *)at)[i];
  case 6:
    return ((const int32_t *)at)[i];
  case 7:
    return (double)((const int64_t *)at)[i];
  case 11:
    return ((const double *)at)[i];
  default:
    CHECK_MSG(false, "%s is of type %d", t->name, (int)t->data_type);
    return 0;
  }
}

static void set_initialisers(run *r, const VtbOnnx__Model *m) {
  for (size_t i = 0; i < m->graph->n_initializer; i++) {
    const VtbOnnx__Tensor *t = m->graph->initializer[i];
    value *v = new_value(r, (int)t->n_dims, t->dims);
    for (int64_t k = 0; k < count_of(v); k++) v->at[k] = initial(t, k);
    vtb_map_set(&r->values, t->name, v);
  }
}

/* The program's arguments: inputs are random, parameters those of the file (what nothing reads is
 * not in it). */
static void **arguments(const vtb_program *p, run *r) {
  unsigned long long state = 88172645463325252ull;
  void **args = vtb_xcalloc((size_t)p->n_tensors + 1, sizeof *args);
  for (int i = 0; i < p->n_tensors; i++) {
    const vtb_tensor_info *t = &p->tensors[i];
    int64_t n = vtb_tensor_info_count(t);
    args[i] = vtb_aligned_alloc((size_t)n * 4 + 64);
    memset(args[i], 0, (size_t)n * 4 + 64);
    if (t->io == VTB_IO_OUTPUT) continue;
    value *v =
        t->io == VTB_IO_INPUT ? new_value(r, t->rank, t->dim) : vtb_map_get(&r->values, t->name);
    for (int64_t k = 0; v && k < n; k++) {
      if (t->io == VTB_IO_INPUT)
        v->at[k] = t->is_int ? (double)(int)(2 + 2 * test_random(&state))
                             : (double)(float)(1.5 * test_random(&state));
      if (t->is_int)
        ((int32_t *)args[i])[k] = (int32_t)v->at[k];
      else
        ((float *)args[i])[k] = (float)v->at[k];
    }
    if (t->io == VTB_IO_INPUT) vtb_map_set(&r->values, t->name, v);
  }
  return args;
}

static void compare(const char *what, const vtb_tensor_info *t, const float *want, const value *v) {
  int64_t n = vtb_tensor_info_count(t), at = 0;
  double worst = 0, largest = 1e-6;
  CHECK_MSG(v && count_of(v) == n, "%s: %s has %d numbers, not %d", what, t->name,
            v ? (int)count_of(v) : 0, (int)n);
  for (int64_t i = 0; v && count_of(v) == n && i < n; i++) {
    double error = fabs((double)want[i] - v->at[i]);
    largest = fmax(largest, fabs((double)want[i]));
    if (!(error <= worst)) worst = error, at = i;
  }
  CHECK_MSG(worst <= 3e-5 * largest, "%s: element %d of %s is %g off, of %g", what, (int)at,
            t->name, worst, largest);
}

static void check(const char *model, const char *entry, const char *mode, int64_t chunk) {
  static const char *const search[] = {VTB_SOURCE_DIR "/models", VTB_SOURCE_DIR "/models/examples"};
  char what[200];
  vtb_error err = {0};
  vtb_compile_options o = {.size = sizeof o,
                           .model = model,
                           .entry = entry,
                           .mode = mode,
                           .chunk = chunk,
                           .search = search,
                           .n_search = 2,
                           .no_tuning = true};
  snprintf(what, sizeof what, "%s %s, %s %d", model, entry ? entry : "", mode ? mode : "as written",
           (int)chunk);
  VtbOnnx__Model *m = exported(&o);
  vtb_program *p = compiled(&o);
  run r = {0};
  vtb_arena_init(&r.arena);
  set_initialisers(&r, m);
  void **args = arguments(p, &r), *workspace = vtb_aligned_alloc((size_t)p->workspace_bytes + 64);
  vtb_services *s = vtb_services_default(1);
  CHECK_MSG(vtb_program_execute(p, args, workspace, s, &err) == VTB_OK, "%s: %s", what, err.text);
  run_graph(&r, m->graph);
  int compared = 0;
  for (int i = 0; i < p->n_tensors; i++) {
    if (p->tensors[i].io != VTB_IO_OUTPUT) continue;
    compare(what, &p->tensors[i], args[i], vtb_map_get(&r.values, p->tensors[i].name));
    compared++;
  }
  CHECK_MSG(compared == (int)m->graph->n_output && compared > 0, "%s: %d outputs", what, compared);
  for (int i = 0; i < p->n_tensors; i++) free(args[i]);
  vtb_free(args);
  free(workspace);
  vtb_services_free(s);
  vtb_map_free(&r.values);
  vtb_arena_free(&r.arena);
  vtb_program_free(p);
  vtb_onnx__model__free_unpacked(m, NULL);
}

/* ---- models ---------------------------------------------------------------------------------- */

#define OPS VTB_SOURCE_DIR "/tests/onnx/ops.vtb"
#define STD(name) VTB_SOURCE_DIR "/tests/std/" name ".vtb"

TEST(elementwise_ops_and_attention) {
  check(OPS, "scalars", NULL, 0);
  check(OPS, "attentions", NULL, 0);
}

TEST(recurrences_in_every_form) {
  check(OPS, "states", "parallel", 0);
  check(OPS, "states", "chunkwise", 5);
  check(OPS, "states", "scan", 0);
  check(STD("recurrences"), "cells", NULL, 0);
  check(STD("recurrences"), "steps", "scan", 0);
  check(STD("recurrences"), "corrected", NULL, 0);
  check(STD("rotating"), "mamba3_example", NULL, 0);
  check(STD("rotating"), "s5_example", "chunkwise", 3);
}

TEST(convolutions_and_moved_elements) {
  check(STD("conv"), "grids", NULL, 0);
  check(STD("conv"), "layers", NULL, 0);
  check(STD("resize"), "maps", NULL, 0);
  check(STD("grid_scan"), NULL, NULL, 0);
  check(STD("nn"), "video", NULL, 0);
  check(STD("nn"), "further", NULL, 0);
}

int main(void) {
  int file = mkstemp(path);
  if (file < 0) return 1;
  close(file);
  RUN(elementwise_ops_and_attention);
  RUN(recurrences_in_every_form);
  RUN(convolutions_and_moved_elements);
  unlink(path);
  return test_done();
}
