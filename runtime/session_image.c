/* Image files and pixels as rows of a session's inputs, prepared as the model was trained. */
#include "runtime/model.h"

#include "runtime/base/c_locale.h"
#include "runtime/base/prepare.h"
#include "runtime/image/prepare.h"

#include <stdlib.h>
#include <string.h>

/* ---- how ------------------------------------------------------------------------------------- */

static int find_image(const vtb_session *s, const char *name, vtb_error *err) {
  const vtb__variant *v = vtb__session_variant(s);
  for (int i = 0; i < v->n_tensors; i++) {
    const vtb_tensor_info *t = &v->tensors[i];
    if (t->io == VTB_IO_INPUT && t->rank == 4 && !t->is_int && (!name || vtb_streq(t->name, name)))
      return i;
  }
  vtb_fail(err, VTB_E_INPUT, "the model has no image input%s%s", name ? " " : "", name ? name : "");
  return -1;
}

static const char *or_null(const char *text) { return text && *text ? text : NULL; }

static vtb_status read_manifest(const vtb_model *m, vtb_preparation *p, vtb_error *err) {
  const vtb_manifest *all = m->file ? vtb_artefact_manifest(m->file) : NULL;
  const char *said = all ? vtb_manifest_meta(all, VTB_META_PREPARE) : or_null(m->program->prepare);
  return vtb_preparation_read_meta(p, said, said || !all ? NULL : vtb_manifest_meta(all, "mean"),
                                   said || !all ? NULL : vtb_manifest_meta(all, "std"), "the model",
                                   err);
}

/* The file says what its model does; weights that were named hold over that, the caller over
 * both. */
static vtb_status read_preparation(const vtb_session *s, int input, vtb_preparation *out,
                                   vtb_error *err) {
  const vtb_model *m = s->model;
  const vtb_tensor_info *t = &vtb__session_variant(s)->tensors[input];
  *out = vtb_preparation_default((int)t->dim[1], (int)t->dim[2], (int)t->dim[3]);
  VTB_TRY(vtb_preparation_check(out, err));
  VTB_TRY(read_manifest(m, out, err));
  if (m->beside)
    VTB_TRY(vtb_preparation_read_meta(out, vtb_weights_meta(m->beside, VTB_META_PREPARE),
                                      vtb_weights_meta(m->beside, "mean"),
                                      vtb_weights_meta(m->beside, "std"), "the weights", err));
  if (s->prepare) VTB_TRY(vtb_preparation_read(out, s->prepare, "vtb_session_prepare()", err));
  return VTB_OK;
}

static vtb_status write_preparation(const vtb_session *s, const char *input, char *json, size_t n,
                                    vtb_error *err) {
  vtb_preparation p;
  int i = find_image(s, input, err);
  VTB_TRY(i < 0 ? VTB_E_INPUT : read_preparation(s, i, &p, err));
  vtb_strbuf text = VTB_CHECKED_STRBUF;
  vtb_preparation_write(&p, VTB_PREPARE_ALL, &text);
  vtb_status status = vtb_strbuf_check(&text, err);
  if (status == VTB_OK && text.n >= n)
    status = vtb_fail(err, VTB_E_USAGE, "the preparation takes %zu bytes, and there are %zu",
                      text.n + 1, n);
  if (status == VTB_OK) memcpy(json, text.at, text.n + 1);
  vtb_strbuf_free(&text);
  return status;
}

vtb_status vtb_session_preparation(vtb_session *s, const char *input, char *json, size_t n,
                                   vtb_error *err) {
  VTB_TRY(vtb__session_take(s, err));
  locale_t before = vtb_c_locale_begin();
  vtb_status status = write_preparation(s, input, json, n, err);
  vtb_c_locale_end(before);
  vtb__session_give(s);
  return status;
}

static vtb_status set_preparation(vtb_session *s, const char *json, vtb_error *err) {
  vtb_preparation p;
  char *before = s->prepare, *text = json ? strdup(json) : NULL;
  if (json && !text) return vtb_no_memory(err, "a preparation");
  int i = find_image(s, NULL, err);
  s->prepare = text;
  vtb_status status = i < 0 ? VTB_E_INPUT : read_preparation(s, i, &p, err);
  if (status != VTB_OK) {
    s->prepare = before;
    before = text;
  }
  free(before);
  return status;
}

