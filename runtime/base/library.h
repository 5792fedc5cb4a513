/* Libraries opened at run time, so that one binary runs with and without them: where they are
 * looked for, and their functions resolved into a struct of pointers.
 *
 * Looked for: the file that an environment variable names; the loader's own path; a vendor's also
 * in CUDA_HOME/lib64 and /usr/local/cuda*, and the folders of NVIDIA's Python packages. Libraries
 * of a newer CUDA than the driver's come last: they do not work on it. An opened library stays open
 * until the process ends.
 */
#ifndef VTB_LIBRARY_H
#define VTB_LIBRARY_H

#include "runtime/base/base.h"
#include "runtime/base/lock.h"

typedef struct vtb_symbol {
  const char *name;
  size_t offset; /* of the function pointer in the table */
} vtb_symbol;

typedef struct vtb_library {
  const char *what;         /* "CUDA driver" */
  const char *environment;  /* "VTB_CUDA_DRIVER": the file, instead of the search */
  const char *remedy;       /* "pip install nvidia-cuda-nvrtc" */
  const char *const *names; /* file names, best first, NULL at the end */
  const vtb_symbol *symbols;
  int n_symbols;
  bool of_system; /* no vendor's: in the loader's path or nowhere */
} vtb_library;

/* False in a program that is linked statically: its C library opens shared libraries, but beside a
 * second C library, with which they crash. */
bool vtb_library_loads(void);

/* Fills the table. *path (may be NULL) is the file that was found, the caller's to free. */
VTB_MUST_USE vtb_status vtb_library_open(const vtb_library *l, void *table, char **path,
                                         vtb_error *err);

/* A library that is opened when somebody first needs it, by whichever thread. */
typedef struct vtb_late_library {
  const vtb_library *library;
  void *table;
  vtb_lock lock;
  _Atomic bool open;
} vtb_late_library;
VTB_MUST_USE vtb_status vtb_library_need(vtb_late_library *l, vtb_error *err);

#endif
