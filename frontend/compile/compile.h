/* The compiler as a library: a model's source, options and a target to a program that runs now, a
 * file that runs without the compiler, or the text of a stage. docs/compile.md has a complete
 * example.
 *
 * Nothing is printed and nothing exits: what is wrong comes back as a status, and as diagnostics in
 * a report.
 *
 * Ownership: options are only read during the call, and may be gone afterwards; models, texts and
 *            reports are the caller's.
 * Threads:   calls are independent of each other, also at the same time; one report is for one
 *            thread at a time.
 * Errors:    VTB_E_INPUT, the source or a file is at fault; VTB_E_USAGE, an option is;
 *            VTB_E_DEVICE, the target is not there; VTB_E_MEMORY (where LLVM finds none it ends the
 *            process: that is out of our hands); VTB_E_INTERNAL, our bug.
 */
#ifndef VTB_COMPILE_H
#define VTB_COMPILE_H

#include "runtime/vertebra.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Who makes large products on CUDA. */
typedef enum vtb_vendor_library {
  VTB_LIBRARY_AUTO, /* as `behaviour` says, else cublasLt where it is found; in files not */
  VTB_LIBRARY_YES,
  VTB_LIBRARY_NO /* generated kernels */
} vtb_vendor_library;

/* The part of an entry that a program computes. */
typedef enum vtb_compile_part {
  VTB_PART_VALUE,    /* its outputs */
  VTB_PART_GRADIENT, /* inputs, parameters, "d:<output>" -> outputs, "d:<input or parameter>" */
  /* The gradient in two programs, for callers that run other things in between. Both are made of
   * the same options. */
  VTB_PART_FORWARD, /* inputs, parameters -> outputs, "saved.0", "saved.1" ... */
  VTB_PART_BACKWARD /* what it reads of inputs, parameters, saved; "d:<output>" -> "d:..." */
} vtb_compile_part;

/* A text in place of a file: what an editor has and has not saved. */
typedef struct vtb_compile_overlay {
  const char *path, *text;
  size_t n; /* bytes */
} vtb_compile_overlay;

/* Zero is the default of every field; `size` must be sizeof(vtb_compile_options), so that a newer
 * library knows which fields its caller had. */
