/* See optim.h. */
#include "runtime/train/optim.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char updated[] = "updated.", average_of[] = "ema/";

struct vtb_optim {
  const vtb_program *program;
  void **args;
  enum { GIVEN, OWNED, SHARED } * made; /* by tensor: who made its buffer */
  int scalars, rates, verdict, correct, share;
  int *trained, n_trained;   /* numbers of tensors */
  int *row, n_rows;          /* of the rates, one a trained tensor; -1: another rank updates it */
  char name[VTB_OPTIM_NAME]; /* the optimiser's */
  double clip_norm, ema_decay, average; /* average: the factor of the next update */
  int64_t steps, ahead;
};

bool vtb_optim_is_inside(const vtb_program *p) {
  return vtb_program_find(p, VTB_UPDATE_SCALARS) >= 0;
}

bool vtb_optim_has_averages(const vtb_program *p) {
  for (int i = 0; i < p->n_tensors; i++)
    if (p->tensors[i].io == VTB_IO_STATE && vtb_starts_with(p->tensors[i].name, average_of))
      return true;
  return false;
}

/* ---- scalars ---- */

/* A double is two floats to 48 bits. */
static void put_scalar(vtb_optim *o, int row, double v) {
  float *at = (float *)o->args[o->scalars] + 2 * row;
  at[0] = (float)v;
  at[1] = isfinite(v) ? (float)(v - (double)at[0]) : 0;
}

/* A word of the scalars' initialiser behind the optimiser's name: "t", ..., "beta1=0.9". */
typedef struct row {
  int number;               /* -1 before the first */
  const char *name, *value; /* in the text; value NULL: no hyperparameter */
  size_t length;            /* of the name */
} row;

static row first_row(const vtb_program *p, int scalars) {
  return (row){.number = -1, .name = p->tensors[scalars].init};
}

static bool next_row(row *r) {
  r->name += strcspn(r->name, " ");
  r->name += strspn(r->name, " ");
  r->number++;
  r->length = strcspn(r->name, " =");
  r->value = r->name[r->length] == '=' ? r->name + r->length + 1 : NULL;
  return *r->name != 0;
}

static bool is_named(const row *r, const char *name) {
  return r->value && strlen(name) == r->length && strncmp(name, r->name, r->length) == 0;
}

bool vtb_optim_default(const vtb_program *p, const char *name, double *value) {
  int scalars = vtb_program_find(p, VTB_UPDATE_SCALARS);
  if (scalars < 0 || !p->tensors[scalars].init) return false;
  for (row r = first_row(p, scalars); next_row(&r);) {
    if (!is_named(&r, name)) continue;
    *value = strtod(r.value, NULL);
    return true;
  }
  return false;
}

void vtb_optim_name(const vtb_program *p, char name[VTB_OPTIM_NAME]) {
  int scalars = vtb_program_find(p, VTB_UPDATE_SCALARS);
  const char *init = scalars < 0 ? NULL : p->tensors[scalars].init;
  snprintf(name, VTB_OPTIM_NAME, "%.*s", init ? (int)strcspn(init, " ") : 0, init ? init : "");
}

static vtb_status unknown_setting(const vtb_optim *o, const char *name, vtb_error *err) {
  char names[256] = "";
  size_t n = 0;
  for (row r = first_row(o->program, o->scalars); next_row(&r) && n < sizeof names;)
    if (r.value)
      n += (size_t)snprintf(names + n, sizeof names - n, "%s%.*s", n ? ", " : "", (int)r.length,
                            r.name);
  return vtb_fail(err, VTB_E_INPUT, "optimiser %s has no hyperparameter %s: there are %s", o->name,
                  name, n ? names : "none");
}

static vtb_status take_setting(vtb_optim *o, const vtb_setting *s, vtb_error *err) {
  if (!isfinite(s->value))
    return vtb_fail(err, VTB_E_INPUT, "optimiser: %s is not a number", s->name);
  for (row r = first_row(o->program, o->scalars); next_row(&r);) {
    if (!is_named(&r, s->name)) continue;
    put_scalar(o, r.number, s->value);
    return VTB_OK;
  }
  return unknown_setting(o, s->name, err);
}

