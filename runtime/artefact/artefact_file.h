/* Between the files of the artefact: the trailer, the hash, the manifest's bytes. */
#ifndef VTB_ARTEFACT_FILE_H
#define VTB_ARTEFACT_FILE_H

#include "runtime/artefact/artefact.h"

/* The last bytes of a file, little-endian: code_bytes, manifest, file_bytes, compiler, the two
 * hashes, format, size, magic. The manifest stands right before it. Newer formats may have more in
 * front: format, size and magic stay the last. */
enum { VTB__TRAILER_BYTES = 80, VTB__TRAILER_NUMBERS = 48, VTB__TRAILER_HASHED = 56 };
#define VTB__TRAILER_MAGIC "vertebra"

typedef struct vtb__trailer {
  uint64_t code_bytes;
  vtb_blob manifest;
  uint64_t file_bytes;
  char compiler[17];
  uint64_t about; /* hash of the manifest and of what the trailer has before it */
  uint64_t hash;  /* of everything before it, `about` too */
} vtb__trailer;

void vtb__trailer_write(const vtb__trailer *t, unsigned char *out); /* VTB__TRAILER_BYTES */
/* The image within an object for static linking: its last bytes. False, and nothing is changed, if
 * the file is none or has none. */
bool vtb__trailer_find_linked(const unsigned char **data, size_t *n);
/* Refuses files that are cut, of another format, or whose manifest is damaged. */
VTB_MUST_USE vtb_status vtb__trailer_read(const char *path, const unsigned char *data, size_t n,
                                          vtb__trailer *out, vtb_error *err);

void vtb__manifest_write(const vtb_manifest *m, vtb_strbuf *out);
/* Everything in *m is in the arena. Blobs lie within [0, limit), indices in their tables. */
VTB_MUST_USE vtb_status vtb__manifest_read(const char *path, const void *data, size_t n,
                                           uint64_t limit, vtb_arena *arena, vtb_manifest *m,
                                           vtb_error *err);

#endif
