/* A compiled program as the runtime sees it: made by the JIT now, by a loaded shared object later.
 * No LLVM here.
 *
 * Calling an entry: `args` holds one pointer an argument then one a return value, in the order of
 * `tensors`; buffers are 64-byte aligned, row-major, f32 or i32; `workspace` has workspace_bytes
 * bytes, 64-byte aligned, contents undefined. An entry may be called from one thread at a time per
 * workspace; inside it uses the services' threads.
 *
 * What native code makes of parameters and buffers alone (its prepared steps) takes kept_bytes, in
 * memory that the services name: then the workspace has that much less, and any number of entries
 * may read it, of all programs whose kept_key is the same. Services that name none: it is the first
 * of the workspace.
 */
#ifndef VTB_PROGRAM_H
#define VTB_PROGRAM_H

#include "runtime/base/base.h"

#define VTB_PROGRAM_MAX_RANK 8
#define VTB_PROGRAM_MAX_PREPARE 512

typedef enum vtb_io {
  VTB_IO_INPUT,
  VTB_IO_PARAM,
  VTB_IO_BUFFER,
  VTB_IO_GRAD_IN,
  VTB_IO_OUTPUT,
  VTB_IO_GRAD_OUT,
  /* a return: what the tensor that "updated.<tensor>" names is after a training step; it may share
   * that tensor's memory */
  VTB_IO_UPDATE,
  /* what an update remembers: of programs that update their parameters (runtime/base/update.h) */
  VTB_IO_STATE
} vtb_io;

typedef struct vtb_tensor_info {
  /* official name; adjoints, and what a buffer is to become, are "d:<name>", updates
   * "updated.<name>" */
  const char *name;
  vtb_io io;
  bool is_int; /* i32, else f32 */
  int rank;
  int64_t dim[VTB_PROGRAM_MAX_RANK];
  const char *init; /* params: initialiser text (runtime/artefact/init.h) */
  bool decay;       /* params: weight decay applies */
} vtb_tensor_info;

/* Steps that a call of an entry does. */
typedef enum vtb_part {
  VTB_ALL_STEPS,
  VTB_PREPARED_STEPS, /* those that fill the kept memory */
  VTB_OTHER_STEPS     /* the kept memory is filled */
} vtb_part;

/* The functions that generated code calls back into. Passed to every entry; the table is versioned
 * by size. */
typedef void (*vtb_task_fn)(void *closure, int64_t begin, int64_t end);
typedef struct vtb_services {
  uint32_t size; /* sizeof(vtb_services) when built */
  int n_threads;
  /* Runs fn over [0, n) in contiguous ranges, multiples of `grain` long, on up to n_threads
   * threads. */
  void (*parallel)(const struct vtb_services *s, vtb_task_fn fn, void *closure, int64_t n,
                   int64_t grain);
  /* The calling thread's scratch memory: 64-byte aligned, at least `bytes`, contents undefined,
   * until the task returns. NULL without memory: the task does nothing, and the run fails. */
  void *(*scratch)(const struct vtb_services *s, int64_t bytes);
  /* Kernel timing, NULL unless profiling: called around each kernel with its number in
   * program->kernels. */
  void (*kernel_begin)(const struct vtb_services *s, int kernel);
  void (*kernel_end)(const struct vtb_services *s, int kernel);
  void *user;
  /* The same from who knows the times only afterwards (a GPU's program): one launch, in seconds of
   * vtb_now(). NULL unless profiling. */
  void (*kernel_took)(const struct vtb_services *s, int kernel, double begin, double end);
  /* For a program that is one of several ranks (vtb_program.ranks): begins to sum n floats over all
   * ranks, in place and in the order of the ranks; they are left alone until sum_wait, which
   * returns when all sums that were begun are there. NULL: the ranks do not know each other. */
  void (*sum_begin)(const struct vtb_services *s, float *at, int64_t n);
  void (*sum_wait)(const struct vtb_services *s);
  /* of programs with kept_bytes: 64-byte aligned, or NULL; and what to do, a vtb_part */
  void *kept;
  int32_t part;
} vtb_services;

