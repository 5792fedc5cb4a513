/* Vertebra's C API for running a compiled model: the one header an application includes.
 *
 *   vtb_model *m; vtb_error err = {0};
 *   // what `vertebra build --weights W` made
 *   if (vtb_model_open("model.so", NULL, &m, &err)) fail(err.text);
 *   if (vtb_model_load_image(m, NULL, 0, "photo.jpg", &err)) fail(err.text);  // or numbers of
 *   float *image = vtb_model_input(m, NULL, NULL);            // one's own, (B, 3, H, W)
 *   if (vtb_model_run(m, &err)) fail(err.text);
 *   const float *logits = vtb_model_output(m, NULL, NULL);    // (B, classes), until the next run
 *   vtb_model_free(m);
 *
 * What a host may rely on: the library never ends its process and never prints. Memory, threads and
 * files that fail are a status with a sentence; everything is then freed or as it was, and the call
 * may be made again. It changes no setting of the process: signals, locale, umask; the number of
 * OpenBLAS's threads is 1 while a native model runs and afterwards what it was. Files appear whole
 * or not at all. Out of its hands: what drivers and OpenBLAS do without memory, and a built or
 * weights file that is cut while it is mapped.
 *
 * Errors: functions return a vtb_status, VTB_OK or the reason, and leave a sentence in err->text
 * (err may be NULL). Ownership: a model owns its program, its buffers and its threads' settings
 * until vtb_model_free(). Threads: one thread at a time per model; different models are
 * independent. */
#ifndef VTB_VERTEBRA_H
#define VTB_VERTEBRA_H

#include "runtime/launch/program.h"

#ifdef __cplusplus
extern "C" {
#endif

#include "runtime/image/prepare.h"

typedef struct vtb_model vtb_model;

const char *vtb_version(void); /* "0.1.0" */

typedef struct vtb_open_options {
  const char *target;  /* "cpu" or "cuda"; NULL: cpu if the file has code for it, else cuda */
  const char *weights; /* a safetensors file; NULL: the weights in the built file */
  int n_threads;       /* 0: as in vtb_model_new() */
} vtb_open_options;
/* A built file, for inference; o NULL: all defaults. VTB_E_INPUT: the file is not sound, or of
 * another version; VTB_E_DEVICE: it has no code for this machine, or there is no such device.
 * Without weights, in the file or named, parameters start as zeros: vtb_model_load() fills them. */
VTB_MUST_USE vtb_status vtb_model_open(const char *path, const vtb_open_options *o, vtb_model **out,
                                       vtb_error *err);
/* What a built file says of its model: "prepare", as JSON, of images;
 * "classes", a JSON list of names; "defines", the settings it was built with. NULL if it does not.
 * Valid until vtb_model_free(). */
const char *vtb_model_meta(const vtb_model *m, const char *key);

/* Takes the program: it is freed with the model, also on failure. n_threads 0: chosen by
 * VTB_THREADS, OMP_NUM_THREADS or the machine. Parameters start as zeros. */
VTB_MUST_USE vtb_status vtb_model_new(vtb_program *program, int n_threads, vtb_model **out,
                                      vtb_error *err);
void vtb_model_free(vtb_model *m); /* NULL is fine */

/* Parameters from a safetensors file: every one must be there with its shape. */
VTB_MUST_USE vtb_status vtb_model_load(vtb_model *m, const char *path, vtb_error *err);
/* Parameters from their initialisers; the same seed gives the same values everywhere. */
VTB_MUST_USE vtb_status vtb_model_init(vtb_model *m, uint64_t seed, vtb_error *err);
VTB_MUST_USE vtb_status vtb_model_save(const vtb_model *m, const char *path, vtb_error *err);

/* What the model takes and gives: tensors in the program's order, with names, roles and shapes. */
int vtb_model_tensors(const vtb_model *m, const vtb_tensor_info **out);
int64_t vtb_model_batch(const vtb_model *m);

/* Buffers by name, f32 unless the tensor is i32; NULL if there is no such tensor. *count: elements
 * (may be NULL). name NULL: the only input, the first output. Input contents stay between runs. Who
 * changes a parameter asks for its buffer anew after each run: a GPU has a copy of its own
 * otherwise. */
void *vtb_model_input(vtb_model *m, const char *name, int64_t *count);
const void *vtb_model_output(const vtb_model *m, const char *name, int64_t *count);
void *vtb_model_param(vtb_model *m, const char *name, int64_t *count);
/* Copies `count` elements, which must be the tensor's number, into an f32 input. */
VTB_MUST_USE vtb_status vtb_model_set_input(vtb_model *m, const char *name, const float *data,
                                            int64_t count, vtb_error *err);

/* What becomes of images before the model sees them: the weights say, else the model, else the
 * defaults of vtb_preparation_default(). input NULL: the first image input, f32 (B, C, H, W).
 * VTB_E_INPUT: there is none, or what is said cannot be. Who wants it otherwise changes *out and
 * gives it to vtb_image_prepare() with a row of vtb_model_input(). */
VTB_MUST_USE vtb_status vtb_model_preparation(const vtb_model *m, const char *input,
                                              vtb_preparation *out, vtb_error *err);
/* Fills row `row` of an image input, as vtb_model_preparation() has it, from decoded pixels (8
 * bits, rows of gray or RGB; they stay the caller's) or from a PNG, JPEG or WebP file. */
VTB_MUST_USE vtb_status vtb_model_set_image(vtb_model *m, const char *input, int64_t row,
                                            const vtb_image *im, vtb_error *err);
VTB_MUST_USE vtb_status vtb_model_load_image(vtb_model *m, const char *input, int64_t row,
                                             const char *path, vtb_error *err);

VTB_MUST_USE vtb_status vtb_model_run(vtb_model *m, vtb_error *err);

/* The services the model runs with, for callers that need kernel times or threads. */
const vtb_services *vtb_model_services(const vtb_model *m);

#ifdef __cplusplus
}
#endif

#endif
