/* The manifest of a built file as bytes: each struct's fields once, for both directions. */
#include "runtime/artefact/artefact_file.h"
#include "runtime/artefact/cpu_level.h"
#include "runtime/launch/wire.h"

const char *const vtb_artefact_role_names[VTB_N_ARTEFACT_ROLES] = {"inference", "training step",
                                                                   "evaluation", "gradient"};

/* Bytes that an element takes at least. */
enum {
  BLOB = 16,
  LEAST_KERNEL = 32,
  LEAST_CODE = 36,
  LEAST_IMAGES = 12,
  LEAST_PLAN = 4 + BLOB,
  LEAST_PROGRAM = 56,
  LEAST_META = 8
};

static void blob(vtb_wire *w, vtb_blob *b) {
  vtb__wire_u64(w, &b->offset);
  vtb__wire_u64(w, &b->bytes);
}

static void code(vtb_wire *w, vtb_artefact_code *c) {
  vtb__wire_text(w, &c->cpu);
  vtb__wire_i32(w, &c->entry);
  vtb__wire_i64(w, &c->workspace_bytes);
  vtb__wire_i64(w, &c->kept_bytes);
  vtb__wire_u64(w, &c->kept_key);
  vtb__wire_array(w, &c->n_kernels, c->kernels, LEAST_KERNEL);
  for (int i = 0; i < c->n_kernels; i++) vtb__wire_kernel_info(w, &c->kernels[i]);
}

static void images(vtb_wire *w, vtb_artefact_images *m) {
  vtb__wire_text(w, &m->arch);
  vtb__wire_array(w, &m->n, m->at, BLOB);
  for (int i = 0; i < m->n; i++) blob(w, &m->at[i]);
  vtb__wire_i32(w, &m->plan);
}

static void plan(vtb_wire *w, vtb_artefact_plan *p) {
  vtb__wire_text(w, &p->arch);
  blob(w, &p->bytes);
}

static void program(vtb_wire *w, vtb_artefact_program *p) {
  int32_t role = (int32_t)p->role;
  vtb__wire_i32(w, &role);
  vtb__wire_require(w, role >= 0 && role < VTB_N_ARTEFACT_ROLES);
  p->role = (vtb_artefact_role)role;
  vtb__wire_i64(w, &p->batch);
  vtb__wire_i64(w, &p->height);
  vtb__wire_i64(w, &p->width);
  vtb__wire_tensors(w, &p->n_tensors, &p->tensors);
  vtb__wire_array(w, &p->n_codes, p->codes, LEAST_CODE);
  for (int i = 0; i < p->n_codes; i++) code(w, &p->codes[i]);
  vtb__wire_array(w, &p->n_plans, p->plans, LEAST_PLAN);
  for (int i = 0; i < p->n_plans; i++) plan(w, &p->plans[i]);
  vtb__wire_array(w, &p->n_images, p->images, LEAST_IMAGES);
  for (int i = 0; i < p->n_images; i++) images(w, &p->images[i]);
}

static void whole(vtb_wire *w, vtb_manifest *m) {
  vtb__wire_u64(w, &m->build);
  vtb__wire_text(w, &m->compiler);
  vtb__wire_text(w, &m->model);
  vtb__wire_text(w, &m->precision);
  vtb__wire_text(w, &m->nvrtc);
  vtb__wire_u64(w, &m->library);
  vtb__wire_i32(w, &m->services_bytes);
  vtb__wire_array(w, &m->n_meta, m->meta, LEAST_META);
  for (int i = 0; i < m->n_meta; i++) {
    vtb__wire_text(w, &m->meta[i].key);
    vtb__wire_text(w, &m->meta[i].value);
  }
  vtb__wire_array(w, &m->n_programs, m->programs, LEAST_PROGRAM);
  for (int i = 0; i < m->n_programs; i++) program(w, &m->programs[i]);
  blob(w, &m->weights);
}

void vtb__manifest_write(const vtb_manifest *m, vtb_strbuf *out) {
  vtb_manifest copy = *m; /* the wire wants places to read into; writing leaves them as they are */
  vtb_wire w = vtb__wire_writer(out);
  whole(&w, &copy);
}

const char *vtb_manifest_meta(const vtb_manifest *m, const char *key) {
  for (int i = 0; i < m->n_meta; i++)
    if (vtb_streq(m->meta[i].key, key)) return m->meta[i].value;
  return NULL;
}

/* ---- what is read makes sense ---------------------------------------------------------------- */

static bool within(const vtb_blob *b, uint64_t limit) {
  return b->offset <= limit && b->bytes <= limit - b->offset;
}

static bool sound_program(const vtb_artefact_program *p, uint64_t limit) {
  bool ok = p->batch > 0 && p->height >= 0 && p->width >= 0;
  for (int i = 0; i < p->n_codes; i++) {
    const vtb_artefact_code *c = &p->codes[i];
    ok = ok && vtb_cpu_level_find(c->cpu) >= 0 && c->entry >= 0 && c->workspace_bytes >= 0 &&
         c->workspace_bytes < INT64_C(1) << 46 && c->kept_bytes >= 0 &&
         c->kept_bytes <= c->workspace_bytes;
  }
  for (int i = 0; i < p->n_plans; i++)
    ok = ok && within(&p->plans[i].bytes, limit) && p->plans[i].bytes.bytes &&
         (i > 0) == (p->plans[i].arch != NULL);
  for (int i = 0; i < p->n_images; i++) {
    ok = ok && p->images[i].arch && p->images[i].plan >= 0 && p->images[i].plan < p->n_plans;
    for (int k = 0; k < p->images[i].n; k++)
      ok = ok && within(&p->images[i].at[k], limit) && p->images[i].at[k].bytes;
  }
  return ok;
}

static bool sound(const vtb_manifest *m, uint64_t limit) {
  bool ok = m->compiler && m->model && m->precision && m->services_bytes >= 0 &&
            within(&m->weights, limit);
  for (int i = 0; i < m->n_meta; i++) ok = ok && m->meta[i].key && m->meta[i].value;
  for (int i = 0; i < m->n_programs; i++) ok = ok && sound_program(&m->programs[i], limit);
  return ok;
}

vtb_status vtb__manifest_read(const char *path, const void *data, size_t n, uint64_t limit,
                              vtb_arena *arena, vtb_manifest *m, vtb_error *err) {
  vtb_wire w = vtb__wire_reader(data, n, arena);
  *m = (vtb_manifest){0};
  whole(&w, m);
  if (w.no_memory) return vtb_no_memory(err, path);
  if (vtb__wire_complete(&w) && sound(m, limit)) return VTB_OK;
  return vtb_fail(err, VTB_E_INPUT, "%s: its manifest is damaged", path);
}