typedef void (*vtb_entry_fn)(void *const *args, void *workspace, const vtb_services *services);

/* One generated kernel, for bench and for messages. */
typedef struct vtb_kernel_info {
  const char *name;    /* stable */
  const char *what;    /* where in the model and what, "blocks.*.proj_up 192 -> 768" */
  const char *ops;     /* IR ops it holds, "mul add silu" */
  const char *origin;  /* "models/std/mlstm.vtb:41" */
  double flops, bytes; /* one launch */
  int launches;        /* in one run of the entry */
} vtb_kernel_info;

/* Gradients that are whole now and that no step of the run changes any more: one range of floats,
 * what pads its tensors is zero. */
typedef struct vtb_bucket {
  int index;     /* from 0, in the order in which they become whole */
  uint64_t at;   /* address; of programs on a device, the device's */
  int64_t bytes; /* a multiple of 256, but inside a step of 4 */
  int n_tensors;
  void *stream; /* of the device: what is put on it comes behind the gradients and before whatever
                   * reads them. NULL: the host's memory */
  bool
      inside; /* no gradients, but another sum over the ranks of a step, which its rest waits for */
} vtb_bucket;
typedef vtb_status (*vtb_bucket_fn)(void *user, const vtb_bucket *bucket, vtb_error *err);

/* ---- programs on a device, in memory that is there ------------------------------------------- */

/* Where such a program runs, and how. Zeros: on the first device, on a stream of its own. */
struct vtb_behaviour;
typedef struct vtb_device_choice {
  const struct vtb_behaviour *how; /* copied; NULL: it says nothing */
  bool has_number, has_stream;
  int number;
  void *stream; /* the caller's: runs are queued there, and return when they are */
} vtb_device_choice;

/* Where one tensor of a run is. */
typedef struct vtb_run_place {
  uint64_t at; /* in the host's memory or the device's */
  bool on_device;
  size_t bytes;   /* that are there: if the tensor has more, a result's rest is lost, and an
                     argument's is */
  size_t repeats; /* so many of its first bytes again and again; 0: zeros */
} vtb_run_place;

/* More functions of programs on a device, for sessions. Memory is the device's. */
struct vtb_program;
typedef struct vtb_device_calls {
  /* Another program of the same code, with memory of its own. NULL: there can be only one. */
  vtb_status (*open)(void *owner, const vtb_device_choice *where, struct vtb_program **out,
                     vtb_error *err);
  /* As vtb_program.run, but of tensors that are anywhere, one place each. fixed: parameters and
   * buffers are where and what they were in the program's last run. On a stream of the caller's it
   * returns when all is queued. */
  vtb_status (*run)(void *owner, const vtb_run_place *places, bool fixed,
                    const vtb_services *services, vtb_error *err);
  /* Programs of one space reach each other's memory. */
  const void *(*space)(const void *owner);
  vtb_status (*take)(void *owner, size_t n, uint64_t *at, vtb_error *err); /* zeros */
  void (*give)(void *owner, uint64_t at); /* waits for work that may use it */
  /* n bytes to or from the host's memory, by when it returns. */
  vtb_status (*copy)(void *owner, uint64_t at, void *host, size_t n, bool in, vtb_error *err);
  vtb_status (*wait)(void *owner, vtb_error *err); /* for the runs that are queued */
  /* VTB_E_DEVICE: an address that the program cannot work at; what: of which array. */
  vtb_status (*check)(void *owner, uint64_t at, const char *what, vtb_error *err);
} vtb_device_calls;

