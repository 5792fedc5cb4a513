/* A built file by hand: native code (built_code.c), a plan for a GPU, weights. */
#ifndef VTB_TEST_SAMPLE_FILE_H
#define VTB_TEST_SAMPLE_FILE_H

#include "runtime/artefact/artefact.h"
#include "runtime/launch/launch_plan_file.h"
#include "tests/runtime/sample_plan.h"
#include "tests/runtime/support.h"

/* Everything a file may have; tests change it before it is written. */
typedef struct sample {
  vtb_manifest manifest;
  vtb_artefact_program program;
  vtb_artefact_code codes[2];
  vtb_artefact_images images[2];
  vtb_blob image_places[2];
  vtb_artefact_plan plans[2]; /* for all; for sm_90a alone, with clusters */
  vtb_tensor_info tensors[3];
  vtb_artefact_meta meta[1];
  vtb_kernel_info kernel;
  const char *image_text;
  bool linked; /* an object for static linking, behind whatever code */
} sample;

static inline sample *make(void) {
  sample *s = vtb_xcalloc(1, sizeof *s);
  s->tensors[0] = (vtb_tensor_info){.name = "x", .io = VTB_IO_INPUT, .rank = 1, .dim = {64}};
  s->tensors[1] =
      (vtb_tensor_info){.name = "w", .io = VTB_IO_PARAM, .rank = 1, .dim = {64}, .init = "ones"};
  s->tensors[2] = (vtb_tensor_info){.name = "y", .io = VTB_IO_OUTPUT, .rank = 1, .dim = {64}};
  s->kernel = (vtb_kernel_info){.name = "k", .ops = "mul add", .origin = "m.vtb:1"};
  s->codes[0] = (vtb_artefact_code){.cpu = "x86-64", .n_kernels = 1, .kernels = &s->kernel};
  s->codes[1] = (vtb_artefact_code){.cpu = "x86-64-v4", .entry = 5};
  s->images[0] = (vtb_artefact_images){"compute_80", 1, &s->image_places[0], 0};
  s->images[1] = (vtb_artefact_images){"sm_90a", 1, &s->image_places[1], 1};
  s->plans[1].arch = "sm_90a";
  s->meta[0] = (vtb_artefact_meta){"classes", "[\"cat\"]"};
  s->program = (vtb_artefact_program){.batch = 1,
                                      .n_tensors = 3,
                                      .tensors = s->tensors,
                                      .n_codes = 1,
                                      .codes = s->codes,
                                      .n_plans = 2,
                                      .plans = s->plans,
                                      .n_images = 2,
                                      .images = s->images};
  s->manifest = (vtb_manifest){.build = 42,
                               .compiler = "0.1.0",
                               .model = "sample",
                               .precision = "fp32",
                               .nvrtc = "NVRTC 13.0",
                               .services_bytes = sizeof(vtb_services),
                               .n_meta = 1,
                               .meta = s->meta,
                               .n_programs = 1,
                               .programs = &s->program};
  s->image_text = "fake";
  return s;
}

static inline vtb_status write_sample(sample *s, const char *path, vtb_error *err) {
  vtb_artefact_writer w;
  size_t n;
  char *code = read_file(VTB_BUILT_CODE, &n);
  vtb_launch_plan *plan = sample_plan();
  plan->n_gemms = 0; /* there is no cublasLt */
  plan->kernels[0].arch = plan->kernels[0].cluster = 0;
  vtb_strbuf bytes = {0};
  vtb_launch_plan_write(plan, &bytes);
  vtb_weights *weights = vtb_weights_new();
  float values[64];
  for (int i = 0; i < 64; i++) values[i] = (float)i;
  vtb_weights_put(weights, "w", VTB_ELEM_F32, 1, (int64_t[]){64}, values);
  static const uint64_t nowhere[2] = {0};
  vtb_status status = s->linked ? vtb_artefact_begin_linked(&w, path, code, n, nowhere, err)
                                : vtb_artefact_begin(&w, path, code, n, err);
  if (status == VTB_OK) status = vtb_artefact_put(&w, bytes.at, bytes.n, &s->plans[0].bytes, err);
  vtb_launch_plan *own = sample_plan(); /* for sm_90a alone */
  own->n_gemms = 0;
  bytes.n = 0;
  vtb_launch_plan_write(own, &bytes);
  vtb_launch_plan_free(own);
  if (status == VTB_OK) status = vtb_artefact_put(&w, bytes.at, bytes.n, &s->plans[1].bytes, err);
  for (int i = 0; i < 2 && status == VTB_OK; i++)
    status =
        vtb_artefact_put(&w, s->image_text, strlen(s->image_text) + 1, &s->image_places[i], err);
  if (status == VTB_OK) status = vtb_artefact_put_weights(&w, weights, &s->manifest.weights, err);
  if (status == VTB_OK) status = vtb_artefact_finish(&w, &s->manifest, err);
  vtb_artefact_abort(&w);
  vtb_weights_free(weights);
  vtb_strbuf_free(&bytes);
  vtb_launch_plan_free(plan);
  free(code);
  return status;
}

#endif