typedef struct vtb_compile_options {
  size_t size;

  /* ---- what is compiled */
  /* A .vtb file, also by its path below a search folder ("std/mlstm.vtb"), or a preset, model,
   * block, fn or recurrence that is declared there. */
  const char *model;
  const char *text;  /* the source itself; `model` is then its name in messages */
  size_t text_bytes; /* 0: up to the NUL */
  const char *entry; /* of a source that declares several; NULL: its only model, or its last */
  /* Hyperparameters, "name=value", the value as .vtb text: "depth=12". */
  const char *const *defines;
  size_t n_defines;
  const char *image; /* image size, "512" or "224x384" */
  /* Weights of any tool (docs/weights.md): safetensors, .pth, shards, a folder of Hugging Face;
   * settings stored with them hold where `defines` has none of the name. What was decided about
   * them goes to `say`. */
  const char *weights; /* `parameters` below is the same in memory, under the model's names */
  /* Folders where `use` and names look; NULL: those of VTB_MODELS, then what is installed. */
  const char *const *search;
  size_t n_search;

  /* ---- how */
  const char *mode; /* of recurrences: auto, parallel, recurrent, chunkwise; NULL: as written */
  int64_t chunk;    /* tokens; the mode is "chunkwise" if none is given */
  int64_t batch;    /* images a run; 0: 1 */
  /* "cpu" (default), "cuda" or "cuda-emulated"; of files: a list, docs/artefact.md. */
  const char *target;
  const char *precision; /* of products on CUDA: fp32 (default), tf32, bf16, fp16, bf16-all */
  vtb_vendor_library library;
  bool taps;    /* `tap` statements become outputs "tap:<name>" */
  bool fold;    /* stages as text: a block's parameters on one line, which does not parse back */
  bool profile; /* calls around kernels, so that services can measure them */

  /* ---- training: the program is a step of it, whose tensors runtime/train/train.h describes */
  bool training;
  double label_smoothing;
  /* The step ends with this update: adamw, sgd, lamb, lars, lion or a .vtb file, with settings if
   * wanted, "lamb(beta1 = 0.95)"; NULL: with none. */
  const char *optimizer;
  bool average; /* which also averages the weights */

  /* ---- files: what vtb_compile_file() puts into them besides */
  int64_t eval_batch; /* with training: images a run of the inference program; 0: 4 x batch */

  /* ---- looking on */
  const char *print_after; /* the IR after this pass, or after "all", goes to `say`, too */
  bool time_passes;        /* and how long each pass took */
  void (*say)(void *user, const char *text); /* NULL: nobody listens */
  void *user;

  /* For a model that declares losses or metrics: the program gives these instead of its outputs,
   * runtime/train/train.h. Not with `training`. */
  bool evaluation;

  /* Parameters that are not trained: patterns of names, "blocks.0.*". */
  const char *const *freeze;
  size_t n_freeze;

  /* Instead of `weights`: tensors under the model's names (runtime/artefact/tensors.h). */
  const struct vtb_weights *parameters;

  /* Mode "auto" is not decided by what `vertebra tune` measured on this machine, but by the cost
   * model alone (`behaviour` may say the same; files never are: they are equal everywhere). */
  bool no_tuning;
  int64_t threads; /* that runs will have, as far as that decides modes; 0: the default */

  /* The GPU that modes, tiles and fusions are chosen for on CUDA: h200, h100, a100, b200, or a file
   * that `vertebra bench --calibrate` wrote; NULL: as `behaviour` says, else h200. Results
   * do not depend on it but for the order of sums and, in formats of 16 bits, which values are
   * rounded. */
  const char *machine;

  /* Gradients of a training step on CUDA are told in buckets of at most so many MB (10^6 bytes),
   * unless one tensor has more (vtb_bucket, runtime/launch/program.h); 0: 25. */
  double bucket_mb;

  /* ---- blocks, functions and recurrences as programs of their own */
  /* Shapes of their tensors, "x=8x196x192"; where the first axis is B, "x=Bx196x192", it is
   * `batch` in all that have it. Sequences of recurrences are batch, heads if there are any,
   * tokens, and the axes of a step. */
  const char *const *shapes;
  size_t n_shapes;
  vtb_compile_part part; /* not with `training` or `evaluation` */
  /* Outputs of these names alone, in this order; NULL: all. */
  const char *const *outputs;
  size_t n_outputs;
  /* Gradients are by inputs and parameters of these names or patterns, "x", "*.weight"; NULL: by
   * all that hold floats. */
  const char *const *wrt;
  size_t n_wrt;

  /* The contents of files of these paths, whether there are any or not; for `use`, and names. */
  const vtb_compile_overlay *overlay;
  size_t n_overlay;

  /* Files for inference: programs of each of these batches for images of each of these sizes, all
   * with the same parameters: tables that follow the size are those of the weights, else of the
   * first size, and stretched. NULL: `batch` and `image` alone. */
  const int64_t *batches;
  size_t n_batches;
  const char *const *images;
  size_t n_images;

  /* Files: for each of those programs one with its gradient too (VTB_SESSION_VJP), of `outputs` by
   * `wrt`. */
  bool vjp;

  /* ---- training by several processes */
  /* The step is for one of so many ranks, which run it together: each is given its own rows of
   * every batch, of which `batch` are one rank's, and what sums over the batch is summed over the
   * ranks (services of runtime/launch/program.h). Only with `training`, not of files; 0 or 1:
   * alone. */
  int ranks;
  /* An update is made of so many runs, each with `batch` images, whose gradients are averaged:
   * exact where the loss is a mean over samples that all count; batch norm has the statistics of a
   * run. 0 or 1: of one. */
  int64_t accumulate;
  /* The step updates the parameters that are dealt to rank `rank` and has their optimiser's states
   * alone; their owners hand on the others (ZeRO-1). On processors. */
  bool shard;
  int rank;

  /* ---- files */
  /* Files: NULL: a shared object, for vtb_model_open(). Else an object for static linking, and
   * beside it a header (of FILE.o FILE.h) that declares the model as NAME_vtb, this being NAME. */
  const char *linked;
  /* How it is compiled, where the fields above do not say; NULL: as the environment says, in this
   * version (vtb_options_from_environment). */
  const vtb_behaviour *behaviour;

  /* ---- rows of several runs */
  /* Random numbers of a row are by its number among the rows of several runs, of which a program
   * that depends on it has the first as the input VTB_RANK_FIRST. Without `training`; files of
   * models always have it. */
  bool numbers_rows;

  /* Programs on processors: code for another one than this, x86-64-v3 (AVX2) or x86-64-v4
   * (AVX-512), which this one must have; NULL: this one. */
  const char *cpu;

  /* ---- strips of rows */
  /* The outputs are computed strip by strip of so many rows of patches of the image (below 0: as
   * many as are best), each through all layers, so that values exist for one strip alone
   * (docs/strips.md). VTB_E_INPUT, with the place, where tokens read what comes later. Of files the
   * programs for inference; not of gradients and training. 0: whole images. */
  int64_t strips;

  /* "int8": products with parameters are of numbers of 8 bits, each column of weights and each row
   * that they meet with a scale of its own (docs/quantization.md); what cannot be stays float32,
   * and how much that is goes to `say`. On processors, of programs without gradients. NULL: none
   * is. */
  const char *quantize;
  /* Files: how weights are stored, "f32", "f16" or "bf16"; they are widened when the file is
   * opened. NULL: as `weights` has them. What `quantize` makes int8 is stored as that. */
  const char *dtype;

  /* ---- memory */
  /* With `training`: the gradient computes what the first so many calls of blocks save once more
   * instead; all but the last where there are fewer. The same bits. */
  int64_t recompute;
  /* Bytes that the program may take, its workspace and tensors, on the device if it is for one; 0:
   * any number. A training step recomputes as little as that takes, unless `recompute` is said.
   * VTB_E_USAGE where nothing helps, with what does. */
  int64_t memory;
} vtb_compile_options;

