/* Checkpoints of several files. */
#ifndef VTB_WEIGHTS_SHARDS_H
#define VTB_WEIGHTS_SHARDS_H

#include "runtime/artefact/tensors.h"

/* Reads one file of a checkpoint: vtb__open_file(). */
typedef vtb_status (*vtb_open_fn)(const char *path, const char *part, vtb_weights **out,
                                  vtb_strbuf *said, vtb_error *err);

/* The tensors of all shards that an index ("model.safetensors.index.json") names. Shards lie beside
 * it. */
VTB_MUST_USE vtb_status vtb__open_index(const char *path, vtb_open_fn open, vtb_weights **out,
                                        vtb_strbuf *said, vtb_error *err);

/* A folder with weights, and with the settings of Hugging Face's tools beside them. */
VTB_MUST_USE vtb_status vtb__open_folder(const char *path, const char *part, vtb_open_fn open,
                                         vtb_weights **out, vtb_strbuf *said, vtb_error *err);

#endif
