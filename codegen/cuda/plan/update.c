/* The end of a training step in the plan: norm of the gradients, verdict, AdamW or SGD
 * (runtime/train/update.h says what it means to the host). Four launches, whatever the number of
 * parameters.
 *
 * The state is regions of one layout: element e of a parameter stands at the same offset in values,
 * gradients (of buffers: their updates), the moments m and v (of SGD: the momentum alone), and the
 * averages. Slots come in the order trained parameters, moved buffers, all else that stays, so that
 * each region needs to reach only as far as it is used; each slot starts at a multiple of 256
 * bytes, and what pads it is zero and stays so. Slots are cut into pieces, one a block, listed in a
 * table of the plan's constants: the pieces are the unit of the norm's sum, whose order is thereby
 * fixed.
 */
#include "runtime/train/update.h"

#include <string.h>

#include "codegen/cuda/plan/program.h"

enum { THREADS = 256, PIECE = 1 << 14, SLOT_ALIGN = 64 /* elements */ };

typedef enum slot_kind {
  TRAINED,
  AVERAGED,
  COPIED,
  FIXED
} slot_kind; /* the first three as in text/update_adamw.cu */

typedef struct slot {
  int arg, result; /* tensors: the value; its gradient or update, -1: none */
  slot_kind kind;
  int64_t at, count; /* elements */
} slot;

typedef enum region { VALUES, GRADS, MOMENT1, MOMENT2, AVERAGES, LOGITS, N_REGIONS } region;

typedef struct vtb__cuda_update {
  const vtb_func *entry;
  vtb_update_rule rule;
  bool average;
  int loss, logits, labels; /* tensors of the entry */
  slot *slots;              /* in the program's arena */
  int n_slots, n_trained;
  int64_t begin[N_REGIONS], size[N_REGIONS]; /* bytes */
  int scalars, result;                       /* tensors that the update adds first */
} update;

/* ---- layout ---------------------------------------------------------------------------------- */

static int find_result(const vtb_func *f, const char *prefix, const char *name) {
  size_t n = strlen(prefix);
  for (int r = 0; r < f->n_returns; r++) {
    const char *have = f->return_names ? f->return_names[r] : NULL;
    if (have && strncmp(have, prefix, n) == 0 && strcmp(have + n, name) == 0) return f->n_args + r;
  }
  return -1;
}

static slot slot_of(const vtb_func *f, int a) {
  const vtb_arg_info *info = &f->arg_info[a];
  const vtb_type *t = &f->args[a]->type;
  slot s = {.arg = a, .result = -1, .kind = FIXED, .count = vtb_type_count(t)};
  if (info->role == VTB_ROLE_PARAM && t->dtype == VTB_F32)
    s.result = find_result(f, "d:", info->official);
  if (s.result >= 0) s.kind = TRAINED;
  if (info->role == VTB_ROLE_BUFFER) {
    s.result = find_result(f, "updated.", info->official);
    if (s.result >= 0)
      s.kind = t->dtype == VTB_F32 && s.count > 1 ? AVERAGED : COPIED; /* one number is a count */
  }
  return s;
}

static bool stays(const vtb_func *f, int a) {
  vtb_role role = f->arg_info[a].role;
  return (role == VTB_ROLE_PARAM || role == VTB_ROLE_BUFFER) && f->arg_info[a].official;
}

/* Each kind in the order of the arguments. */
static void place_slots(vtb_cuda *c, update *u) {
  int64_t at = 0, end[FIXED + 1];
  u->slots = VTB_NEW_ARRAY(&c->arena, slot, u->entry->n_args + 1);
  for (int kind = TRAINED; kind <= FIXED; kind++) {
    for (int a = 0; a < u->entry->n_args; a++) {
      slot s = stays(u->entry, a) ? slot_of(u->entry, a) : (slot){.kind = FIXED, .count = -1};
      if (s.count < 0 || (int)s.kind != kind) continue;
      s.at = at;
      at += (s.count + SLOT_ALIGN - 1) / SLOT_ALIGN * SLOT_ALIGN;
      u->slots[u->n_slots++] = s;
      u->n_trained += kind == TRAINED;
    }
    end[kind] = at * 4;
  }
  u->size[VALUES] = end[FIXED];
  u->size[GRADS] = end[COPIED];
  u->size[MOMENT1] = end[TRAINED];
  u->size[MOMENT2] = u->rule == VTB_UPDATE_ADAMW ? end[TRAINED] : 0;
  u->size[AVERAGES] = u->average ? end[AVERAGED] : 0;
  u->size[LOGITS] = vtb_type_count(&u->entry->returns[u->logits - u->entry->n_args]->type) * 4;
  int64_t begin = 0;
  for (int r = 0; r < N_REGIONS; r++) {
    u->begin[r] = begin;
    begin += (u->size[r] + 255) / 256 * 256;
  }
}

