/* Optimisers over a list of parameters cut into pieces of fixed size.
 *
 * Pieces are the unit of work and of summation: which thread takes a piece changes nothing, because
 * every piece writes its own elements and its own partial sum, and partial sums are added in piece
 * order.
 */
#include "runtime/train/optim.h"

#include "runtime/train/update.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE = 1 << 14, MAX_STATES = 2 };

typedef struct piece {
  int param;
  int64_t begin, end;
} piece;

struct vtb_optim {
  vtb_optim_config config;
  const vtb_services *services;
  vtb_optim_param *params; /* names are copies */
  int n_params;
  float **state[MAX_STATES]; /* [state][param] */
  float **ema;               /* NULL without */
  piece *pieces;
  int64_t n_pieces;
  double *sums; /* one a piece */
  int64_t steps;
  double scale; /* of the gradients */
};

static const char *const state_names[2][MAX_STATES] = {
    [VTB_OPTIM_ADAMW] = {"m", "v"},
    [VTB_OPTIM_SGD] = {"momentum", NULL},
};
static const char *const kind_names[] = {[VTB_OPTIM_ADAMW] = "adamw", [VTB_OPTIM_SGD] = "sgd"};

vtb_optim_config vtb_optim_defaults(vtb_optim_kind kind) {
  vtb_optim_config c = {.kind = kind, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .momentum = 0.9};
  c.weight_decay = kind == VTB_OPTIM_ADAMW ? 0.05 : 0;
  return c;
}

/* ---- making ---------------------------------------------------------------------------------- */

static int n_states(const vtb_optim_config *c) {
  if (c->kind == VTB_OPTIM_ADAMW) return 2;
  return c->momentum != 0 ? 1 : 0;
}

/* A zeroed buffer a parameter; false when out of memory. */
static bool make_buffers(const vtb_optim *o, float ***out) {
  *out = calloc((size_t)o->n_params, sizeof **out);
  if (!*out) return false;
  for (int i = 0; i < o->n_params; i++) {
    size_t bytes = (size_t)o->params[i].count * sizeof(float);
    (*out)[i] = vtb_aligned_alloc(bytes);
    if (!(*out)[i]) return false;
    memset((*out)[i], 0, bytes);
  }
  return true;
}

/* False when out of memory. */
static bool cut_pieces(vtb_optim *o) {
  VTB_VEC(piece) v = {0};
  bool enough = true;
  for (int i = 0; i < o->n_params; i++)
    for (int64_t at = 0; enough && at < o->params[i].count; at += PIECE) {
      int64_t end = at + PIECE < o->params[i].count ? at + PIECE : o->params[i].count;
      enough = vtb_vec_try_push(&v, ((piece){i, at, end}));
    }
  o->pieces = v.at;
  o->n_pieces = (int64_t)v.n;
  o->sums = calloc(v.n + 1, sizeof *o->sums);
  return enough && o->sums;
}

static vtb_status check_config(const vtb_optim_config *c, vtb_error *err) {
  const struct {
    const char *name;
    double value;
    bool fraction;
  } numbers[] = {{"beta1", c->beta1, true},         {"beta2", c->beta2, true},
                 {"momentum", c->momentum, true},   {"EMA decay", c->ema_decay, true},
                 {"epsilon", c->eps, false},        {"weight decay", c->weight_decay, false},
                 {"clip norm", c->clip_norm, false}};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    if (!(numbers[i].value >= 0) || isinf(numbers[i].value))
      return vtb_fail(err, VTB_E_INPUT, "optimiser: %s must not be negative, it is %g",
                      numbers[i].name, numbers[i].value);
    if (numbers[i].fraction && !(numbers[i].value < 1))
      return vtb_fail(err, VTB_E_INPUT, "optimiser: %s must be below 1, it is %g", numbers[i].name,
                      numbers[i].value);
  }
  return VTB_OK;
}