static vtb_status take_settings(vtb_optim *o, const vtb_optim_config *c, vtb_error *err) {
  vtb_status status = VTB_OK;
  for (row r = first_row(o->program, o->scalars); next_row(&r);)
    if (r.value) put_scalar(o, r.number, strtod(r.value, NULL));
  for (int i = 0; i < c->n_settings && status == VTB_OK; i++)
    status = take_setting(o, &c->settings[i], err);
  return status;
}

static vtb_status check_config(const vtb_optim_config *c, vtb_error *err) {
  if (!(c->ema_decay >= 0 && c->ema_decay < 1))
    return vtb_fail(err, VTB_E_INPUT, "optimiser: EMA decay must be from 0 to below 1, it is %g",
                    c->ema_decay);
  if (!(c->clip_norm >= 0) || isinf(c->clip_norm))
    return vtb_fail(err, VTB_E_INPUT, "optimiser: clip norm must not be negative, it is %g",
                    c->clip_norm);
  return VTB_OK;
}

/* ---- opening ---- */

/* "<name> t lr ...": as many words as rows behind the name. */
static bool well_formed(const vtb_tensor_info *scalars) {
  int64_t words = 0;
  for (const char *s = scalars->init ? scalars->init : ""; *s; s += strcspn(s, " "))
    words += *(s += strspn(s, " ")) != 0;
  return scalars->io == VTB_IO_INPUT && !scalars->is_int && scalars->rank == 2 &&
         scalars->dim[1] == 2 && scalars->dim[0] >= VTB_N_SCALARS && words == scalars->dim[0] + 1;
}

static vtb_status find_tensors(vtb_optim *o, vtb_error *err) {
  const vtb_program *p = o->program;
  o->scalars = vtb_program_find(p, VTB_UPDATE_SCALARS);
  o->rates = vtb_program_find(p, VTB_UPDATE_RATES);
  o->verdict = vtb_program_find(p, VTB_UPDATE_VERDICT);
  o->correct = vtb_program_find(p, VTB_UPDATE_CORRECT);
  o->share = vtb_program_find(p, VTB_UPDATE_SHARE);
  if (o->scalars < 0)
    return vtb_fail(err, VTB_E_INPUT,
                    "the training program does not update its parameters: it was made without an "
                    "optimiser, or by an earlier version; build it anew");
  if (o->verdict < 0 || !well_formed(&p->tensors[o->scalars]) ||
      vtb_tensor_info_count(&p->tensors[o->verdict]) != VTB_N_VERDICT)
    return vtb_fail(err, VTB_E_INPUT,
                    "the training program updates its parameters in a way that is not known here");
  return VTB_OK;
}

/* The tensor whose name is the two together, -1: none. */
static int find_tensor(const vtb_program *p, const char *prefix, const char *name) {
  size_t n = strlen(prefix);
  for (int i = 0; i < p->n_tensors; i++)
    if (strncmp(p->tensors[i].name, prefix, n) == 0 && strcmp(p->tensors[i].name + n, name) == 0)
      return i;
  return -1;
}

static vtb_status find_trained(vtb_optim *o, vtb_error *err) {
  const vtb_program *p = o->program;
  for (int i = 0; i < p->n_tensors; i++) {
    if (p->tensors[i].io != VTB_IO_PARAM || p->tensors[i].is_int) continue;
    int g = find_tensor(p, "d:", p->tensors[i].name);
    if (g < 0) continue;
    if (vtb_tensor_info_count(&p->tensors[g]) != vtb_tensor_info_count(&p->tensors[i]))
      return vtb_fail(err, VTB_E_INPUT, "gradient %s has another size than its parameter",
                      p->tensors[g].name);
    bool own = find_tensor(p, updated, p->tensors[i].name) >= 0;
    o->row[o->n_trained] = own ? o->n_rows++ : -1;
    o->trained[o->n_trained++] = i;
  }
  if (!o->n_trained) return vtb_fail(err, VTB_E_INPUT, "the training program has no gradients");
  int64_t rates = o->rates < 0 ? 0 : vtb_tensor_info_count(&p->tensors[o->rates]);
  if (rates != 2 * (int64_t)o->n_rows)
    return vtb_fail(err, VTB_E_INPUT,
                    "the training program updates another number of parameters than it has");
  return VTB_OK;
}