vtb_status vtb_session_prepare(vtb_session *s, const char *json, vtb_error *err) {
  VTB_TRY(vtb__session_take(s, err));
  locale_t before = vtb_c_locale_begin();
  vtb_status status = set_preparation(s, json, err);
  vtb_c_locale_end(before);
  vtb__session_give(s);
  return status;
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* Into an input on a device, behind the runs that are queued. */
static vtb_status prepare_there(vtb_session *s, int i, int64_t row, const vtb_preparation *p,
                                const vtb_image *im, vtb_error *err) {
  const vtb_tensor_info *t = &vtb__session_variant(s)->tensors[i];
  size_t each = (size_t)(t->dim[1] * t->dim[2] * t->dim[3]) * sizeof(float);
  const vtb_program *there = vtb__session_device(s);
  uint64_t to = vtb__session_address(s, i, err);
  if (!to) return VTB_E_DEVICE;
  float *made = vtb_aligned_alloc(each);
  if (!made) return vtb_no_memory(err, t->name);
  vtb_status status = vtb_image_prepare(p, im, made, err);
  if (status == VTB_OK)
    status = there->device->copy(there->owner, to + (uint64_t)row * each, made, each, true, err);
  free(made);
  return status;
}

static vtb_status prepare_row(vtb_session *s, int i, int64_t row, const vtb_image *im,
                              vtb_error *err) {
  vtb_preparation p;
  const vtb_tensor_info *t = &vtb__session_variant(s)->tensors[i];
  VTB_TRY(read_preparation(s, i, &p, err));
  if (vtb__session_is_there(s, i)) return prepare_there(s, i, row, &p, im, err);
  char *to = vtb__session_memory(s, i);
  if (!to) return vtb_no_memory(err, t->name);
  size_t each = (size_t)(t->dim[1] * t->dim[2] * t->dim[3]) * sizeof(float);
  to += (size_t)row * each;
  if ((uintptr_t)to % sizeof(float) == 0) return vtb_image_prepare(&p, im, (float *)to, err);
  float *copy = vtb_aligned_alloc(each);
  if (!copy) return vtb_no_memory(err, t->name);
  vtb_status status = vtb_image_prepare(&p, im, copy, err);
  if (status == VTB_OK) memcpy(to, copy, each);
  free(copy);
  return status;
}

static vtb_status set_row(vtb_session *s, const char *input, int64_t row, const vtb_image *im,
                          vtb_error *err) {
  int i = find_image(s, input, err);
  if (i < 0) return VTB_E_INPUT;
  int64_t rows = s->buffers[i].is_bound ? vtb__session_rows(s, i) : s->batch;
  const char *name = vtb__session_variant(s)->tensors[i].name;
  if (row < 0 || row >= rows)
    return vtb_fail(err, VTB_E_INPUT, "row %lld of %s, which has %lld", (long long)row, name,
                    (long long)rows);
  locale_t before = vtb_c_locale_begin();
  vtb_status status = prepare_row(s, i, row, im, err);
  vtb_c_locale_end(before);
  return status;
}

/* Takes the image. */
static vtb_status put_image(vtb_session *s, const char *input, int64_t row, vtb_image *im,
                            vtb_error *err) {
  vtb_status status = vtb__session_take(s, err);
  if (status == VTB_OK) {
    status = set_row(s, input, row, im, err);
    vtb__session_give(s);
  }
  vtb_image_free(im);
  return status;
}

vtb_status vtb_session_load_image(vtb_session *s, const char *input, int64_t row, const char *path,
                                  vtb_error *err) {
  vtb_image im = {0};
  vtb_status status = vtb_image_load(path, 0, &im, err);
  return status == VTB_OK ? put_image(s, input, row, &im, err) : status;
}

vtb_status vtb_session_decode_image(vtb_session *s, const char *input, int64_t row,
                                    const void *bytes, size_t n, vtb_error *err) {
  vtb_image im = {0};
  vtb_status status = vtb_image_decode("the image", bytes, n, 0, &im, err);
  return status == VTB_OK ? put_image(s, input, row, &im, err) : status;
}

vtb_status vtb_session_set_image(vtb_session *s, const char *input, int64_t row,
                                 const vtb_picture *picture, vtb_error *err) {
  vtb_picture p;
  if (!picture || !vtb__take_struct(picture, &p, sizeof p))
    return vtb__wrong_size("vtb_picture", err);
  if (p.width < 1 || p.height < 1 || p.width > VTB_IMAGE_MAX_SIDE ||
      p.height > VTB_IMAGE_MAX_SIDE || (int64_t)p.width * p.height > VTB_IMAGE_MAX_PIXELS ||
      (p.channels != 1 && p.channels != 3) || !p.pixels)
    return vtb_fail(err, VTB_E_INPUT, "pixels of %d x %d in %d channels: no such image is taken",
                    (int)p.width, (int)p.height, (int)p.channels);
  vtb_image im = {p.width, p.height, p.channels, (uint8_t *)(uintptr_t)p.pixels};
  VTB_TRY(vtb__session_take(s, err));
  vtb_status status = set_row(s, input, row, &im, err);
  vtb__session_give(s);
  return status;
}
