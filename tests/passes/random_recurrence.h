/* Random recurrences as IR text: states, decays of every class, gains, normalizers, readouts,
 * initial states, paths. */
#ifndef VTB_TEST_RANDOM_RECURRENCE_H
#define VTB_TEST_RANDOM_RECURRENCE_H

#include "ir/recurrence.h"
#include "tests/passes/pass_check.h"

static inline int below(unsigned long long *rng, int n) {
  return (int)((test_random(rng) + 1) / 2 * n);
}

typedef struct config {
  int rank; /* of the main state: 0, 1, 2 */
  vtb_decay_class klass;
  int head_axes; /* 0, 1, 2 */
  int tokens, k, v;
  int decay_form; /* how the decay is written */
  bool gain, normalizer, reads_scale, read_whole, read_old, second_gain, transposed;
  int inits;                                /* 0, states, states + 1 */
  const char *path;                         /* or NULL */
  double gain_size, gain_shift, decay_size; /* of the inputs i and f; decay_size 0: 1 */
  double eps;                               /* of reads_scale; 0: 0.125 */
} config;

static inline const char *head_dims(const config *c) {
  return c->head_axes == 0 ? "" : c->head_axes == 1 ? ", h=3" : ", h=2, g=2";
}

static inline const char *state_dims(const config *c, char *buf) {
  if (c->rank == 2 && c->transposed)
    sprintf(buf, "%d, %d", c->v, c->k);
  else if (c->rank == 2)
    sprintf(buf, "%d, %d", c->k, c->v);
  else if (c->rank == 1)
    sprintf(buf, "%d", c->v);
  else
    buf[0] = '\0';
  return buf;
}

/* Shape of the decay input within the state's frame. */
static inline const char *decay_dims(const config *c, char *buf) {
  buf[0] = '\0';
  if (c->rank == 2) {
    bool key = c->klass == VTB_DECAY_KEY || c->klass == VTB_DECAY_FULL,
         value = c->klass == VTB_DECAY_VALUE || c->klass == VTB_DECAY_FULL;
    if (!key && !value) return buf;
    if (c->transposed)
      sprintf(buf, "%d, %d", value ? c->v : 1, key ? c->k : 1);
    else
      sprintf(buf, "%d, %d", key ? c->k : 1, value ? c->v : 1);
  } else if (c->rank == 1 && c->klass >= VTB_DECAY_KEY) {
    sprintf(buf, "%d", c->v);
  }
  return buf;
}

/* %d, the decay itself, from the raw input %f. */
static inline void put_decay(vtb_strbuf *s, const config *c, const char *dims) {
  if (c->decay_form == 0)
    vtb_strbuf_printf(s, "%%lf = log_sigmoid %%f : f32[%s]\n%%d = exp %%lf : f32[%s]\n", dims,
                      dims);
  if (c->decay_form == 1) vtb_strbuf_printf(s, "%%d = sigmoid %%f : f32[%s]\n", dims);
  if (c->decay_form == 2)
    vtb_strbuf_printf(s,
                      "%%sp = softplus %%f : f32[%s]\n%%np = neg %%sp : f32[%s]\n%%e = exp %%np : "
                      "f32[%s]\n%%half = "
                      "constant {value = 0.9} : "
                      "f32[]\n%%d = mul %%half, %%e : f32[%s]\n",
                      dims, dims, dims, dims);
}

static inline void put_update(vtb_strbuf *s, const config *c, const char *x) {
  char e[80];
  sprintf(e, "f32[%s]", x);
  vtb_strbuf_printf(s, "%%a = mul %%S, %%d : %s\n", e);
  if (c->rank == 2 && c->transposed)
    vtb_strbuf_printf(
        s, "%%v1 = reshape %%v {shape = [%d, 1]} : f32[%d, 1]\n%%u = mul %%v1, %%k : %s\n", c->v,
        c->v, e);
  else if (c->rank == 2)
    vtb_strbuf_printf(
        s, "%%k1 = reshape %%k {shape = [%d, 1]} : f32[%d, 1]\n%%u = mul %%k1, %%v : %s\n", c->k,
        c->k, e);
  else
    vtb_strbuf_printf(s, "%%u = mul %%v, %%w : %s\n", e);
  if (c->gain) vtb_strbuf_printf(s, "%%ei = exp %%i : f32[]\n%%ui = mul %%ei, %%u : %s\n", e);
  const char *u = c->gain ? "ui" : "u";
  if (c->second_gain) {
    vtb_strbuf_printf(s,
                      "%%i2 = mul %%i, %%w : f32[]\n%%ej = exp %%i2 : f32[]\n%%uj = mul %%ej, %%u "
                      ": %s\n%%us = sub %%%s, %%uj : %s\n",
                      e, u, e);
    u = "us";
  }
  vtb_strbuf_printf(s, "%%S2 = add %%a, %%%s : %s\n", u, e);
  if (!c->normalizer) return;
  /* The decay of n: the same factor, on the key axis if it has one. */
  const char *d = "d";
  if (c->klass == VTB_DECAY_KEY) {
    vtb_strbuf_printf(s, "%%d1 = reshape %%d {shape = [%d]} : f32[%d]\n", c->k, c->k);
    d = "d1";
  }
  vtb_strbuf_printf(s, "%%b = mul %%%s, %%n : f32[%d]\n", d, c->k);
  if (c->gain) vtb_strbuf_printf(s, "%%kn = mul %%k, %%ei : f32[%d]\n", c->k);
  vtb_strbuf_printf(s, "%%n2 = add %%b, %%%s : f32[%d]\n", c->gain ? "kn" : "k", c->k);
}