/* Tensors by which the trainer knows a classifier's step, too (runtime/train/bound.c). */
static void find_tensors(update *u) {
  const vtb_func *f = u->entry;
  u->loss = find_result(f, "", "loss");
  u->labels = u->logits = -1;
  for (int a = 0; a < f->n_args; a++)
    if (f->arg_info[a].role == VTB_ROLE_INPUT && vtb_streq(f->arg_info[a].official, "labels"))
      u->labels = a;
  for (int r = 0; r < f->n_returns && u->labels >= 0 && u->logits < 0; r++) {
    const vtb_type *t = &f->returns[r]->type;
    if (f->return_names && f->return_names[r] && t->rank == 2 && t->dtype == VTB_F32 &&
        t->dim[0].size == f->args[u->labels]->type.dim[0].size &&
        !vtb_starts_with(f->return_names[r], "d:"))
      u->logits = f->n_args + r;
  }
}

bool vtb__cuda_update_layout(vtb_cuda *c, const vtb_func *entry) {
  update *u = VTB_NEW(&c->arena, update);
  u->entry = entry;
  u->rule = c->options->update;
  u->average = c->options->average;
  c->update = u;
  find_tensors(u);
  if (u->loss < 0 || u->logits < 0 || u->labels < 0) {
    vtb_fail(c->err, VTB_E_INPUT,
             "@%s is no training step of a classifier: it cannot update parameters", entry->name);
    return false;
  }
  place_slots(c, u);
  if (!u->n_trained)
    vtb_fail(c->err, VTB_E_INPUT, "@%s has no gradients: there is nothing to update", entry->name);
  u->scalars = entry->n_args + entry->n_returns;
  u->result = u->scalars + 1;
  return u->n_trained > 0;
}

/* ---- kernels --------------------------------------------------------------------------------- */

/* Four numbers a piece: first four, fours, slot, kind. */
static int32_t *make_table(const update *u, int n_slots, int *n_pieces) {
  VTB_VEC(int32_t) v = {0};
  for (int s = 0; s < n_slots; s++) {
    const slot *x = &u->slots[s];
    for (int64_t done = 0; done < x->count; done += PIECE) {
      int64_t left = x->count - done < PIECE ? x->count - done : PIECE;
      const int32_t row[4] = {(int32_t)((x->at + done) / 4), (int32_t)((left + 3) / 4), s,
                              (int32_t)x->kind};
      for (int i = 0; i < 4; i++) vtb_vec_push(&v, row[i]);
    }
  }
  *n_pieces = (int)v.n / 4;
  return v.at;
}

static void use_region(vtb_cuda_kernel *k, const update *u, region r, const char *name,
                       int access) {
  vtb_cuda_ref ref = {
      .place = VTB_CUDA_STATE, .value = -1, .offset = u->begin[r], .bytes = u->size[r]};
  vtb__cuda_use_ref(k, ref, "float", name, access);
}

/* A tensor of the program as a whole. */
static void use_tensor(vtb_cuda_kernel *k, int tensor, int64_t count, const char *type,
                       const char *name, int access) {
  vtb_cuda_ref ref = {.place = VTB_CUDA_ARG, .index = tensor, .bytes = count * 4};
  vtb__cuda_use_ref(k, ref, type, name, access);
}

static void emit_norm(vtb_cuda *c, const update *u, const int32_t *table, int n_pieces, int parts) {
  vtb_cuda_kernel *k = vtb_cuda_begin_text(c, "grad_norm", "update_norm.cu", THREADS);
  use_region(k, u, GRADS, "g", VTB_LAUNCH_READ);
  vtb_cuda_table_i32(k, table, (size_t)n_pieces * 4, "table");
  vtb_cuda_temp_out(k, parts, "double", "parts");
  vtb_cuda_launch(k, n_pieces);
}

