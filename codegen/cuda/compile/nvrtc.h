/* CUDA C to cubin or PTX by NVRTC, opened at run time. No GPU, driver or toolkit is needed.
 *
 * Threads: any; NVRTC may compile several programs at a time. Ownership: codes are the caller's,
 * vtb_cuda_code_free().
 */
#ifndef VTB_CODEGEN_CUDA_NVRTC_H
#define VTB_CODEGEN_CUDA_NVRTC_H

#include "runtime/launch/launch_plan.h"

struct vtb_behaviour;
typedef struct vtb_cuda_code {
  char *data; /* cubin, or PTX with its final NUL */
  size_t n_bytes;
  char *log; /* registers and spills of each kernel, from ptxas; "" for PTX */
  bool cached;
} vtb_cuda_code;
void vtb_cuda_code_free(vtb_cuda_code *code);

/* A source of a plan, behind what sources have in common, for "sm_90a": a cubin; for "compute_90":
 * PTX for that and newer cards. Through the disk cache as `how` says (NULL: nothing).
 * VTB_E_DEVICE if there is no NVRTC; VTB_E_INTERNAL if the source is wrong, with the first error of
 * NVRTC's log and the numbered lines about it: all of both goes to vtb_log(). */
VTB_MUST_USE vtb_status vtb_cuda_compile(const char *common, const char *source, const char *arch,
                                         const struct vtb_behaviour *how, vtb_cuda_code *code,
                                         vtb_error *err);
/* All sources of a plan for one architecture, on all cores: codes[plan->n_sources]. None is left on
 * failure. */
VTB_MUST_USE vtb_status vtb_cuda_compile_plan(const vtb_launch_plan *plan, const char *arch,
                                              const struct vtb_behaviour *how, vtb_cuda_code *codes,
                                              vtb_error *err);

/* "NVRTC 13.0 (libnvrtc.so.13)", or why there is none; false then. */
bool vtb_cuda_describe_nvrtc(vtb_strbuf *out);

/* Registers, spills and shared memory a kernel, from the log. */
typedef struct vtb_cuda_resources {
  int registers, spill_bytes, stack_bytes;
} vtb_cuda_resources;
bool vtb_cuda_resources_of(const char *log, const char *kernel, vtb_cuda_resources *out);

/* ptxas would rather spill a word than lose an occupancy. The text with the kernels that do so, by
 * the log, as VTB_KERNEL_ROOMY; NULL if none does. Those of which two blocks are to run on a
 * multiprocessor may spill two words: half the warps would cost more. malloc'd. */
char *vtb__cuda_give_room(const char *text, const char *log);

/* ---- the disk cache (cache.c): one file a key in $XDG_CACHE_HOME/vertebra/cuda --------------- */

/* 128 bits over every part with its length, as hexadecimal digits. */
typedef struct vtb_cuda_key {
  char text[33];
} vtb_cuda_key;
vtb_cuda_key vtb__cuda_cache_key(const char *const *parts, int n);
bool vtb__cuda_cache_get(const vtb_cuda_key *key, vtb_cuda_code *code);
/* Best effort; the oldest files go when there are more than so many MB, 0: 512. */
void vtb__cuda_cache_put(const vtb_cuda_key *key, const vtb_cuda_code *code, int most_mb);

typedef struct vtb_cuda_cache_entry {
  char key[33];
  int64_t bytes, used_seconds_ago;
} vtb_cuda_cache_entry;
/* Oldest first; *out is malloc'd. */
VTB_MUST_USE vtb_status vtb_cuda_cache_list(vtb_cuda_cache_entry **out, size_t *n, vtb_error *err);
VTB_MUST_USE vtb_status vtb_cuda_cache_clear(size_t *n_removed, vtb_error *err);
char *vtb_cuda_cache_folder(void); /* malloc'd */

#endif
