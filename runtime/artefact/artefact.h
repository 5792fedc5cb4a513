/* Files that `vertebra build` makes: a model compiled for one or more targets, loaded without the
 * compiler.
 *
 *   the shared object   native code; its one symbol VTB_ARTEFACT_SYMBOL is a vtb_artefact_table
 *   blobs               launch plans, cubins, PTX, weights (safetensors), each at a multiple of 64
 *                       bytes
 *   manifest            vtb_manifest as bytes (manifest.c)
 *   trailer             sizes, hashes of the manifest and of all before, compiler's version,
 *                       format, magic: the last bytes of the file
 *
 * An object for static linking is a relocatable file whose last section, read-only data of the
 * program that it is linked into, is such a file without its shared object; code and the symbol are
 * of the program.
 *
 * Everything that is not code is read from the mapped file before the dynamic loader sees it, and
 * CUDA programs never need the loader: a cut, damaged, foreign or newer file is a message. See
 * docs/artefact.md.
 *
 * Ownership: an artefact is the caller's, vtb_artefact_close(); native programs keep it open until
 * they are freed, so that it may be closed first. What it returns by pointer is its own. Threads:
 * one at a time may load from an artefact, any number read it.
 */
#ifndef VTB_ARTEFACT_H
#define VTB_ARTEFACT_H

#include "runtime/launch/launch_plan.h"
#include "runtime/artefact/tensors.h"

enum { VTB_ARTEFACT_FORMAT = 6 };
#define VTB_ARTEFACT_SYMBOL                                                                        \
  "vtb_artefact_1" /* numbered by the interface between code and runtime */

/* The symbol. */
typedef struct vtb_artefact_table {
  uint32_t size, n; /* sizeof(vtb_artefact_table); entries */
  uint64_t build;   /* the manifest's */
  vtb_entry_fn at[];
} vtb_artefact_table;

/* Defined by `vertebra build -o NAME.o`: vtb_static_model of vertebra.h. The compiler writes it as
 * C text (codegen/cpu/host/link.c), without this header. */
typedef struct vtb_artefact_linked {
  uint32_t size, format; /* sizeof(vtb_artefact_linked), VTB_ARTEFACT_FORMAT */
  const char *name;      /* "vil_nano" */
  const vtb_artefact_table *table;
  const unsigned char *image; /* what is behind the shared object in other files; offsets in it
                                 count from here */
  const uint64_t *bytes;      /* of the image */
} vtb_artefact_linked;

/* ---- the manifest ---------------------------------------------------------------------------- */

typedef struct vtb_blob {
  uint64_t offset, bytes; /* in the file */
} vtb_blob;

/* Native code. */
typedef struct vtb_artefact_code {
  const char *cpu;                     /* one of vtb_cpu_level_names */
  int32_t entry;                       /* in the table */
  int64_t workspace_bytes, kept_bytes; /* as of vtb_program */
  uint64_t kept_key;
  int32_t n_kernels;
  vtb_kernel_info *kernels;
} vtb_artefact_code;

/* Every source of a plan compiled for "sm_90a" (cubins) or "compute_80" (PTX, for newer cards
 * too). */
typedef struct vtb_artefact_images {
  const char *arch;
  int32_t n;
  vtb_blob *at;
  int32_t plan; /* of the program's: whose sources they are */
} vtb_artefact_images;

/* A launch plan: the first of a program runs on all architectures, others on the one they name. */
typedef struct vtb_artefact_plan {
  const char *arch; /* "sm_90a"; NULL: all */
  vtb_blob bytes;
} vtb_artefact_plan;

typedef enum vtb_artefact_role {
  VTB_ARTEFACT_INFERENCE,
  VTB_ARTEFACT_STEP,
  VTB_ARTEFACT_EVALUATION, /* with a step, of models that declare losses and metrics */
  VTB_ARTEFACT_GRADIENT,   /* inputs, parameters, "d:<output>" -> outputs, "d:<name>" */
  VTB_N_ARTEFACT_ROLES
} vtb_artefact_role;
extern const char
    *const vtb_artefact_role_names[VTB_N_ARTEFACT_ROLES]; /* "inference", "training step" ... */

typedef struct vtb_artefact_program {
  vtb_artefact_role role;
  int64_t batch;
  int64_t height, width; /* of images; 0: it takes none */
  int32_t n_tensors;     /* arguments first, then returns */
  vtb_tensor_info *tensors;
  int32_t n_codes;
  vtb_artefact_code *codes;
  int32_t n_plans; /* 0: nothing for CUDA */
  vtb_artefact_plan *plans;
  int32_t n_images;
  vtb_artefact_images *images;
} vtb_artefact_program;

typedef struct vtb_artefact_meta {
  const char *key, *value;
} vtb_artefact_meta;

typedef struct vtb_manifest {
  uint64_t build;         /* of the code; equal builds have equal numbers */
  const char *compiler;   /* "0.1.0" */
  const char *model;      /* as `vertebra build` was told */
  const char *precision;  /* of products on CUDA: "fp32" */
  const char *nvrtc;      /* what compiled the images; NULL: nothing did */
  uint64_t library;       /* hash of the text that the plans' sources rely on */
  int32_t services_bytes; /* of the vtb_services that the code calls back into */
  int32_t n_meta; /* settings, and what the weights say: mean, std, classes as in weights files */
  vtb_artefact_meta *meta;
  int32_t n_programs;
  vtb_artefact_program *programs;
  vtb_blob weights; /* no bytes: none */
} vtb_manifest;