static void emit_hits(vtb_cuda *c, const update *u, int hits) {
  const vtb_type *t = &u->entry->returns[u->logits - u->entry->n_args]->type;
  int64_t batch = t->dim[0].size, classes = t->dim[1].size;
  vtb_cuda_kernel *k = vtb_cuda_begin_text(c, "hits", "update_hits.cu", THREADS);
  use_tensor(k, u->logits, batch * classes, "float", "logits", VTB_LAUNCH_READ);
  use_tensor(k, u->labels, batch, "int", "labels", VTB_LAUNCH_READ);
  vtb_cuda_temp_out(k, hits, "float", "hits");
  VTB_CUDA_NUMBERS(k, {"BATCH", batch}, {"CLASSES", classes});
  vtb_cuda_launch(k, (batch + THREADS / 32 - 1) / (THREADS / 32));
}

static int64_t n_scalars(const update *u) { return VTB_SCALAR_RATES + 2 * (int64_t)u->n_trained; }

static void emit_verdict(vtb_cuda *c, const update *u, const int32_t *table, int n_pieces,
                         const int temps[3]) {
  int64_t batch = u->entry->args[u->labels]->type.dim[0].size;
  vtb_cuda_kernel *k = vtb_cuda_begin_text(c, "verdict", "update_verdict.cu", THREADS);
  vtb_cuda_temp_in(k, temps[0], "double", "parts");
  vtb_cuda_temp_in(k, temps[1], "float", "hits");
  use_tensor(k, u->loss, 1, "float", "loss", VTB_LAUNCH_READ);
  use_tensor(k, u->scalars, n_scalars(u), "float", "scalars", VTB_LAUNCH_READ);
  vtb_cuda_table_i32(k, table, (size_t)n_pieces * 4, "table");
  vtb_cuda_temp_out(k, temps[2], "float", "control");
  use_tensor(k, u->result, VTB_N_RESULTS, "float", "result", VTB_LAUNCH_WRITE);
  VTB_CUDA_NUMBERS(k, {"PIECES", n_pieces}, {"BATCH", batch}, {"UNSCALE", VTB_SCALAR_UNSCALE},
                   {"CLIP", VTB_SCALAR_CLIP}, {"NORM", VTB_RESULT_NORM},
                   {"COUNTS", VTB_RESULT_COUNTS}, {"CORRECT", VTB_RESULT_CORRECT},
                   {"CULPRIT", VTB_RESULT_CULPRIT});
  vtb_cuda_launch(k, 1);
}

static void fill_scalars(const update *u, vtb_cuda_kernel *k) {
  VTB_CUDA_NUMBERS(k, {"AVERAGE", VTB_SCALAR_AVERAGE}, {"AVERAGE_REST", VTB_SCALAR_AVERAGE_REST},
                   {"RATES", VTB_SCALAR_RATES});
  vtb_cuda_fill(k, "average", "%s",
                u->average
                    ? "if (kind != 2) vtb_store4(e, at, d * vtb_load4(e, at) + d_rest * now);"
                    : "(void)d, (void)d_rest;");
  if (u->rule == VTB_UPDATE_ADAMW)
    VTB_CUDA_NUMBERS(k, {"BETA1", VTB_SCALAR_BETA1}, {"REST1", VTB_SCALAR_REST1},
                     {"BETA2", VTB_SCALAR_BETA2}, {"REST2", VTB_SCALAR_REST2},
                     {"EPS", VTB_SCALAR_EPS}, {"ROOT", VTB_SCALAR_ROOT});
  else
    VTB_CUDA_NUMBERS(k, {"MOMENTUM", VTB_SCALAR_MOMENTUM}, {"GAIN", VTB_SCALAR_GAIN},
                     {"AHEAD", VTB_SCALAR_AHEAD}, {"DIRECT", VTB_SCALAR_DIRECT});
}