/* %y [V], or [] for a scalar state. */
static inline void put_yield(vtb_strbuf *s, const config *c) {
  const char *from = c->read_old ? "S" : "S2";
  char y[20];
  sprintf(y, c->rank ? "f32[%d]" : "f32[]", c->v);
  if (c->rank == 2 && c->transposed)
    vtb_strbuf_printf(
        s, "%%p = mul %%%s, %%q : f32[%d, %d]\n%%y0 = reduce_sum %%p {axes = [1]} : %s\n", from,
        c->v, c->k, y);
  else if (c->rank == 2 && c->read_whole)
    vtb_strbuf_printf(s,
                      "%%ab = abs %%%s : f32[%d, %d]\n%%y0 = reduce_sum %%ab {axes = [0]} : %s\n",
                      from, c->k, c->v, y);
  else if (c->rank == 2)
    vtb_strbuf_printf(s, "%%y0 = einsum %%q, %%%s {spec = \"a,ab->b\"} : %s\n", from, y);
  else
    vtb_strbuf_printf(s, "%%y0 = mul %%%s, %%w : %s\n", from, y);
  if (!c->normalizer) {
    vtb_strbuf_printf(s, "%%y = add %%y0, %%v : %s\n", y);
    return;
  }
  vtb_strbuf_printf(s,
                    "%%one = constant {value = 1.0} : f32[]\n%%z = einsum %%q, %%%s {spec = "
                    "\"k,k->\"} : f32[]\n%%az = "
                    "abs %%z : f32[]\n"
                    "%%den0 = max %%az, %%one : f32[]\n",
                    c->read_old ? "n" : "n2");
  if (c->reads_scale)
    vtb_strbuf_printf(s,
                      "%%eps = constant {value = %g} : f32[]\n%%sc = state_scale : "
                      "f32[]\n%%es = mul %%eps, %%sc : f32[]\n"
                      "%%den = add %%den0, %%es : f32[]\n",
                      c->eps > 0 ? c->eps : 0.125);
  vtb_strbuf_printf(s, "%%y = div %%y0, %%%s : %s\n", c->reads_scale ? "den" : "den0", y);
}

static inline char *write_module(const config *c) {
  vtb_strbuf s = {0};
  char x[64], d[64], dc[256], yt[128], path[80] = "", h[24];
  snprintf(h, sizeof h, "%s", head_dims(c));
  state_dims(c, x);
  decay_dims(c, d);
  const char *xs = *x ? ", " : "";
  bool constant = c->klass == VTB_DECAY_CONSTANT;
  int n_states = 1 + c->normalizer;
  if (c->path) sprintf(path, ", path = \"%s\"", c->path);
  if (constant)
    sprintf(dc, "f32[%s]", h[0] ? h + 2 : "");
  else
    sprintf(dc, "f32[B, N=%d%s%s%s]", c->tokens, h, *d ? ", " : "", d);
  sprintf(yt, c->rank ? "f32[B, N=%d%s, %d]" : "f32[B, N=%d%s]", c->tokens, h, c->v);
  char bn[64], vs[128], finals[512], inits_args[512] = "", inits_ops[60] = "", states[256],
                                     news[256];
  sprintf(bn, "f32[B, N=%d%s", c->tokens, h);
  sprintf(vs, c->rank ? "%s, %d]" : "%s]", bn, c->v);
  int at = sprintf(finals, "f32[B%s%s%s]", h, xs, x);
  if (c->normalizer) at += sprintf(finals + at, ", f32[B%s, %d]", h, c->k);
  sprintf(finals + at, ", f32[B%s]", h);
  if (c->inits) {
    at = sprintf(inits_args, "%%S0: f32[B%s%s%s], ", h, xs, x);
    if (c->normalizer) at += sprintf(inits_args + at, "%%n0: f32[B%s, %d], ", h, c->k);
    if (c->inits > n_states) sprintf(inits_args + at, "%%m0: f32[B%s], ", h);
    sprintf(inits_ops, "%%S0, %s%s", c->normalizer ? "%n0, " : "",
            c->inits > n_states ? "%m0, " : "");
  }
  vtb_strbuf_printf(&s,
                    "entry func @f(%s%%q: %s, %d], %%k: %s, %d], %%v: %s, %%i: %s], %s%s%s%%w: "
                    "f32[]) -> (%s, %s) {\n",
                    inits_args, bn, c->k, bn, c->k, vs, bn, "%f: ", dc, ", ", yt, finals);
  vtb_strbuf_printf(&s,
                    "%%y, %%Sf, %s%%mf = recurrence @step(%s%%q, %%k, %%v, %%i, %%f, %%w) {states "
                    "= %d, inits = %d, "
                    "seqs = %d%s} : %s, %s\n",
                    c->normalizer ? "%nf, " : "", inits_ops, n_states, c->inits, constant ? 4 : 5,
                    path, yt, finals);
  vtb_strbuf_printf(&s, "return %%y, %%Sf, %s%%mf\n}\n", c->normalizer ? "%nf, " : "");
  at = sprintf(states, "%%S: f32[%s], ", x);
  if (c->normalizer) sprintf(states + at, "%%n: f32[%d], ", c->k);
  at = sprintf(news, "f32[%s], ", x);
  if (c->normalizer) sprintf(news + at, "f32[%d], ", c->k);
  char v_step[20], dstep[64];
  sprintf(v_step, c->rank ? "f32[%d]" : "f32[]", c->v);
  sprintf(dstep, "%s", constant ? "" : d);
  vtb_strbuf_printf(&s,
                    "step @step(%s%%q: f32[%d], %%k: f32[%d], %%v: %s, %%i: f32[], %%f: f32[%s], "
                    "%%w: f32[]) -> (%s%s) {\n",
                    states, c->k, c->k, v_step, dstep, news, v_step);
  put_decay(&s, c, dstep);
  put_update(&s, c, x);
  put_yield(&s, c);
  vtb_strbuf_printf(&s, "return %%S2, %s%%y\n}\n", c->normalizer ? "%n2, " : "");
  return s.at;
}