/* False when out of memory. */
static bool allocate(vtb_optim *o, const vtb_optim_param *params, int n_params) {
  o->params = calloc((size_t)n_params, sizeof *o->params);
  if (!o->params) return false;
  o->n_params = n_params;
  for (int i = 0; i < n_params; i++) {
    o->params[i] = params[i];
    o->params[i].name = NULL;
    if (o->params[i].lr_scale == 0) o->params[i].lr_scale = 1;
  }
  bool enough = cut_pieces(o);
  for (int i = 0; enough && i < n_params; i++)
    enough = (o->params[i].name = strdup(params[i].name)) != NULL;
  for (int s = 0; enough && s < n_states(&o->config); s++) enough = make_buffers(o, &o->state[s]);
  return enough && (o->config.ema_decay <= 0 || make_buffers(o, &o->ema));
}

vtb_status vtb_optim_new(const vtb_optim_config *config, const vtb_optim_param *params,
                         int n_params, const vtb_services *services, vtb_optim **out,
                         vtb_error *err) {
  vtb_status status = check_config(config, err);
  if (status != VTB_OK) return status;
  vtb_optim *o = calloc(1, sizeof *o);
  if (o) *o = (vtb_optim){.config = *config, .services = services, .scale = 1};
  if (!o || !allocate(o, params, n_params)) {
    vtb_optim_free(o);
    return vtb_no_memory(err, "the optimiser's state");
  }
  for (int i = 0; o->ema && i < n_params; i++)
    memcpy(o->ema[i], params[i].value, (size_t)params[i].count * sizeof(float));
  *out = o;
  return VTB_OK;
}

static void free_buffers(const vtb_optim *o, float **buffers) {
  for (int i = 0; buffers && i < o->n_params; i++) free(buffers[i]);
  free(buffers);
}

void vtb_optim_free(vtb_optim *o) {
  if (!o) return;
  for (int s = 0; s < MAX_STATES; s++) free_buffers(o, o->state[s]);
  free_buffers(o, o->ema);
  for (int i = 0; i < o->n_params; i++) free((void *)(uintptr_t)o->params[i].name);
  free(o->params);
  free(o->pieces);
  free(o->sums);
  free(o);
}

int64_t vtb_optim_steps(const vtb_optim *o) { return o->steps; }
void vtb_optim_set_scale(vtb_optim *o, double scale) { o->scale = scale; }
float *vtb_optim_ema(const vtb_optim *o, int i) { return o->ema ? o->ema[i] : NULL; }

/* ---- gradient norm --------------------------------------------------------------------------- */

/* Eight running sums in double: independent chains for the processor, a fixed order for
 * reproducibility. */
static double sum_of_squares(const float *x, int64_t n) {
  double lane[8] = {0};
  int64_t i = 0;
  for (; i + 8 <= n; i += 8)
    for (int k = 0; k < 8; k++) lane[k] += (double)x[i + k] * (double)x[i + k];
  for (int k = 0; i < n; i++, k++) lane[k] += (double)x[i] * (double)x[i];
  return ((lane[0] + lane[1]) + (lane[2] + lane[3])) + ((lane[4] + lane[5]) + (lane[6] + lane[7]));
}

static void norm_task(void *closure, int64_t begin, int64_t end) {
  vtb_optim *o = closure;
  for (int64_t i = begin; i < end; i++) {
    const piece *p = &o->pieces[i];
    o->sums[i] = sum_of_squares(o->params[p->param].grad + p->begin, p->end - p->begin);
  }
}

static double gradient_norm(vtb_optim *o) {
  o->services->parallel(o->services, norm_task, o, o->n_pieces, 1);
  double sum = 0;
  for (int64_t i = 0; i < o->n_pieces; i++) sum += o->sums[i];
  return sqrt(sum) / o->scale;
}

