/* Vertebra's C API, ABI 1: files that `vertebra build` made, run in other people's programs. The
 * one header that an application includes, as C11 or C++17; nothing else of this project is needed.
 *
 *   vtb_error err = {0};
 *   vtb_model *model;
 *   vtb_session *session;
 *   vtb_array scores = {.size = sizeof scores};
 *   if (vtb_model_open("model.so", NULL, &model, &err)) fail(err.text);
 *   if (vtb_session_open(model, NULL, &session, &err)) fail(err.text);
 *   if (vtb_session_load_image(session, NULL, 0, "photo.jpg", &err)) fail(err.text);
 *   if (vtb_session_run(session, 1, &err)) fail(err.text);
 *   if (vtb_session_array(session, VTB_ARRAY_OUTPUT, NULL, &scores, &err)) fail(err.text);
 *   const float *logits = (const float *)scores.data;  // (batch, classes), until the next run
 *   vtb_session_close(session);
 *   vtb_model_release(model);
 *
 * A model is a file: its code and its parameters, mapped and not changed by anybody, so that any
 * number of sessions in any number of threads, and other processes, use one copy. A session is what
 * one thread runs: buffers and workspace.
 *
 * Host:      the library never ends the process, prints, or installs signal handlers. What cannot
 *            be had is a status; everything is then as it was, and the call may be made again.
 * Errors:    functions return a vtb_status and leave a sentence in *err, which may be NULL.
 * Ownership: a model is counted: whoever opens or retains it releases it; sessions do so
 *            themselves. What functions return by pointer is the model's or the session's.
 * Threads:   a model may be used by any number of threads; a session by one at a time.
 * Growth:    structs begin with their size, which the caller sets to sizeof; fields may be added
 *            behind the others, and 0 is the default of every field. Numbers of enums are fixed.
 * docs/abi.md has the rules of threads, forks, signals and unloading. */
#ifndef VTB_VERTEBRA_H
#define VTB_VERTEBRA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef VTB_STATUS_DEFINED
#define VTB_STATUS_DEFINED
/* The outcome of a call. The value is also the exit status of a command that returns it. */
typedef enum vtb_status {
  VTB_OK = 0,
  VTB_E_INPUT = 1,    /* a file or what the user gave is at fault; the text says why */
  VTB_E_USAGE = 2,    /* wrong use of a function or of the command line */
  VTB_E_MEMORY = 3,   /* out of memory */
  VTB_E_DEVICE = 4,   /* device or driver */
  VTB_E_NUMBERS = 5,  /* numbers differ */
  VTB_E_INTERNAL = 70 /* our bug */
} vtb_status;

/* The first error of a chain of calls. `text` is empty while there is none. */
typedef struct vtb_error {
  vtb_status status;
  char text[1024];
} vtb_error;

#if defined(__GNUC__)
#define VTB_MUST_USE __attribute__((warn_unused_result))
#else
#define VTB_MUST_USE
#endif
#endif

#if defined(__GNUC__)
#define VTB_API __attribute__((visibility("default")))
#else
#define VTB_API
#endif

/* ---- versions -------------------------------------------------------------------------------- */

/* The version of this header. A library of the same number, or of a larger one, has everything in
 * it. */
#define VTB_ABI_VERSION 1
VTB_API uint32_t vtb_abi_version(void); /* of the library */
VTB_API const char *vtb_version(void);  /* "0.1.0" */

/* ---- arrays ---------------------------------------------------------------------------------- */

typedef enum vtb_array_type { VTB_ARRAY_F32 = 1, VTB_ARRAY_I32 = 2 } vtb_array_type;

/* An array's part in a program. */
typedef enum vtb_array_kind {
  VTB_ARRAY_ANY = 0,
  VTB_ARRAY_INPUT = 1,
  VTB_ARRAY_OUTPUT = 2,
  VTB_ARRAY_PARAMETER = 3,
  VTB_ARRAY_BUFFER = 4,   /* belongs to the weights, but is not trained */
  VTB_ARRAY_ADJOINT = 5,  /* given: the gradient by an output, "d:<output>" */
  VTB_ARRAY_GRADIENT = 6, /* made: the gradient by an input or parameter, "d:<name>" */
  VTB_ARRAY_UPDATED = 7,  /* a parameter after a training step, in the parameter's memory */
  VTB_ARRAY_STATE = 8     /* what an optimiser remembers */
} vtb_array_kind;