/* ---- reports --------------------------------------------------------------------------------- */

/* A range of a source; no place if `file` is NULL. Bytes from 0, the end exclusive; lines and
 * columns from 1, columns in bytes. */
typedef struct vtb_text_range {
  const char *file;
  uint32_t begin, end;
  int line, column, end_line, end_column;
} vtb_text_range;

typedef struct vtb_diagnostic_note {
  const char *text;
  vtb_text_range at;
} vtb_diagnostic_note;

typedef struct vtb_diagnostic {
  bool is_error;    /* else a warning */
  int code;         /* 1101 of VTB1101: docs/errors.md and `vertebra explain` have more */
  const char *text; /* one sentence in the names of the source, without a full stop */
  vtb_text_range at;
  const vtb_diagnostic_note *notes; /* other places that matter */
  size_t n_notes;
  const char *help; /* what to do; NULL if there is no advice */
} vtb_diagnostic;

/* The words of calls. It may serve several calls: a warning that it has is not taken again. */
typedef struct vtb_report vtb_report;
VTB_API vtb_report *vtb_report_new(void);    /* NULL when out of memory */
VTB_API void vtb_report_free(vtb_report *r); /* NULL is fine */
/* In order; valid until the next call with the report. None when out of memory. */
VTB_API size_t vtb_report_diagnostics(vtb_report *r, const vtb_diagnostic **out);
/* Why the last call failed, as one sentence; "" if it did not. */
VTB_API const char *vtb_report_error(const vtb_report *r);
/* The text of what was added since the last call of this function, with source lines and carets, as
 * the command line prints it; "" if nothing was. For free(); NULL when out of memory. */
VTB_API char *vtb_report_text(vtb_report *r, bool color);

/* ---- compiling; r may be NULL ---------------------------------------------------------------- */

/* A model that runs now, with the parameters of `weights`, else those that its initialisers give;
 * vtb_session_open() runs it, vtb_model_release() frees it. */
VTB_API VTB_MUST_USE vtb_status vtb_compile_model(const vtb_compile_options *o, vtb_model **model,
                                                  vtb_report *r);
/* A file as `vertebra build` writes it, for vtb_model_open(), or to be linked: for inference and,
 * of options that say training, a step of it too; with the parameters of `weights`, if that is
 * given. It is written under another name, synced and renamed: readers see the whole file, or what
 * was there before. */
VTB_API VTB_MUST_USE vtb_status vtb_compile_file(const vtb_compile_options *o, const char *path,
                                                 vtb_report *r);
/* How a model file of ONNX is written; `size` as in vtb_compile_options. */
typedef struct vtb_onnx_options {
  size_t size;
  bool half;     /* parameters are stored as f16 and cast to f32 where they are read */
  bool external; /* numbers in PATH.data; files beyond 2 GB always have them there */
} vtb_onnx_options;
/* The file's contents in numbers. */
typedef struct vtb_onnx_summary {
  int64_t n_nodes, n_initialisers;
  int64_t n_bytes, n_data_bytes; /* of the file, and of the one beside it; 0: there is none */
} vtb_onnx_summary;
/* A model file of ONNX (opset 17) with the parameters of `weights` under their official names, or
 * with initial values: docs/onnx.md. Unlike elsewhere `batch` 0 leaves the batch symbolic, and
 * `mode` decides the form of recurrences: auto, parallel, chunkwise or recurrent ("scan"). Files
 * appear whole or not at all. x and s may be NULL. */
VTB_API VTB_MUST_USE vtb_status vtb_compile_onnx(const vtb_compile_options *o,
                                                 const vtb_onnx_options *x, const char *path,
                                                 vtb_onnx_summary *s, vtb_report *r);
/* The declarations of a source as JSON: a list of {"kind": "recurrence", "name", "doc",
 * "signature", "parameters": [{"name", "text", "tensor", "required", "choices"}]}, in its order; a
 * preset has its model's parameters, a recurrence "results", how many it yields. Of the file that
 * `model` names; it is not evaluated. *json is for free(). */
VTB_API VTB_MUST_USE vtb_status vtb_compile_entries(const vtb_compile_options *o, char **json,
                                                    vtb_report *r);
/* The text of a stage: ast, ir, graph, grad, fused, plan, decisions, llvm, asm, cuda, launches,
 * ptx, resources. `processor`: llvm and asm for another processor ("x86-64-v3"), ptx and resources
 * for an architecture ("sm_90a"); NULL: the default. *text is for free(). */
VTB_API VTB_MUST_USE vtb_status vtb_compile_stage(const vtb_compile_options *o, const char *stage,
                                                  const char *processor, char **text,
                                                  vtb_report *r);

#ifdef __cplusplus
}
#endif

#endif
