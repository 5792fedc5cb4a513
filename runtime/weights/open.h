/* Weights as other tools leave them: a safetensors file, what torch.save() writes, several shards
 * with their index, or a folder with one of these, as Hugging Face lays them out.
 *
 * What a file is follows from its content; its ending says nothing. Nothing that a file holds is
 * ever executed, and a file from anybody may be given: it is read or refused with a sentence.
 */
#ifndef VTB_WEIGHTS_OPEN_H
#define VTB_WEIGHTS_OPEN_H

#include "runtime/artefact/tensors.h"

/* Tensors come under the names that the file gives them, in its order, less what wrappers put
 * around them: {"model": ...}, "module.". `said` (may be NULL) gets a line, ending in a newline,
 * for each thing that was decided, left out or unwrapped. Texts beside the tensors become metadata:
 * "hf.config" and "hf.preprocessor" are the JSON files of a folder, "torch.<name>" what stands
 * beside the tensors of a checkpoint ("torch.epoch", "torch.args"). `*out` is the caller's. */
VTB_MUST_USE vtb_status vtb_weights_open(const char *path, vtb_weights **out, vtb_strbuf *said,
                                         vtb_error *err);

/* The same for checkpoints that hold several sets of tensors: `part` is the name of one
 * ("model_ema", "teacher"), "ema" the averaged weights whatever the file calls them; NULL: the
 * model's. */
VTB_MUST_USE vtb_status vtb_weights_open_part(const char *path, const char *part, vtb_weights **out,
                                              vtb_strbuf *said, vtb_error *err);

#endif