/* Metadata of models a sample of whose results depends on those beside it. */
#define VTB_META_SAMPLES "samples"
#define VTB_SAMPLES_MEET "meet"

const char *vtb_manifest_meta(const vtb_manifest *m, const char *key); /* NULL if absent */

/* ---- reading --------------------------------------------------------------------------------- */

typedef struct vtb_artefact vtb_artefact;

/* The file is, or was before something happened to it, a built one rather than text. */
bool vtb_artefact_recognise(const char *path);
/* Maps the file and checks its structure: lengths, the manifest by its hash, the weights' table. */
VTB_MUST_USE vtb_status vtb_artefact_open(const char *path, vtb_artefact **out, vtb_error *err);
/* The same of what is linked into the program. */
VTB_MUST_USE vtb_status vtb_artefact_open_linked(const vtb_artefact_linked *l, vtb_artefact **out,
                                                 vtb_error *err);
/* Reads all of it: VTB_E_INPUT if the contents are not those it was built with. */
VTB_MUST_USE vtb_status vtb_artefact_verify(const vtb_artefact *a, vtb_error *err);
void vtb_artefact_close(vtb_artefact *a); /* NULL is fine */

const vtb_manifest *vtb_artefact_manifest(const vtb_artefact *a);
const vtb_weights *vtb_artefact_weights(const vtb_artefact *a); /* NULL: none in the file */
/* The first of the role, the one for most images at a time; NULL if the file has none. */
const vtb_artefact_program *vtb_artefact_find(const vtb_artefact *a, vtb_artefact_role role);
/* The same; VTB_E_INPUT if it has none. */
VTB_MUST_USE vtb_status vtb_artefact_need(const vtb_artefact *a, vtb_artefact_role role,
                                          const vtb_artefact_program **p, vtb_error *err);
/* "cpu" if there is code for some processor, else "cuda". */
const char *vtb_artefact_target(const vtb_artefact *a);

/* A program for "cpu" or "cuda", the caller's to free. VTB_E_DEVICE if the file has nothing for
 * this machine. */
VTB_MUST_USE vtb_status vtb_artefact_load(vtb_artefact *a, vtb_artefact_role role,
                                          const char *target, vtb_program **program,
                                          vtb_error *err);
/* The same of one of its programs. */
VTB_MUST_USE vtb_status vtb_artefact_load_program(vtb_artefact *a, const vtb_artefact_program *p,
                                                  const char *target, vtb_program **program,
                                                  vtb_error *err);
/* The same; where: on which device and stream, NULL: as those do. Nothing to "cpu". */
VTB_MUST_USE vtb_status vtb_artefact_load_on(vtb_artefact *a, const vtb_artefact_program *p,
                                             const char *target, const vtb_device_choice *where,
                                             vtb_program **program, vtb_error *err);
/* The number of its launch plan for `arch` ("sm_90a"; NULL: any): that architecture's own, else the
 * one for all. */
int vtb_artefact_plan_for(const vtb_artefact_program *p, const char *arch);
/* That launch plan by itself, the caller's to free. */
VTB_MUST_USE vtb_status vtb_artefact_read_plan(const vtb_artefact *a, const vtb_artefact_program *p,
                                               int number, vtb_launch_plan **plan, vtb_error *err);

/* ---- writing (artefact_write.c) -------------------------------------------------------------- */

typedef struct vtb_artefact_writer {
  vtb_atomic_file file;
  uint64_t base, at; /* where blobs count from; how far it has come from there */
  uint64_t code_bytes;
  uint64_t size_at[2]; /* of objects: where it says how large the image is; 0: nowhere */
} vtb_artefact_writer;

/* begin with the shared object, put blobs, finish; or abort. After a failure only abort may
 * follow. */
VTB_MUST_USE vtb_status vtb_artefact_begin(vtb_artefact_writer *w, const char *path,
                                           const void *code, size_t n, vtb_error *err);
/* Likewise with an object for static linking, whose image comes behind it, at the next multiple of
 * 64; the two 64-bit numbers at `size_at` become its size. */
VTB_MUST_USE vtb_status vtb_artefact_begin_linked(vtb_artefact_writer *w, const char *path,
                                                  const void *code, size_t n,
                                                  const uint64_t size_at[2], vtb_error *err);
VTB_MUST_USE vtb_status vtb_artefact_put(vtb_artefact_writer *w, const void *data, size_t n,
                                         vtb_blob *blob, vtb_error *err);
VTB_MUST_USE vtb_status vtb_artefact_put_weights(vtb_artefact_writer *w, const vtb_weights *weights,
                                                 vtb_blob *blob, vtb_error *err);
VTB_MUST_USE vtb_status vtb_artefact_finish(vtb_artefact_writer *w, const vtb_manifest *m,
                                            vtb_error *err);
void vtb_artefact_abort(vtb_artefact_writer *w); /* harmless after finish */

#endif