/* The first parameter with a gradient that is not finite, -1: none. */
static int culprit(const vtb_optim *o) {
  for (int64_t i = 0; i < o->n_pieces; i++)
    if (!isfinite(o->sums[i])) return o->pieces[i].param;
  return -1;
}

vtb_status vtb_optim_not_finite(const vtb_optim *o, int i, vtb_error *err) {
  const char *name = i >= 0 && i < o->n_params ? o->params[i].name : "(sum)";
  return vtb_fail(err, VTB_E_NUMBERS, "the gradient of %s is not finite at update %lld", name,
                  (long long)o->steps);
}

/* ---- updates --------------------------------------------------------------------------------- */

typedef struct update {
  vtb_optim *o;
  double lr, clip; /* clip: factor on the gradients */
} update;

/* The two factors of a parameter in the update that makes the steps t: on its value and on its
 * direction. */
static void adamw_rates(const vtb_optim *o, const vtb_optim_param *param, double rate, double t,
                        float *keep, float *size) {
  const vtb_optim_config *c = &o->config;
  double lr = rate * param->lr_scale;
  *keep = (float)(1 - lr * (param->decay ? c->weight_decay : 0));
  *size = (float)(lr / (1 - pow(c->beta1, t)));
}

static float adamw_root(const vtb_optim_config *c, double t) {
  return (float)(1 / sqrt(1 - pow(c->beta2, t)));
}

/* p *= 1 - lr wd; m = b1 m + (1-b1) g; v = b2 v + (1-b2) g^2; p -= lr/(1-b1^t) m /
 * (sqrt(v)/sqrt(1-b2^t) + eps)
 * source  Loshchilov and Hutter 2019, arXiv:1711.05101 */
static void adamw(const update *u, const piece *at) {
  const vtb_optim_config *c = &u->o->config;
  const vtb_optim_param *param = &u->o->params[at->param];
  float keep, size, root = adamw_root(c, (double)u->o->steps), clip = (float)u->clip,
                    eps = (float)c->eps;
  float b1 = (float)c->beta1, c1 = (float)(1 - c->beta1), b2 = (float)c->beta2,
        c2 = (float)(1 - c->beta2);
  adamw_rates(u->o, param, u->lr, (double)u->o->steps, &keep, &size);
  float *restrict p = param->value + at->begin, *restrict m = u->o->state[0][at->param] + at->begin;
  float *restrict v = u->o->state[1][at->param] + at->begin;
  const float *restrict g = param->grad + at->begin;
  int64_t n = at->end - at->begin;
  for (int64_t i = 0; i < n; i++) {
    float gi = g[i] * clip;
    float mi = b1 * m[i] + c1 * gi, vi = b2 * v[i] + c2 * (gi * gi);
    m[i] = mi;
    v[i] = vi;
    p[i] = p[i] * keep - size * mi / (sqrtf(vi) * root + eps);
  }
}

/* Of SGD in the update that makes the steps t: what enters the momentum of a gradient. */
static double sgd_gain(const vtb_optim_config *c, double t) {
  return t == 1 ? 1 : 1 - c->dampening;
}

static void sgd_rates(const vtb_optim *o, const vtb_optim_param *param, double rate, float *decay,
                      float *lr) {
  *decay = param->decay ? (float)o->config.weight_decay : 0;
  *lr = (float)(rate * param->lr_scale);
}

/* g += wd p; first step b = g, later b = mu b + (1 - dampening) g; p -= lr (nesterov ? g + mu b :
 * b) */
