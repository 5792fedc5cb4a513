/* The content of a file of tensors as one number in its metadata: a bit that flips on a disk is
 * noticed when the file is opened. Files of others have none, and are read as they are. */
#ifndef VTB_CONTENT_HASH_H
#define VTB_CONTENT_HASH_H

#include "runtime/artefact/tensors.h"

/* The key. Wherever weights that have it are written, whatever was read or changed before, its
 * value is that of what is written. */
#define VTB_CONTENT_HASH "xxh3"
enum { VTB_CONTENT_HASH_BYTES = 17 };

/* Gives the weights the key; what cannot be added is remembered in w->error. */
void vtb_content_hash_want(vtb_weights *w);
/* The value, 16 digits: of metadata in any order and tensors by name, however a file lays them
 * out. */
void vtb_content_hash(const vtb_weights *w, char text[VTB_CONTENT_HASH_BYTES]);
/* VTB_E_INPUT if the weights of the file `path` have the key and are not what was written. */
VTB_MUST_USE vtb_status vtb_content_hash_check(const char *path, const vtb_weights *w,
                                               vtb_error *err);

#endif