/* Numbers as in DLPack. */
typedef enum vtb_device { VTB_DEVICE_ANY = 0, VTB_DEVICE_CPU = 1, VTB_DEVICE_CUDA = 2 } vtb_device;

#define VTB_ARRAY_RANK 8

/* A dense array in memory, row-major; the first axis of inputs and outputs is the batch. */
typedef struct vtb_array {
  size_t size;         /* sizeof(vtb_array) */
  const char *name;    /* of arrays that are given out: the model's or its file's */
  vtb_array_kind kind; /* likewise */
  vtb_array_type type;
  vtb_device device; /* where `data` points to; VTB_DEVICE_ANY: the host's memory */
  int32_t rank;
  int64_t dim[VTB_ARRAY_RANK];
  void *data;
} vtb_array;

/* ---- behaviour ------------------------------------------------------------------------------- */

typedef enum vtb_wish { VTB_UNSAID = 0, VTB_NO = 1, VTB_YES = 2 } vtb_wish;

/* How something is done, where results are the same but for rounding. docs/environment.md has a row
 * for every field, with the variable that it is read from. Texts are the caller's. */
typedef struct vtb_behaviour {
  size_t size; /* sizeof(vtb_behaviour) */
  /* ---- of runs */
  int32_t threads; /* where no other field says; 0: every core */
  bool has_cuda_device;
  int32_t cuda_device; /* where no other field says */
  vtb_wish cuda_graph, cuda_sync, cuda_ahead, cuda_pixels, cublaslt_timing;
  /* ---- of what is compiled; wgmma NO also of runs: programs for all architectures */
  vtb_wish wgmma, clusters, wide_index, cublas, optimise, tuning, cuda_cache;
  int32_t cuda_cache_mb;     /* 0: 512 */
  const char *machine;       /* where no other field says */
  const char *fusions;       /* "all", "-NAME,-NAME" */
  const char *emulator_arch; /* "sm_90a" */
  vtb_wish emulator_checks, emulator_reversed;
  int32_t emulator_seed; /* 0: 1 */
  /* ---- of the process, from the first call with a YES on */
  vtb_wish verbose, checks;
  vtb_wish ranks; /* of the command */
} vtb_behaviour;

/* Behaviour as the environment says it, all of it, into *out, whose size is set. Texts are the
 * environment's. VTB_E_USAGE: a variable has a value that it does not take; the sentence has those
 * it does. */
VTB_API VTB_MUST_USE vtb_status vtb_options_from_environment(vtb_behaviour *out, vtb_error *err);

/* ---- models ---------------------------------------------------------------------------------- */

typedef struct vtb_model vtb_model;

typedef struct vtb_open_options {
  size_t size; /* sizeof(vtb_open_options) */
  /* Weights of any tool (docs/weights.md): safetensors, .pth, shards, a folder of Hugging Face,
   * under names that the built file has rules for; NULL: those in the built file. */
  const char *weights;
  bool verify;                      /* as vtb_model_verify() does */
  bool allow_missing, allow_unused; /* parameters that the weights lack keep their initial values;
                                       the weights may have tensors that the model lacks */
  bool averages;                    /* of a checkpoint with averaged weights too, those */
  /* Told what was decided about the weights, a line, with its end, at a time; NULL: nobody. */
  void (*say)(void *user, const char *line);
  void *user;
} vtb_open_options;

/* Opens a built file; o NULL: all defaults. The file's structure is checked always, its contents on
 * request. Parameters that stand in the file as the program computes with them (f32) are used where
 * they are mapped; of other types they are converted once. VTB_E_INPUT: the file is not sound, or
 * of another version, or the weights do not fit it. A file that is open may be replaced by rename,
 * but not written to. */
VTB_API VTB_MUST_USE vtb_status vtb_model_open(const char *path, const vtb_open_options *o,
                                               vtb_model **out, vtb_error *err);
/* A model that is linked into the program: `vertebra build MODEL -o NAME.o` writes the object, and
 * NAME.h, which declares it as NAME_vtb. */
typedef struct vtb_static_model vtb_static_model;
/* The same of such a model: its parameters are read where they lie in the program's read-only
 * data, and nothing is loaded. */
VTB_API VTB_MUST_USE vtb_status vtb_model_open_static(const vtb_static_model *linked,
                                                      const vtb_open_options *o, vtb_model **out,
                                                      vtb_error *err);