static void sgd(const update *u, const piece *at) {
  const vtb_optim_config *c = &u->o->config;
  const vtb_optim_param *param = &u->o->params[at->param];
  float lr, wd, clip = (float)u->clip, mu = (float)c->momentum,
                in = (float)sgd_gain(c, (double)u->o->steps);
  float ahead = c->nesterov ? mu : 1, direct = c->nesterov ? 1 : 0;
  sgd_rates(u->o, param, u->lr, &wd, &lr);
  float *restrict p = param->value + at->begin;
  const float *restrict g = param->grad + at->begin;
  int64_t n = at->end - at->begin;
  if (c->momentum == 0) {
    for (int64_t i = 0; i < n; i++) p[i] -= lr * (g[i] * clip + wd * p[i]);
    return;
  }
  float *restrict b = u->o->state[0][at->param] + at->begin;
  for (int64_t i = 0; i < n; i++) {
    float gi = g[i] * clip + wd * p[i], bi = mu * b[i] + in * gi;
    b[i] = bi;
    p[i] -= lr * (direct * gi + ahead * bi);
  }
}

static void average(const update *u, const piece *at) {
  float d = (float)u->o->config.ema_decay, c = (float)(1 - u->o->config.ema_decay);
  float *restrict e = u->o->ema[at->param] + at->begin;
  const float *restrict p = u->o->params[at->param].value + at->begin;
  int64_t n = at->end - at->begin;
  for (int64_t i = 0; i < n; i++) e[i] = d * e[i] + c * p[i];
}

static void update_task(void *closure, int64_t begin, int64_t end) {
  const update *u = closure;
  for (int64_t i = begin; i < end; i++) {
    const piece *at = &u->o->pieces[i];
    if (u->o->config.kind == VTB_OPTIM_ADAMW)
      adamw(u, at);
    else
      sgd(u, at);
    if (u->o->ema) average(u, at);
  }
}

vtb_status vtb_optim_step(vtb_optim *o, double lr, double *grad_norm, vtb_error *err) {
  double norm = gradient_norm(o);
  if (!isfinite(norm)) return vtb_optim_not_finite(o, culprit(o), err);
  o->steps++;
  double clip = o->config.clip_norm > 0 ? fmin(1, o->config.clip_norm / (norm + 1e-6)) : 1;
  update u = {o, lr, clip / o->scale};
  o->services->parallel(o->services, update_task, &u, o->n_pieces, 1);
  if (grad_norm) *grad_norm = norm;
  return VTB_OK;
}

/* ---- updates that a program does itself ------------------------------------------------------ */

static void adamw_scalars(const vtb_optim_config *c, double t, float *scalars) {
  scalars[VTB_SCALAR_BETA1] = (float)c->beta1, scalars[VTB_SCALAR_REST1] = (float)(1 - c->beta1);
  scalars[VTB_SCALAR_BETA2] = (float)c->beta2, scalars[VTB_SCALAR_REST2] = (float)(1 - c->beta2);
  scalars[VTB_SCALAR_EPS] = (float)c->eps, scalars[VTB_SCALAR_ROOT] = adamw_root(c, t);
}

static void sgd_scalars(const vtb_optim_config *c, double t, float *scalars) {
  scalars[VTB_SCALAR_MOMENTUM] = (float)c->momentum,
  scalars[VTB_SCALAR_GAIN] = (float)sgd_gain(c, t);
  scalars[VTB_SCALAR_AHEAD] = c->nesterov ? (float)c->momentum : 1;
  scalars[VTB_SCALAR_DIRECT] = c->nesterov ? 1 : 0;
}

void vtb_optim_scalars(const vtb_optim *o, double lr, float *scalars) {
  const vtb_optim_config *c = &o->config;
  double t = (double)o->steps + 1;
  bool is_adamw = c->kind == VTB_OPTIM_ADAMW;
  for (int i = 0; i < VTB_SCALAR_RATES; i++) scalars[i] = 0;
  (is_adamw ? adamw_scalars : sgd_scalars)(c, t, scalars);
  scalars[VTB_SCALAR_CLIP] = (float)c->clip_norm,
  scalars[VTB_SCALAR_UNSCALE] = (float)(1 / o->scale);
  scalars[VTB_SCALAR_AVERAGE] = (float)c->ema_decay,
  scalars[VTB_SCALAR_AVERAGE_REST] = (float)(1 - c->ema_decay);
  for (int i = 0; i < o->n_params; i++) {
    float *rates = &scalars[VTB_SCALAR_RATES + 2 * i];
    if (is_adamw)
      adamw_rates(o, &o->params[i], lr, t, &rates[0], &rates[1]);
    else
      sgd_rates(o, &o->params[i], lr, &rates[0], &rates[1]);
  }
}