typedef struct vtb_program {
  vtb_entry_fn entry;
  /* Instead of `entry`, for programs that are no code of this process (a GPU's, emulated ones):
   * they have their own workspace, copy args (in host memory) to their device and results back, and
   * can fail. Called as vtb_program_execute() (runtime/launch/threads.h) does. */
  vtb_status (*run)(void *owner, void *const *args, const vtb_services *services, vtb_error *err);
  /* Functions of such programs, or NULL: submit begins a run with the inputs as they are now, and
   * collect waits for the oldest that was begun and gives its results, which are lost where it
   * fails. At most most_ahead may be under way, and none at any other call; runs have the order and
   * the results of `run`, which parameters are copied included. */
  vtb_status (*submit)(void *owner, void *const *args, vtb_error *err);
  vtb_status (*collect)(void *owner, void *const *args, vtb_error *err);
  int most_ahead;
  /* 1 + the image input that submit takes as bytes (runtime/launch/pixels.h) while uses_pixels is
   * set, by whoever submits; 0: none */
  int pixels;
  bool uses_pixels;
  const vtb_device_calls *device; /* of such programs, or NULL */
  /* of such programs, may be NULL: see vtb_program_keep() */
  void (*keep)(void *owner, unsigned roles);
  /* vtb_program_exchange() */
  vtb_status (*exchange)(void *owner, void *const *args, bool in, vtb_error *err);
  /* NULL, or set by who made it: called with a sentence when a run goes on otherwise than it
   * should, once a cause */
  void (*warn)(const char *text);
  /* NULL, or set before the first run: called in each run for each bucket, to sum it up over
   * several processes or devices, say. Of training steps with `run`; of others n_buckets is 0. */
  vtb_bucket_fn on_bucket;
  void *bucket_user;
  /* set by whoever runs it: the next runs are not the last of their update
   * (VTB_UPDATE_SHARE), and gradients are no one's to sum: only sums inside the step are told */
  bool is_part;
  int n_buckets;
  int n_tensors; /* arguments, then returns */
  vtb_tensor_info *tensors;
  /* one a tensor: it stays on the device, and runs copy it neither in nor out; NULL: none */
  const bool *resident;
  int64_t batch;
  /* processes that run it together, each with its own rows of a batch: runs need services that sum
   * over them; 0 or 1: it runs alone */
  int ranks;
  /* peak of activations and temporaries; of programs with `run` it is on the device: */
  int64_t workspace_bytes;
  int64_t device_workspace_bytes;
  int64_t kept_bytes; /* of workspace_bytes: see above; 0: runs prepare nothing */
  uint64_t kept_key;
  int n_kernels;
  vtb_kernel_info *kernels;
  double compile_seconds;
  /* what becomes of images before it sees them, as far as the model says: JSON
   * (runtime/image/prepare.h), or "" */
  char prepare[VTB_PROGRAM_MAX_PREPARE];
  bool samples_meet; /* results of a sample depend on those beside it (ir/axes.h); of built files
                      * their metadata say it */
  void *owner;       /* the JIT or library handle */
  void (*free)(void *owner);
} vtb_program;

void vtb_program_free(vtb_program *p);
/* From the next run on, args of these roles (1u << vtb_io, or-ed) are not copied: inputs and
 * parameters are as they were in the run before, results stay on the device. 0: copy all. Nothing
 * to native programs, which work in place. */
void vtb_program_keep(const vtb_program *p, unsigned roles);
/* Copies parameters, buffers and state that stay on the device from (`in`) or to args; other args
 * may be NULL. */
VTB_MUST_USE vtb_status vtb_program_exchange(const vtb_program *p, void *const *args, bool in,
                                             vtb_error *err);
bool vtb_program_is_resident(const vtb_program *p, int tensor);
int vtb_program_find(const vtb_program *p, const char *name); /* tensor index or -1 */
int64_t vtb_tensor_info_count(const vtb_tensor_info *t);
/* True of what a run writes. */
static inline bool vtb_tensor_is_result(const vtb_tensor_info *t) {
  return t->io == VTB_IO_OUTPUT || t->io == VTB_IO_GRAD_OUT || t->io == VTB_IO_UPDATE;
}
/* The first image input among n tensors, [rows, channels, height, width]; NULL: there is none. */
const vtb_tensor_info *vtb_tensors_image(const vtb_tensor_info *t, int n);
/* Scores of classes in the first output; 0: it is not [rows, classes]. */
int64_t vtb_tensors_scores(const vtb_tensor_info *t, int n);

#endif