static bool allocate(vtb_optim *o, int i) {
  if (i < 0 || o->args[i]) return true;
  size_t bytes = (size_t)vtb_tensor_info_count(&o->program->tensors[i]) * 4;
  o->args[i] = vtb_aligned_alloc(bytes);
  o->made[i] = o->args[i] ? OWNED : GIVEN;
  if (o->args[i]) memset(o->args[i], 0, bytes);
  return o->args[i] != NULL;
}

static vtb_status allocate_all(vtb_optim *o, vtb_error *err) {
  const int own[] = {o->scalars, o->rates, o->verdict, o->correct, o->share};
  bool enough = true;
  for (int i = 0; i < 5; i++) enough = enough && allocate(o, own[i]);
  for (int i = 0; i < o->program->n_tensors && enough; i++)
    if (o->program->tensors[i].io == VTB_IO_STATE) enough = allocate(o, i);
  if (enough) return VTB_OK;
  return vtb_no_memory(err, "the optimiser's state");
}

/* After a run a parameter, buffer or state is what its update says, in the same memory. */
static vtb_status share_updates(vtb_optim *o, vtb_error *err) {
  const vtb_program *p = o->program;
  for (int i = 0; i < p->n_tensors; i++) {
    const vtb_tensor_info *from = &p->tensors[i];
    if (from->io != VTB_IO_UPDATE) continue;
    int at = vtb_program_find(p, from->name + strlen(updated));
    const vtb_tensor_info *to = at < 0 ? NULL : &p->tensors[at];
    if (!to || to->is_int != from->is_int ||
        vtb_tensor_info_count(to) != vtb_tensor_info_count(from))
      return vtb_fail(err, VTB_E_INPUT, "%s is no update of a tensor of the training program",
                      from->name);
    if (o->args[i]) continue;
    o->args[i] = o->args[at];
    o->made[i] = SHARED;
  }
  return VTB_OK;
}

/* Not so where other ranks update all tensors. */
static bool updates_any(const vtb_program *p) {
  for (int i = 0; i < p->n_tensors; i++)
    if (p->tensors[i].io == VTB_IO_UPDATE) return true;
  return false;
}

static vtb_status check_program(vtb_optim *o, const vtb_optim_config *c, vtb_error *err) {
  bool averages = vtb_optim_has_averages(o->program);
  if (c->name && !vtb_streq(c->name, o->name))
    return vtb_fail(err, VTB_E_INPUT,
                    "the training program updates its parameters by %s, these settings want %s",
                    o->name, c->name);
  if (averages == (c->ema_decay > 0) || !updates_any(o->program)) return VTB_OK;
  return vtb_fail(err, VTB_E_INPUT, "the training program was made %s averages of its weights",
                  averages ? "with" : "without");
}

static void set_rates(vtb_optim *o) {
  for (int i = 0; i < o->n_trained; i++) {
    vtb_optim_set_rate(o, i, 1);
    if (o->row[i] >= 0)
      ((float *)o->args[o->rates])[2 * o->row[i] + 1] = o->program->tensors[o->trained[i]].decay;
  }
}