void vtb_optim_count(vtb_optim *o) { o->steps++; }

/* ---- state in a store ------------------------------------------------------------------------ */

static int states_of_param(const vtb_optim *o) { return n_states(&o->config) + (o->ema != NULL); }

int vtb_optim_n_states(const vtb_optim *o) { return o->n_params * states_of_param(o); }

float *vtb_optim_state(const vtb_optim *o, int i, vtb_strbuf *name) {
  int each = states_of_param(o), param = i / each, state = i % each;
  bool is_state = state < n_states(&o->config);
  vtb_strbuf_format(name, "%s%s/%s", is_state ? "optim/" : "ema",
                    is_state ? state_names[o->config.kind][state] : "", o->params[param].name);
  return is_state ? o->state[state][param] : o->ema[param];
}

void vtb_optim_save(const vtb_optim *o, vtb_weights *w) {
  char text[32];
  vtb_strbuf name = VTB_CHECKED_STRBUF;
  vtb_weights_set_meta(w, "optim.kind", kind_names[o->config.kind]);
  snprintf(text, sizeof text, "%lld", (long long)o->steps);
  vtb_weights_set_meta(w, "optim.steps", text);
  for (int i = 0; i < vtb_optim_n_states(o) && !name.failed; i++) {
    const float *data = vtb_optim_state(o, i, &name);
    if (!name.failed)
      vtb_weights_borrow(w, name.at, VTB_ELEM_F32, 1, &o->params[i / states_of_param(o)].count,
                         data);
  }
  vtb_strbuf_check(&name, &w->error);
  vtb_strbuf_free(&name);
}

static vtb_status load_one(const vtb_weights *w, const char *name, int64_t count, float *to,
                           vtb_error *err) {
  const vtb_weight *t = vtb_weights_find(w, name);
  if (!t) return vtb_fail(err, VTB_E_INPUT, "checkpoint: tensor %s is missing", name);
  if (t->count != count)
    return vtb_fail(err, VTB_E_INPUT, "checkpoint: tensor %s has %lld elements, not %lld", name,
                    (long long)t->count, (long long)count);
  vtb_weight_read_f32(t, to);
  return VTB_OK;
}

vtb_status vtb_optim_load(vtb_optim *o, const vtb_weights *w, vtb_error *err) {
  const char *kind = vtb_weights_meta(w, "optim.kind"), *steps = vtb_weights_meta(w, "optim.steps");
  if (!vtb_streq(kind, kind_names[o->config.kind]))
    return vtb_fail(err, VTB_E_INPUT, "checkpoint: written by optimiser %s, this run uses %s",
                    kind ? kind : "(none)", kind_names[o->config.kind]);
  char *end = NULL;
  long long n = steps ? strtoll(steps, &end, 10) : -1;
  if (n < 0 || *end)
    return vtb_fail(err, VTB_E_INPUT, "checkpoint: optim.steps is missing or not a number");
  vtb_strbuf name = VTB_CHECKED_STRBUF;
  vtb_status status = VTB_OK;
  for (int i = 0; i < vtb_optim_n_states(o) && status == VTB_OK; i++) {
    float *data = vtb_optim_state(o, i, &name);
    status = vtb_strbuf_check(&name, err);
    if (status == VTB_OK)
      status = load_one(w, name.at, o->params[i / states_of_param(o)].count, data, err);
  }
  vtb_strbuf_free(&name);
  if (status == VTB_OK) o->steps = n;
  return status;
}
