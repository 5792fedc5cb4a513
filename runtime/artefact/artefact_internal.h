/* Between the loader of built files and the part of it that knows CUDA
 * (runtime/cuda/artefact.c). */
#ifndef VTB_ARTEFACT_INTERNAL_H
#define VTB_ARTEFACT_INTERNAL_H

#include "runtime/artefact/artefact.h"

const char *vtb__artefact_path(const vtb_artefact *a);
const void *vtb__artefact_bytes(const vtb_artefact *a, const vtb_blob *b);

VTB_MUST_USE vtb_status vtb__artefact_load_cuda(const vtb_artefact *a,
                                                const vtb_artefact_program *p,
                                                const vtb_device_choice *where,
                                                vtb_program **program, vtb_error *err);

#endif