VTB_API vtb_model *vtb_model_retain(vtb_model *m); /* m */
VTB_API void vtb_model_release(vtb_model *m);      /* NULL is fine */
/* Reads the whole built file and compares it with the hash it was built with: against damage, not
 * against malice. */
VTB_API VTB_MUST_USE vtb_status vtb_model_verify(const vtb_model *m, vtb_error *err);

/* The file's own words: "classes", a JSON list of names; "prepare", JSON, what becomes of images;
 * "defines", the settings it was built with; ... What weights that were named say holds over it.
 * NULL if it is not said. */
VTB_API const char *vtb_model_meta(const vtb_model *m, const char *key);
/* The i-th key of the built file; NULL behind the last. */
VTB_API const char *vtb_model_meta_key(const vtb_model *m, int32_t i);

typedef enum vtb_session_role {
  VTB_SESSION_INFER = 0,
  VTB_SESSION_STEP = 1,     /* a training step, with its update */
  VTB_SESSION_EVALUATE = 2, /* the losses and metrics that the model declares */
  /* Outputs, and gradients for adjoints of them that the caller gives. A gradient by an input has
   * the input's rows; one by a parameter, or by an input without rows, is the sum over the rows of
   * the run, in a fixed order: each run makes it anew. */
  VTB_SESSION_VJP = 3
} vtb_session_role;

/* One of the programs in a file, which differ in what they do, in batch and in image size. */
typedef struct vtb_program_info {
  size_t size; /* sizeof(vtb_program_info) */
  vtb_session_role role;
  int64_t batch;
  int64_t height, width; /* of images; 0: it takes none */
  int32_t n_arrays;
  bool cpu, cuda; /* what there is code for */
} vtb_program_info;

/* The i-th program: VTB_E_USAGE behind the last, so that a loop ends. */
VTB_API VTB_MUST_USE vtb_status vtb_model_program(const vtb_model *m, int32_t i,
                                                  vtb_program_info *out, vtb_error *err);
/* The i-th array of a program; `data`, of a parameter that the model has, is for reading alone,
 * and else NULL. */
VTB_API VTB_MUST_USE vtb_status vtb_model_array(const vtb_model *m, int32_t program, int32_t i,
                                                vtb_array *out, vtb_error *err);

/* ---- sessions -------------------------------------------------------------------------------- */

typedef struct vtb_session vtb_session;

/* A pool of threads that the caller has: runs job(closure, begin, end) for ranges that together
 * cover [0, n), each but the last a multiple of `grain` long and beginning at one, on at most
 * `threads` threads at a time, and returns when all are done. job must not be left in any other way
 * than by returning. */
typedef void (*vtb_job)(void *closure, int64_t begin, int64_t end);
typedef void (*vtb_pool)(void *user, vtb_job job, void *closure, int64_t n, int64_t grain);

typedef struct vtb_session_options {
  size_t size; /* sizeof(vtb_session_options) */
  vtb_session_role role;
  vtb_device device; /* VTB_DEVICE_ANY: the processor if the file has code for one */
  /* Threads of the session's own, with the one that runs it; 0: as `behaviour` says, else every
   * core. With `pool`: how many of the pool's threads may run at the same time. */
  int32_t threads;
  vtb_pool pool; /* NULL: threads of the session's own */
  void *pool_user;
  int64_t batch; /* most rows of a run, for the session's own memory; 0: the largest built */
  uint64_t seed; /* of a session that trains a model without weights: of their initialisers */
  int64_t height, width; /* the image size until inputs are bound; 0: the first in the file */
  /* For sessions on CUDA. A stream (CUstream, cudaStream_t) of the caller's, which must be there
   * until the session is closed: the session's work is queued on it, in order, and
   * vtb_session_run() returns when it is. NULL, with has_cuda_stream, is the default stream.
   * Without one the session has its own, and runs return when their results are there. */
  void *cuda_stream;
  bool has_cuda_stream;
  bool has_cuda_device; /* else: the stream's device, that of `behaviour`, or the first */
  int32_t cuda_device;
  const vtb_behaviour *behaviour; /* copied; NULL: the environment's, in this version */
} vtb_session_options;

/* o NULL: all defaults. Retains the model. VTB_E_INPUT: the file has no such program, or no
 * weights; VTB_E_DEVICE: no code for this machine, or there is no such device. */
VTB_API VTB_MUST_USE vtb_status vtb_session_open(vtb_model *m, const vtb_session_options *o,
                                                 vtb_session **out, vtb_error *err);
