/* Between the files of runtime/cuda: tables of functions, the device, checked calls. Not for other
 * folders. */
#ifndef VTB_CUDA_DEVICE_H
#define VTB_CUDA_DEVICE_H

#include "runtime/cuda/constants.h"
#include "runtime/cuda/cuda.h"
#include "runtime/cuda/group.h"

typedef int vtb_cu_result, vtb_cu_device;
typedef uint64_t vtb_cu_address;
typedef struct vtb_lt_algorithm {
  uint64_t data[8];
} vtb_lt_algorithm;
typedef struct vtb_lt_choice { /* cublasLtMatmulHeuristicResult_t */
  vtb_lt_algorithm algorithm;
  size_t workspace_bytes;
  int state;
  float waves;
  int reserved[4];
} vtb_lt_choice;
typedef struct vtb_cu_attribute { /* CUlaunchAttribute */
  int id, unused;
  union {
    unsigned cluster[3];
    uint64_t all[8];
  } value;
} vtb_cu_attribute;
typedef struct vtb_cu_launch { /* CUlaunchConfig */
  unsigned grid[3], block[3], shared_bytes;
  void *stream;
  const vtb_cu_attribute *attributes;
  unsigned n_attributes;
} vtb_cu_launch;

typedef struct vtb_cu_api {
#define VTB_CU(name, parameters) vtb_cu_result(*name) parameters;
#include "runtime/cuda/functions.def"
#undef VTB_CU
} vtb_cu_api;
typedef struct vtb_lt_api {
#define VTB_LT(type, name, parameters) type(*name) parameters;
#include "runtime/cuda/functions.def"
#undef VTB_LT
} vtb_lt_api;

typedef struct vtb_nccl_api {
#define VTB_NCCL(type, name, parameters) type(*name) parameters;
#include "runtime/cuda/functions.def"
#undef VTB_NCCL
} vtb_nccl_api;

struct vtb_cuda_device {
  vtb_cu_api api;
  vtb_cu_device number;
  void *context;
  void *stream, *own;       /* of runs: the caller's or `own` */
  bool retained;            /* the context, which is the device's primary one */
  int major, minor, driver; /* compute capability; 13000 */
  int shared_bytes;         /* of a block, with the opt-in */
  size_t memory_bytes;
  char name[128], arch[16];
  vtb_behaviour how; /* of what runs on it */
};

/* One macro for every call of the driver: VTB_CU_CALL(d, cuInit, (0), err) is a status, with the
 * call's text and place in the error. */
#define VTB_CU_CALL(d, function, arguments, err)                                                   \
  vtb__cu_check((d), (d)->api.function arguments, #function #arguments, __FILE__, __LINE__, (err))
VTB_MUST_USE vtb_status vtb__cu_check(const vtb_cuda_device *d, vtb_cu_result result,
                                      const char *call, const char *file, int line, vtb_error *err);

/* Where `where` says; NULL: it says nothing. */
VTB_MUST_USE vtb_status vtb__cu_open(const vtb_device_choice *where, vtb_cuda_device **out,
                                     vtb_error *err);
/* Around everything that uses the context: the thread's own is current again behind it. */
VTB_MUST_USE vtb_status vtb__cu_enter(const vtb_cuda_device *d, vtb_error *err);
void vtb__cu_leave(const vtb_cuda_device *d);

/* ---- maps.c: tensors for the copy engine ----------------------------------------------------- */
typedef struct vtb__cu_map {
  unsigned char bytes[VTB_LAUNCH_MAP_BYTES];
} vtb__cu_map; /* at a multiple of 64 bytes */
/* The map of the tensor that begins at `address`. */
VTB_MUST_USE vtb_status vtb__cu_encode_map(vtb_cuda_device *d, const vtb_launch_map *m,
                                           vtb_cu_address address, vtb__cu_map *out,
                                           vtb_error *err);

/* ---- timing.c: which of cublasLt's ways is fastest ------------------------------------------- */
enum { VTB__LT_NOTE = 512 };
/* Enqueues the product once, by that algorithm. */
typedef vtb_status (*vtb__trial_fn)(void *user, const vtb_lt_algorithm *a, vtb_error *err);
/* The number of the choice, each of which can run, that was fastest when the product of that key
 * was timed, now if that never was; 0 if it cannot be timed. note: what was ignored, if any was. */
int vtb__fastest(vtb_cuda_device *d, const char *key, const vtb_lt_choice *choices, int n,
                 vtb__trial_fn trial, void *user, char note[VTB__LT_NOTE]);

/* ---- product.c: cublasLt --------------------------------------------------------------------- */
typedef struct vtb__products vtb__products;
/* Plans of all products; none are made, and cublasLt is not opened, for a plan without. */
VTB_MUST_USE vtb_status vtb__products_open(vtb_cuda_device *d, const vtb_launch_plan *p,
                                           vtb__products **out, vtb_error *err);
void vtb__products_free(vtb__products *x);
/* A note that somebody should hear once, or NULL. */
const char *vtb__products_note(const vtb__products *x);
/* Enqueues gemm `i` of the plan; addresses as in vtb_launch_gemm. */
VTB_MUST_USE vtb_status vtb__products_run(vtb__products *x, int i, const vtb_cu_address *args,
                                          vtb_error *err);

#endif