static vtb_status prepare(vtb_optim *o, const vtb_optim_config *c, vtb_error *err) {
  size_t n = (size_t)o->program->n_tensors + 1;
  o->made = calloc(n, sizeof *o->made);
  o->trained = calloc(n, sizeof *o->trained);
  o->row = calloc(n, sizeof *o->row);
  if (!o->made || !o->trained || !o->row) return vtb_no_memory(err, "the optimiser");
  VTB_TRY(check_config(c, err));
  VTB_TRY(find_tensors(o, err));
  VTB_TRY(find_trained(o, err));
  VTB_TRY(check_program(o, c, err));
  VTB_TRY(allocate_all(o, err));
  VTB_TRY(share_updates(o, err));
  set_rates(o);
  vtb_optim_piece(o, 0, 1);
  return take_settings(o, c, err);
}

vtb_status vtb_optim_open(const vtb_program *p, void **args, const vtb_optim_config *config,
                          vtb_optim **out, vtb_error *err) {
  vtb_optim *o = calloc(1, sizeof *o);
  if (!o) return vtb_no_memory(err, "the optimiser");
  o->program = p;
  o->args = args;
  o->clip_norm = config->clip_norm;
  o->ema_decay = o->average = config->ema_decay;
  vtb_optim_name(p, o->name);
  vtb_status status = prepare(o, config, err);
  if (status == VTB_OK)
    *out = o;
  else
    vtb_optim_free(o);
  return status;
}

void vtb_optim_free(vtb_optim *o) {
  if (!o) return;
  for (int i = 0; o->made && i < o->program->n_tensors; i++) {
    if (o->made[i] == OWNED) free(o->args[i]);
    if (o->made[i] != GIVEN) o->args[i] = NULL;
  }
  free(o->made);
  free(o->trained);
  free(o->row);
  free(o);
}

float *vtb_optim_average(const vtb_optim *o, int tensor) {
  int i =
      o->ema_decay > 0 ? find_tensor(o->program, average_of, o->program->tensors[tensor].name) : -1;
  return i < 0 ? NULL : o->args[i];
}

void vtb_optim_begin_averages(vtb_optim *o) {
  const vtb_program *p = o->program;
  for (int i = 0; i < p->n_tensors; i++) {
    if (p->tensors[i].io != VTB_IO_STATE || !vtb_starts_with(p->tensors[i].name, average_of))
      continue;
    int of = vtb_program_find(p, p->tensors[i].name + strlen(average_of));
    if (of >= 0) memcpy(o->args[i], o->args[of], (size_t)vtb_tensor_info_count(&p->tensors[i]) * 4);
  }
}

int vtb_optim_n_trained(const vtb_optim *o) { return o->n_trained; }
int vtb_optim_trained(const vtb_optim *o, int i) { return o->trained[i]; }
int64_t vtb_optim_steps(const vtb_optim *o) { return o->steps; }

void vtb_optim_set_rate(vtb_optim *o, int i, double factor) {
  if (o->row[i] >= 0) ((float *)o->args[o->rates])[2 * o->row[i]] = (float)factor;
}

bool vtb_optim_accumulates(const vtb_program *p) {
  return vtb_program_find(p, VTB_UPDATE_SHARE) >= 0;
}

void vtb_optim_piece(vtb_optim *o, int64_t piece, int64_t pieces) {
  float *share = o->share < 0 ? NULL : o->args[o->share];
  if (!share) return;
  share[0] = (float)(1 / (double)pieces);
  share[1] = piece == pieces - 1;
}

/* ---- a step ---- */

void vtb_optim_run_ahead(vtb_optim *o, int64_t n) { o->ahead = n; }

vtb_status vtb_optim_follow(vtb_optim *o, const vtb_pace *pace, vtb_error *err) {
  const vtb_setting decay = {"decay", pace->decay};
  if (!isnan(pace->ema) && !(o->ema_decay > 0))
    return vtb_fail(err, VTB_E_INPUT,
                    "the schedule sets ema, and no weights are averaged: --ema D");
  if (!isnan(pace->ema)) o->average = pace->ema;
  return isnan(pace->decay) ? VTB_OK : take_setting(o, &decay, err);
}