static inline void scale_input(vtb_func *f, vtb_tensor *args, const char *name, double size,
                               double shift) {
  for (int i = 0; i < f->n_args; i++)
    if (vtb_streq(f->args[i]->name, name))
      for (int64_t k = 0; k < vtb_type_count(&args[i].type); k++)
        args[i].data[k] = args[i].data[k] * size + shift;
}

static inline vtb_tensor *config_args(const config *c, vtb_func *f, unsigned long long seed) {
  vtb_tensor *args = random_args(f, 2, seed);
  scale_input(f, args, "i", c->gain_size, c->gain_shift);
  if (c->decay_size != 0) scale_input(f, args, "f", c->decay_size, 0);
  return args;
}

/* States times e^m: what two runs must agree on whatever scale each reports. */
static inline void unscale(vtb_tensor *results, int n) {
  const vtb_tensor *m = &results[n - 1];
  int64_t heads = vtb_type_count(&m->type);
  for (int i = 1; i < n - 1; i++) {
    int64_t each = vtb_type_count(&results[i].type) / heads;
    for (int64_t k = 0; k < heads * each; k++) results[i].data[k] *= exp(m->data[k / each]);
  }
}

/* The definition of the scale in ir/recurrence.h: all decays are one product of exponentials. */
static inline bool has_common_scale(const config *c) { return c->gain && c->decay_form == 0; }

static inline config random_config(unsigned long long *rng) {
  static const char *const paths[] = {"rows~@1x%d", "cols~@%dx1", "rows.hflip@1x%d"};
  static char path[40];
  config c = {.rank = below(rng, 5) ? 2 : below(rng, 2),
              .klass = (vtb_decay_class)below(rng, 5),
              .head_axes = below(rng, 3)};
  c.tokens = below(rng, 3) == 0 ? 1 + below(rng, 3) : 1 + below(rng, 40);
  c.k = 1 + below(rng, 4), c.v = 1 + below(rng, 4);
  c.decay_form = below(rng, 3);
  bool scalar = c.klass <= VTB_DECAY_SCALAR || c.rank == 0;
  c.gain = scalar && below(rng, 3) > 0;
  c.second_gain = c.gain && below(rng, 5) == 0;
  c.gain_size = below(rng, 2) ? 2 : 30;
  c.transposed = c.rank == 2 && below(rng, 4) == 0;
  c.normalizer =
      c.rank == 2 && below(rng, 2) && (scalar || (c.klass == VTB_DECAY_KEY && !c.transposed));
  c.reads_scale = c.normalizer && c.gain && c.decay_form == 0 && !c.second_gain && below(rng, 2);
  c.read_whole = c.rank == 2 && below(rng, 4) == 0;
  c.read_old = !c.second_gain && below(rng, 5) == 0;
  int states = 1 + c.normalizer;
  c.inits = below(rng, 2) ? 0 : c.gain && below(rng, 2) ? states + 1 : states;
  if (below(rng, 2)) {
    sprintf(path, paths[below(rng, 3)], c.tokens);
    c.path = path;
  }
  return c;
}

#endif
