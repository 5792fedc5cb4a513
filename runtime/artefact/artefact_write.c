/* Writing built files: a shared object, or an object for static linking, blobs behind it, manifest
 * and trailer; under a temporary name until complete. */
#include "runtime/artefact/artefact_file.h"
#include "runtime/artefact/safetensors.h"

enum { ALIGNMENT = 64 };

static vtb_status write_bytes(vtb_artefact_writer *w, const void *data, size_t n, vtb_error *err) {
  if (n && fwrite(data, 1, n, w->file.file) != n) return vtb_file_fail(err, "write", w->file.path);
  w->at += n;
  return VTB_OK;
}

static vtb_status align(vtb_artefact_writer *w, vtb_error *err) {
  static const char zeros[ALIGNMENT];
  return write_bytes(w, zeros, (size_t)(-w->at % ALIGNMENT), err);
}

vtb_status vtb_artefact_begin(vtb_artefact_writer *w, const char *path, const void *code, size_t n,
                              vtb_error *err) {
  *w = (vtb_artefact_writer){.code_bytes = n};
  VTB_TRY(vtb_atomic_begin(&w->file, path, err));
  return write_bytes(w, code, n, err);
}

vtb_status vtb_artefact_begin_linked(vtb_artefact_writer *w, const char *path, const void *code,
                                     size_t n, const uint64_t size_at[2], vtb_error *err) {
  vtb_status status = vtb_artefact_begin(w, path, code, n, err);
  if (status == VTB_OK) status = align(w, err);
  w->base = w->at;
  w->at = w->code_bytes = 0;
  w->size_at[0] = size_at[0], w->size_at[1] = size_at[1];
  return status;
}

/* The image is complete, and the object says how large it is. */
static vtb_status write_sizes(vtb_artefact_writer *w, vtb_error *err) {
  unsigned char bytes[8];
  for (int i = 0; i < 8; i++) bytes[i] = (unsigned char)(w->at >> 8 * i);
  for (int i = 0; i < 2; i++)
    if (w->size_at[i] && (fseeko(w->file.file, (off_t)w->size_at[i], SEEK_SET) != 0 ||
                          fwrite(bytes, 1, sizeof bytes, w->file.file) != sizeof bytes))
      return vtb_file_fail(err, "write", w->file.path);
  return VTB_OK;
}

vtb_status vtb_artefact_put(vtb_artefact_writer *w, const void *data, size_t n, vtb_blob *blob,
                            vtb_error *err) {
  VTB_TRY(align(w, err));
  *blob = (vtb_blob){w->at, n};
  return write_bytes(w, data, n, err);
}

vtb_status vtb_artefact_put_weights(vtb_artefact_writer *w, const vtb_weights *weights,
                                    vtb_blob *blob, vtb_error *err) {
  vtb_status status = align(w, err);
  uint64_t bytes = 0;
  if (status == VTB_OK) status = vtb_safetensors_write(w->file.file, weights, &bytes, err);
  if (status != VTB_OK) return status;
  *blob = (vtb_blob){w->at, bytes};
  w->at += bytes;
  return VTB_OK;
}

/* From `from` on, over the file as it is on disk, so that what will be read is what was hashed. */
static vtb_status hash_file(vtb_artefact_writer *w, uint64_t from, uint64_t *hash, vtb_error *err) {
  if (fflush(w->file.file) != 0) return vtb_file_fail(err, "write", w->file.path);
  vtb_mapped_file all;
  VTB_TRY(vtb_map_file(w->file.temp_path, &all, err));
  from += w->base;
  *hash = vtb_hash64(all.data + from, all.n - (size_t)from);
  vtb_unmap_file(&all);
  return VTB_OK;
}

vtb_status vtb_artefact_finish(vtb_artefact_writer *w, const vtb_manifest *m, vtb_error *err) {
  unsigned char bytes[VTB__TRAILER_BYTES];
  vtb__trailer t = {.code_bytes = w->code_bytes};
  vtb_strbuf manifest = VTB_CHECKED_STRBUF;
  snprintf(t.compiler, sizeof t.compiler, "%s", m->compiler);
  vtb__manifest_write(m, &manifest);
  vtb_status status = vtb_strbuf_check(&manifest, err);
  if (status == VTB_OK) status = vtb_artefact_put(w, manifest.at, manifest.n, &t.manifest, err);
  vtb_strbuf_free(&manifest);
  t.file_bytes = w->at + VTB__TRAILER_BYTES;
  vtb__trailer_write(&t, bytes);
  if (status == VTB_OK) status = write_bytes(w, bytes, VTB__TRAILER_NUMBERS, err);
  if (status == VTB_OK) status = hash_file(w, t.manifest.offset, &t.about, err);
  vtb__trailer_write(&t, bytes);
  if (status == VTB_OK)
    status = write_bytes(w, bytes + VTB__TRAILER_NUMBERS,
                         VTB__TRAILER_HASHED - VTB__TRAILER_NUMBERS, err);
  if (status == VTB_OK) status = hash_file(w, 0, &t.hash, err);
  vtb__trailer_write(&t, bytes);
  if (status == VTB_OK)
    status =
        write_bytes(w, bytes + VTB__TRAILER_HASHED, VTB__TRAILER_BYTES - VTB__TRAILER_HASHED, err);
  if (status == VTB_OK) status = write_sizes(w, err);
  return status == VTB_OK ? vtb_atomic_commit(&w->file, err) : status;
}

void vtb_artefact_abort(vtb_artefact_writer *w) { vtb_atomic_abort(&w->file); }