static void emit_rule(vtb_cuda *c, const update *u, const int32_t *table, int n_pieces,
                      int control) {
  const int both = VTB_LAUNCH_READ | VTB_LAUNCH_WRITE;
  bool adamw = u->rule == VTB_UPDATE_ADAMW;
  vtb_cuda_kernel *k = adamw ? vtb_cuda_begin_text(c, "adamw", "update_adamw.cu", THREADS)
                             : vtb_cuda_begin_text(c, "sgd", "update_sgd.cu", THREADS);
  use_region(k, u, VALUES, "p", both);
  use_region(k, u, GRADS, "g", VTB_LAUNCH_READ);
  use_region(k, u, MOMENT1, "m", both);
  if (adamw) use_region(k, u, MOMENT2, "v", both);
  if (u->average) use_region(k, u, AVERAGES, "e", both);
  vtb_cuda_table_i32(k, table, (size_t)n_pieces * 4, "table");
  use_tensor(k, u->scalars, n_scalars(u), "float", "scalars", VTB_LAUNCH_READ);
  vtb_cuda_temp_in(k, control, "float", "control");
  fill_scalars(u, k);
  vtb_cuda_launch(k, n_pieces);
}

void vtb__cuda_emit_update(vtb_cuda *c) {
  const update *u = c->update;
  if (c->func->steps_of->func != u->entry) return;
  int n_moved = 0, n_pieces, n_trained_pieces;
  while (n_moved < u->n_slots && u->slots[n_moved].kind != FIXED) n_moved++;
  int32_t *table = make_table(u, n_moved, &n_pieces),
          *trained = make_table(u, u->n_trained, &n_trained_pieces);
  vtb__cuda_begin_unit(c, "update");
  const int temps[] = {vtb_cuda_temp(c, (int64_t)n_trained_pieces * 8),
                       vtb_cuda_temp(c, u->entry->args[u->labels]->type.dim[0].size * 4),
                       vtb_cuda_temp(c, 8)};
  emit_norm(c, u, trained, n_trained_pieces, temps[0]);
  emit_hits(c, u, temps[1]);
  emit_verdict(c, u, trained, n_trained_pieces, temps);
  emit_rule(c, u, table, n_pieces, temps[2]);
  vtb__cuda_end_unit(c);
  vtb_free(table);
  vtb_free(trained);
}

/* ---- tensors --------------------------------------------------------------------------------- */

static void add_tensor(vtb_launch_plan *p, const char *name, vtb_io io, int64_t count,
                       int64_t place) {
  p->place[p->n_tensors] = place;
  p->tensors[p->n_tensors++] = (vtb_tensor_info){.name = name, .io = io, .rank = 1, .dim = {count}};
}

static void add_state(const update *u, vtb_launch_plan *p, const char *kind, region r,
                      const slot *s) {
  const char *name = vtb_arena_printf(&p->arena, "%s/%s", kind, p->tensors[s->arg].name);
  add_tensor(p, name, VTB_IO_STATE, s->count, u->begin[r] + s->at * 4);
}

void vtb__cuda_update_tensors(const vtb_cuda *c, vtb_launch_plan *p) {
  const update *u = c->update;
  int n = p->n_tensors, most = n + 2 + 3 * u->n_slots;
  bool adamw = u->rule == VTB_UPDATE_ADAMW;
  vtb_tensor_info *tensors = VTB_NEW_ARRAY(&p->arena, vtb_tensor_info, most);
  memcpy(tensors, p->tensors, (size_t)n * sizeof *tensors);
  p->tensors = tensors;
  p->place = VTB_NEW_ARRAY(&p->arena, int64_t, most);
  for (int i = 0; i < n; i++) p->place[i] = -1;
  p->place[u->logits] = u->begin[LOGITS];
  add_tensor(p, VTB_UPDATE_SCALARS, VTB_IO_INPUT, n_scalars(u), -1);
  add_tensor(p, VTB_UPDATE_RESULT, VTB_IO_OUTPUT, VTB_N_RESULTS, -1);
  for (int i = 0; i < u->n_slots; i++) {
    const slot *s = &u->slots[i];
    p->place[s->arg] = u->begin[VALUES] + s->at * 4;
    if (s->result >= 0) p->place[s->result] = u->begin[GRADS] + s->at * 4;
    if (s->kind == TRAINED) add_state(u, p, adamw ? "optim/m" : "optim/momentum", MOMENT1, s);
    if (s->kind == TRAINED && adamw) add_state(u, p, "optim/v", MOMENT2, s);
    if (u->average && s->kind <= AVERAGED) add_state(u, p, "ema", AVERAGES, s);
  }
  p->state_bytes = u->begin[LOGITS] + (u->size[LOGITS] + 255) / 256 * 256;
}