void vtb_optim_prepare(vtb_optim *o, double lr, double scale) {
  put_scalar(o, VTB_SCALAR_STEP, (double)(o->steps + o->ahead) + 1);
  put_scalar(o, VTB_SCALAR_LR, lr);
  put_scalar(o, VTB_SCALAR_AVERAGE, o->average);
  put_scalar(o, VTB_SCALAR_CLIP, o->clip_norm);
  put_scalar(o, VTB_SCALAR_SCALE, scale);
}

int64_t vtb_optim_correct(const vtb_optim *o, int64_t n) {
  const float *right = o->correct < 0 ? NULL : o->args[o->correct];
  int64_t correct = 0;
  for (int64_t i = 0; right && i < n; i++) correct += right[i] != 0;
  return correct;
}

vtb_status vtb_optim_judge(vtb_optim *o, int64_t n, double *grad_norm, int64_t *correct,
                           vtb_error *err) {
  const float *verdict = o->args[o->verdict];
  int culprit = (int)verdict[VTB_VERDICT_CULPRIT];
  if (verdict[VTB_VERDICT_COUNTS] == 0)
    return vtb_fail(err, VTB_E_NUMBERS, "the gradient of %s is not finite at update %lld",
                    culprit >= 0 && culprit < o->n_trained
                        ? o->program->tensors[o->trained[culprit]].name
                        : "(sum)",
                    (long long)o->steps);
  if (grad_norm) *grad_norm = (double)verdict[VTB_VERDICT_NORM];
  if (correct) *correct = vtb_optim_correct(o, n);
  o->steps++;
  return VTB_OK;
}

/* ---- state in a store ---- */

/* A tensor that is zero between updates is not kept. */
static bool is_kept(const vtb_tensor_info *t) {
  return t->io == VTB_IO_STATE && !vtb_starts_with(t->name, VTB_ACCUMULATED);
}

void vtb_optim_save(const vtb_optim *o, vtb_weights *w) {
  char text[32];
  vtb_weights_set_meta(w, "optim.kind", o->name);
  snprintf(text, sizeof text, "%lld", (long long)o->steps);
  vtb_weights_set_meta(w, "optim.steps", text);
  for (int i = 0; i < o->program->n_tensors; i++) {
    const vtb_tensor_info *t = &o->program->tensors[i];
    int64_t count = vtb_tensor_info_count(t);
    if (is_kept(t)) vtb_weights_borrow(w, t->name, VTB_ELEM_F32, 1, &count, o->args[i]);
  }
}

static vtb_status load_one(const vtb_weights *w, const vtb_tensor_info *info, float *to,
                           vtb_error *err) {
  const vtb_weight *t = vtb_weights_find(w, info->name);
  int64_t count = vtb_tensor_info_count(info);
  if (!t) return vtb_fail(err, VTB_E_INPUT, "checkpoint: tensor %s is missing", info->name);
  if (t->count != count)
    return vtb_fail(err, VTB_E_INPUT, "checkpoint: tensor %s has %lld elements, not %lld",
                    info->name, (long long)t->count, (long long)count);
  vtb_weight_read_f32(t, to);
  return VTB_OK;
}

vtb_status vtb_optim_load(vtb_optim *o, const vtb_weights *w, vtb_error *err) {
  const char *kind = vtb_weights_meta(w, "optim.kind"), *steps = vtb_weights_meta(w, "optim.steps");
  if (!vtb_streq(kind, o->name))
    return vtb_fail(err, VTB_E_INPUT, "checkpoint: written by optimiser %s, this run uses %s",
                    kind ? kind : "(none)", o->name);
  char *end = NULL;
  long long n = steps ? strtoll(steps, &end, 10) : -1;
  if (n < 0 || *end)
    return vtb_fail(err, VTB_E_INPUT, "checkpoint: optim.steps is missing or not a number");
  vtb_status status = VTB_OK;
  for (int i = 0; i < o->program->n_tensors && status == VTB_OK; i++)
    if (is_kept(&o->program->tensors[i]))
      status = load_one(w, &o->program->tensors[i], o->args[i], err);
  if (status == VTB_OK) o->steps = n;
  return status;
}
