/* Shared libraries that a machine may or may not have, opened at run time: NVRTC, the driver, cuBLAS. */
#ifndef VTB_LIBRARY_H
#define VTB_LIBRARY_H

#include "runtime/base/base.h"

/* Opens the first of `names` (newest version first, NULL ends) that the loader knows, or that lies under $CUDA_HOME,
 * $CUDA_PATH, /usr/local/cuda, or in a Python environment's nvidia packages. NULL if there is none. Never closed:
 * handles live as long as the process. *path, if wanted, is the name or path that was opened (malloc'd). */
void *vtb_library_open(const char *const *names, char **path);

/* A table of functions: name and where its address goes. False with the first missing name in *missing. */
typedef struct vtb_library_symbol {
  const char *name;
  void *into; /* address of a function pointer */
} vtb_library_symbol;
bool vtb_library_bind(void *library, const vtb_library_symbol *symbols, size_t n, const char **missing);

#endif