VTB_API void vtb_session_close(vtb_session *s); /* NULL is fine */

/* An array of the session as it is now: bound memory or the session's own, in which dim[0] of what
 * has rows is the most of them. By kind (VTB_ARRAY_ANY: any) and name (NULL: the first of the
 * kind). Memory of the session's own stays where it is until another array is bound in its place or
 * inputs of another image size are bound. Parameters of a session that infers are the model's: for
 * reading alone; those of a session that trains are its own. `device` says whether `data` is an
 * address of the host's or of the device's memory. */
VTB_API VTB_MUST_USE vtb_status vtb_session_array(vtb_session *s, vtb_array_kind kind,
                                                  const char *name, vtb_array *out, vtb_error *err);

/* From now on the input or output `name` is the caller's memory, until it is bound again; a NULL:
 * the session's own. Runs work in it, without a copy, if it lies at a multiple of 4 bytes (of 64 is
 * fastest), and copies otherwise. dim[0] is how many rows there are; the other axes are the
 * program's, or those of a program of another image size, which then runs. Outputs are written up
 * to the last row of a run. Nothing is kept but what *a says; the memory must be there in runs.
 *
 * A session on CUDA takes memory of the host, which it copies, and with `device` VTB_DEVICE_CUDA
 * memory of its device, by the address: kernels work in it where it has their alignment (256 bytes
 * always do) and all rows of the program, and otherwise in a copy on the device. There `data` NULL
 * is the session's own memory on the device, which vtb_session_array() gives. VTB_E_DEVICE: memory
 * of the host, or of another device. */
VTB_API VTB_MUST_USE vtb_status vtb_session_bind(vtb_session *s, const char *name,
                                                 const vtb_array *a, vtb_error *err);

/* Runs the model on the first `rows` rows of its inputs; 0: on as many as the bound inputs have,
 * else the session's batch. Any number up to the batch: programs of the sizes that were built are
 * put together, so that as few rows as possible are computed in vain. Outputs without a batch are
 * those of the last program. On a stream of the caller's (vtb_session_options.cuda_stream) it
 * returns when the work is queued: whoever reads results or changes arrays, those in the host's
 * memory too, does so in the order of the stream or waits for it. What fails on the device later is
 * the error of the caller's next wait, and of the next call that uses the device. */
VTB_API VTB_MUST_USE vtb_status vtb_session_run(vtb_session *s, int64_t rows, vtb_error *err);

/* The parameters of a session that trains, as a safetensors file: written whole or not at all. */
VTB_API VTB_MUST_USE vtb_status vtb_session_save(vtb_session *s, const char *path, vtb_error *err);

/* ---- images ---------------------------------------------------------------------------------- */

/* 8 bits a number, rows of gray (1 channel) or RGB (3), interleaved. */
typedef struct vtb_picture {
  size_t size; /* sizeof(vtb_picture) */
  int32_t width, height, channels;
  const uint8_t *pixels;
} vtb_picture;

/* Row `row` of an image input becomes the image, cut, resized and normalised as the model was
 * trained. input NULL: the first one. A file, or the bytes of one (PNG, JPEG, WebP), or pixels. */
VTB_API VTB_MUST_USE vtb_status vtb_session_load_image(vtb_session *s, const char *input,
                                                       int64_t row, const char *path,
                                                       vtb_error *err);
VTB_API VTB_MUST_USE vtb_status vtb_session_decode_image(vtb_session *s, const char *input,
                                                         int64_t row, const void *bytes, size_t n,
                                                         vtb_error *err);
VTB_API VTB_MUST_USE vtb_status vtb_session_set_image(vtb_session *s, const char *input,
                                                      int64_t row, const vtb_picture *picture,
                                                      vtb_error *err);
/* The way images are prepared, as JSON of up to n bytes with the final NUL: {"crop": 0.9, "resize":
 * "crop", "filter": "bicubic", "mean": [...], "std": [...]}. The weights say, else the model, else
 * ImageNet's numbers hold. */
VTB_API VTB_MUST_USE vtb_status vtb_session_preparation(vtb_session *s, const char *input,
                                                        char *json, size_t n, vtb_error *err);
/* Other fields than those, for this session; NULL: as the model says. */
VTB_API VTB_MUST_USE vtb_status vtb_session_prepare(vtb_session *s, const char *json,
                                                    vtb_error *err);

#ifdef __cplusplus
}
#endif

#endif
