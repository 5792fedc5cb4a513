/* Reading and writing safetensors files. Format: u64 little-endian header length, JSON header,
 * tensor bytes.
 *
 * Reading maps the file and checks everything before returning: header length, JSON, UTF-8,
 * duplicate names, types, shapes against overflow, offsets against the file, against each other and
 * for gaps. Errors name file and tensor. A file's own hash (content_hash.h) is compared when it is
 * loaded.
 */
#ifndef VTB_SAFETENSORS_H
#define VTB_SAFETENSORS_H

#include "runtime/artefact/tensors.h"

#define VTB_SAFETENSORS_MAX_HEADER (100u << 20)

VTB_MUST_USE vtb_status vtb_safetensors_load(const char *path, vtb_weights **out, vtb_error *err);

/* The same for bytes in memory, which must outlive the result; `name` stands for the path in
 * messages. */
VTB_MUST_USE vtb_status vtb_safetensors_parse(const char *name, const void *data, size_t n,
                                              vtb_weights **out, vtb_error *err);

/* Replaces `path` atomically. Tensors whose bytes are a multiple of 64 come first, at such places;
 * then by falling alignment and name, metadata by key: the same content gives the same bytes. */
VTB_MUST_USE vtb_status vtb_safetensors_save(const char *path, const vtb_weights *w,
                                             vtb_error *err);
/* The same bytes where `file` stands; *n_bytes: how many. */
VTB_MUST_USE vtb_status vtb_safetensors_write(FILE *file, const vtb_weights *w, uint64_t *n_bytes,
                                              vtb_error *err);

#endif
