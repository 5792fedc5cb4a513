/* Arrays as NumPy saves them, one a file. Source: the format's specification, versions 1 to 3.
 *
 * Booleans, integers and floats of the machine's byte order, row-major; anything else, and a file
 * that is not sound, is VTB_E_INPUT.
 */
#ifndef VTB_NPY_H
#define VTB_NPY_H

#include "runtime/artefact/tensors.h"

/* Adds the array of the file under a name; copied. */
VTB_MUST_USE vtb_status vtb_npy_load(const char *path, const char *name, vtb_weights *into,
                                     vtb_error *err);

#endif
