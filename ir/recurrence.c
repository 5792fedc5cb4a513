/* Decay classes by name, and the log-scale analysis of step functions that interpreter and passes
 * share. */
#include "ir/internal.h"
#include "ir/ops.h"
#include "ir/kernels.h"
#include "ir/product.h"
#include "ir/recurrence.h"

static const vtb_decay decays[] = {
#define VTB_DECAY(id, name, form, step, axes, rates, operand)                                      \
  [VTB_DECAY_##id] = {name, VTB_FORM_##form, step, VTB_ALONG_##axes, rates, operand},
#include "ir/decays.def"
#undef VTB_DECAY
};

/* Abilities of a form's emitters: along which axes decays may differ. */
enum {
  AXES_OF_PRODUCTS = 1 << VTB_ALONG_NEITHER,
  AXES_OF_VECTOR = 1 << VTB_ALONG_KEY | 1 << VTB_ALONG_VALUE,
  AXES_OF_STEPS = 1 << VTB_ALONG_KEY | 1 << VTB_ALONG_VALUE | 1 << VTB_ALONG_BOTH,
  AXES_OF_EXPONENTS = 1 << VTB_ALONG_BOTH
};
#define VTB_DECAY(id, name, form, step, axes, rates, operand)                                      \
  _Static_assert(AXES_OF_##form >> VTB_ALONG_##axes & 1, "no form " #form " for " name);           \
  _Static_assert(step || VTB_ALONG_##axes == VTB_ALONG_NEITHER, name " differs, but not by step"); \
  _Static_assert(rates == (VTB_FORM_##form == VTB_FORM_EXPONENTS), name ": rates are exponents");
#include "ir/decays.def"
#undef VTB_DECAY

const vtb_decay *vtb_decay_get(vtb_decay_class c) { return &decays[c]; }
const char *vtb_decay_class_name(vtb_decay_class c) { return decays[c].name; }

bool vtb_decay_class_find(const char *name, vtb_decay_class *c) {
  for (int i = 0; i < VTB_N_DECAYS; i++) {
    if (strcmp(decays[i].name, name) != 0) continue;
    *c = (vtb_decay_class)i;
    return true;
  }
  return false;
}

/* In a kernel function: the argument that operand `n` is, or behind the arguments the return that
 * the result is. */
static int outside(const vtb_inst *inst, int n) {
  const vtb_func *f = inst->func;
  for (int a = 0; n < inst->n_operands && a < f->n_args; a++)
    if (f->args[a] == inst->operands[n]) return a;
  for (int r = 0; n >= inst->n_operands && r < f->n_returns; r++)
    if (f->returns[r] == inst->results[n - inst->n_operands]) return f->n_args + r;
  return -1;
}

static vtb_scan_tensors number_tensors(const vtb_inst *inst, const vtb_scan *s) {
  vtb_scan_tensors a;
  bool grad = s->grad, rates = s->decay->rates, init = s->init, normalizer = s->normalizer;
  bool last = s->dlast, inside = inst->func && inst->func->kind == VTB_FUNC_KERNEL;
  const struct {
    int *at;
    bool there;
  } order[] = {{&a.q, true},
               {&a.k, true},
               {&a.v, true},
               {&a.d, true},
               {&a.rates, rates},
               {&a.s0, init},
               {&a.n0, init && normalizer},
               {&a.dy, grad},
               {&a.dz, grad && normalizer},
               {&a.ds, grad && last},
               {&a.dn, grad && last && normalizer},
               {&a.given, grad && s->starts},
               {&a.y, !grad},
               {&a.s, !grad && !s->starts},
               {&a.starts, !grad && s->starts},
               {&a.z, !grad && normalizer},
               {&a.n, !grad && normalizer},
               {&a.dq, grad},
               {&a.dk, grad},
               {&a.dv, grad},
               {&a.dd, grad},
               {&a.drates, grad && rates},
               {&a.ds0, grad && init},
               {&a.dn0, grad && init && normalizer}};
  int n = 0;
  for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
    *order[i].at = !order[i].there ? -1 : inside ? outside(inst, n) : n;
    n += order[i].there;
  }
  return a;
}

static const vtb_decay *decay_of(const vtb_inst *inst) {
  vtb_decay_class c = VTB_DECAY_CONSTANT;
  vtb_check(vtb_decay_class_find(vtb_attr_str(inst, "class", ""), &c), "a scan without a class");
  return &decays[c];
}

static int64_t chunk_of(const vtb_inst *inst, int64_t n_tokens) {
  bool chunks = vtb_streq(vtb_attr_str(inst, "mode", "auto"), "chunkwise");
  int64_t chunk = chunks ? vtb_attr_int(inst, "chunk", 64) : n_tokens;
  return chunk < n_tokens ? chunk : n_tokens;
}

vtb_scan vtb_scan_of(const vtb_inst *inst) {
  const vtb_type *q = &inst->operands[0]->type, *v = &inst->operands[2]->type;
  const char *mode = vtb_attr_str(inst, "mode", "auto");
  vtb_scan s = {.decay = decay_of(inst),
                .grad = inst->op == VTB_OP_linscan_grad,
                .normalizer = vtb_attr_int(inst, "normalizer", 0) != 0,
                .init = vtb_attr_int(inst, "init", 0) != 0,
                .last = vtb_attr_int(inst, "last", 1) && !vtb_attr_int(inst, "starts", 0),
                .starts = vtb_attr_int(inst, "starts", 0),
                .dlast = vtb_attr_int(inst, "dlast", 0) != 0,
                .recurrent = vtb_streq(mode, "recurrent"),
                .path = vtb_attr_str(inst, "path", NULL),
                .n_batch = q->dim[0].size,
                .n_tokens = q->dim[1].size,
                .n_heads = q->dim[2].size,
                .K = q->dim[3].size,
                .V = v->dim[3].size};
  s.chunk = chunk_of(inst, s.n_tokens);
  s.n_inputs = s.decay->rates ? 5 : 4;
  s.at = number_tensors(inst, &s);
  return s;
}

vtb_delta vtb_delta_of(const vtb_inst *inst) {
  const vtb_type *k = &inst->operands[0]->type, *v = &inst->operands[1]->type;
  vtb_delta d = {.decay = decay_of(inst),
                 .init = vtb_attr_int(inst, "init", 0) != 0,
                 .recurrent = vtb_streq(vtb_attr_str(inst, "mode", "auto"), "recurrent"),
                 .path = vtb_attr_str(inst, "path", NULL),
                 .n_batch = k->dim[0].size,
                 .n_tokens = k->dim[1].size,
                 .n_heads = k->dim[2].size,
                 .rank = k->dim[3].size,
                 .K = k->dim[4].size,
                 .V = v->dim[4].size};
  d.chunk = chunk_of(inst, d.n_tokens);
  bool inside = inst->func && inst->func->kind == VTB_FUNC_KERNEL;
  int *at[] = {&d.at.k, &d.at.v, &d.at.b, &d.at.d, &d.at.s0, &d.at.w};
  for (int i = 0, n = 0; i < 6; i++) {
    bool there = at[i] != &d.at.s0 || d.init;
    *at[i] = !there ? -1 : inside ? outside(inst, n) : n;
    n += there;
  }
  return d;
}

vtb_decay_form vtb_scan_form(const vtb_scan *s) {
  bool steps = s->recurrent && s->decay->form != VTB_FORM_EXPONENTS;
  return steps ? VTB_FORM_STEPS : s->decay->form;
}

bool vtb_scan_is_wide(const vtb_scan *s) { return s->normalizer && s->n_tokens > 1; }

bool vtb_scan_computes(const vtb_inst *inst, int r) {
  return inst->op != VTB_OP_linscan || vtb_attr_int(inst, "last", 1) || r % 2 == 0;
}

bool vtb_is_scans(const vtb_inst *inst) { return vtb_kernel_kind_of(inst) == VTB_KERNEL_SCANS; }

const vtb_inst *vtb_mixer_scan(const vtb_inst *fused) {
  const vtb_inst *i = fused->callee->first;
  while (i && i->op != VTB_OP_linscan && i->op != VTB_OP_linscan_grad) i = i->next;
  vtb_check(i != NULL, "a mixer without a scan");
  return i;
}

const vtb_value *vtb_mixer_rows(const vtb_inst *scan, int o, const vtb_value **gain,
                                const vtb_inst **map) {
  const vtb_value *v = scan->operands[o];
  *gain = NULL;
  *map = NULL;
  if (v->def && v->def->op == VTB_OP_mul) {
    int by = v->def->operands[0]->type.dim[3].size == 1 ? 0 : 1;
    *gain = v->def->operands[by];
    v = v->def->operands[1 - by];
  }
  const vtb_inst *of = v->def && v->def->op == VTB_OP_reshape ? v->def->operands[0]->def : NULL;
  if (!of || of->op != VTB_OP_einsum) return v; /* the rows, or what kernels do not make */
  *map = of;                                    /* behind a reshape, and of one */
  return (*map)->operands[0]->def ? (*map)->operands[0]->def->operands[0] : (*map)->operands[0];
}

/* Result o of a scan's adjoint, dq, dk or dv, dk times what multiplied the keys. */
static const vtb_value *adjoint_of_rows(const vtb_inst *scan, int o) {
  const vtb_value *d = scan->results[o], *gain, *found = NULL;
  const vtb_inst *map;
  vtb_mixer_rows(scan, o, &gain, &map);
  if (!gain) return d;
  for (const vtb_inst *i = scan->next; i; i = i->next)
    if (i->op == VTB_OP_mul && ((i->operands[0] == d && i->operands[1] == gain) ||
                                (i->operands[1] == d && i->operands[0] == gain)))
      found = i->results[0];
  return found;
}

vtb_mixer_back vtb_mixer_back_of(const vtb_inst *scan, int o) {
  const vtb_value *d = adjoint_of_rows(scan, o);
  vtb_mixer_back back = {NULL, NULL, NULL};
  vtb_blocks blocks;
  for (const vtb_inst *i = scan->next; d && i; i = i->next) {
    const vtb_inst *view = i->n_operands ? i->operands[0]->def : NULL;
    if (!view || view->op != VTB_OP_reshape || view->operands[0] != d) continue;
    if (i->op == VTB_OP_reduce_sum)
      back.bias = i;
    else if (i->op == VTB_OP_einsum)
      *(vtb_blocks_of(i, &blocks) ? &back.rows : &back.weights) = i;
  }
  return back;
}

/* ---- expansion of an update into terms ------------------------------------------------------- */

#define MAX_TERMS 64
#define MAX_DEPTH 200

typedef VTB_VEC(const vtb_value *) value_list;

typedef struct term {
  value_list logs; /* arguments of the factors exp(.) */
  bool state;      /* the old state is a factor, once and bare */
  bool mixed;      /* a state is inside another factor: not an expanded linear term */
} term;

typedef VTB_VEC(term) term_list;

typedef struct analysis {
  const vtb_func *step;
  int n_states, n_seqs;
  bool *on_state, *on_input; /* by value id: depends on a state, on a per-step input */
  const vtb_value *state;    /* the one whose update is being expanded */
  bool overflow;
} analysis;

static void mark_dependences(analysis *a) {
  const vtb_func *f = a->step;
  for (int i = 0; i < f->n_args; i++) {
    a->on_state[f->args[i]->id] = i < a->n_states;
    a->on_input[f->args[i]->id] = i >= a->n_states && i < a->n_states + a->n_seqs;
  }
  for (const vtb_inst *inst = f->first; inst; inst = inst->next)
    for (int r = 0; r < inst->n_results; r++)
      for (int k = 0; k < inst->n_operands; k++) {
        a->on_state[inst->results[r]->id] |= a->on_state[inst->operands[k]->id];
        a->on_input[inst->results[r]->id] |= a->on_input[inst->operands[k]->id];
      }
}

static void free_terms(term_list *list) {
  for (size_t i = 0; i < list->n; i++) vtb_vec_free(&list->at[i].logs);
  vtb_vec_free(list);
}

static term multiply(const term *a, const term *b) {
  term t = {.state = a->state || b->state, .mixed = a->mixed || b->mixed || (a->state && b->state)};
  for (size_t i = 0; i < a->logs.n; i++) vtb_vec_push(&t.logs, a->logs.at[i]);
  for (size_t i = 0; i < b->logs.n; i++) vtb_vec_push(&t.logs, b->logs.at[i]);
  return t;
}

static void expand(analysis *a, const vtb_value *v, int depth, term_list *out);

static void expand_product(analysis *a, const vtb_inst *inst, int depth, term_list *out) {
  term_list x = {0}, y = {0};
  expand(a, inst->operands[0], depth, &x);
  expand(a, inst->operands[1], depth, &y);
  for (size_t i = 0; i < x.n; i++)
    for (size_t j = 0; j < y.n; j++) {
      if (out->n >= MAX_TERMS) {
        a->overflow = true;
        continue;
      }
      vtb_vec_push(out, multiply(&x.at[i], &y.at[j]));
    }
  free_terms(&x);
  free_terms(&y);
}

static bool has_state(const analysis *a, const vtb_value *v) { return a->on_state[v->id]; }

/* Appends the terms of v. What cannot be taken apart is one factor. */
static void expand(analysis *a, const vtb_value *v, int depth, term_list *out) {
  const vtb_inst *def = v->def;
  vtb_op op = def ? def->op : VTB_OP_COUNT;
  if (depth > MAX_DEPTH) a->overflow = true;
  if (v == a->state) {
    vtb_vec_push(out, ((term){.state = true}));
  } else if (depth > MAX_DEPTH || !def) {
    vtb_vec_push(out, ((term){.mixed = has_state(a, v)}));
  } else if (op == VTB_OP_add || op == VTB_OP_sub) {
    expand(a, def->operands[0], depth + 1, out);
    expand(a, def->operands[1], depth + 1, out);
  } else if (op == VTB_OP_neg || op == VTB_OP_reshape || op == VTB_OP_broadcast ||
             op == VTB_OP_transpose) {
    expand(a, def->operands[0], depth + 1, out);
  } else if (op == VTB_OP_mul) {
    expand_product(a, def, depth + 1, out);
  } else if (op == VTB_OP_einsum && !has_state(a, v)) {
    /* a contraction keeps only factors that are one number; checked later */
    expand_product(a, def, depth + 1, out);
  } else if (op == VTB_OP_div && !has_state(a, def->operands[1])) {
    expand(a, def->operands[0], depth + 1, out);
  } else if (op == VTB_OP_exp && !has_state(a, v)) {
    term t = {0};
    vtb_vec_push(&t.logs, (const vtb_value *)def->operands[0]);
    vtb_vec_push(out, t);
  } else {
    vtb_vec_push(out, ((term){.mixed = has_state(a, v)}));
  }
  if (out->n > MAX_TERMS) a->overflow = true;
}

/* ---- from terms to decay and gains ----------------------------------------------------------- */

static vtb_log_sum to_sum(const term *t) {
  vtb_log_sum s = {.values = vtb_xcalloc(t->logs.n + 1, sizeof(vtb_value *)), .n = (int)t->logs.n};
  for (int i = 0; i < s.n; i++) s.values[i] = (vtb_value *)t->logs.at[i];
  return s;
}

static int times_in(const vtb_log_sum *s, const vtb_value *v) {
  int n = 0;
  for (int i = 0; i < s->n; i++) n += s->values[i] == v;
  return n;
}

static bool equal_sums(const vtb_log_sum *a, const vtb_log_sum *b) {
  if (a->n != b->n) return false;
  for (int i = 0; i < a->n; i++)
    if (times_in(a, a->values[i]) != times_in(b, a->values[i])) return false;
  return true;
}

static const vtb_value *first_tensor(const vtb_log_sum *s) {
  for (int i = 0; i < s->n; i++)
    if (vtb_type_count(&s->values[i]->type) != 1) return s->values[i];
  return NULL;
}

static void blame(vtb_step_scale *out, const vtb_value *v) {
  if (out->uniform) out->blame = v;
  out->uniform = false;
}

/* Exponentials of constants are weights, not gains. */
static void drop_constant_logs(const analysis *a, term *t) {
  size_t n = 0;
  for (size_t i = 0; i < t->logs.n; i++)
    if (a->on_input[t->logs.at[i]->id]) t->logs.at[n++] = t->logs.at[i];
  t->logs.n = n;
}

static void add_gain(vtb_step_scale *out, const term *t) {
  vtb_log_sum gain = to_sum(t);
  bool known = false;
  for (int i = 0; i < out->n_gains; i++) known = known || equal_sums(&out->gains[i], &gain);
  if (known) {
    vtb_free(gain.values);
    return;
  }
  out->gains = vtb_xrealloc(out->gains, (size_t)out->n_gains + 1, sizeof *out->gains);
  out->gains[out->n_gains++] = gain;
}

static void add_decay(vtb_step_scale *out, const term *t, bool first, const vtb_value *state) {
  vtb_log_sum decay = to_sum(t);
  if (first) {
    out->decay = decay;
    return;
  }
  if (!equal_sums(&out->decay, &decay)) blame(out, state);
  vtb_free(decay.values);
}

static void read_update(analysis *a, int k, vtb_step_scale *out) {
  term_list terms = {0};
  a->state = a->step->args[k];
  expand(a, a->step->returns[k], 0, &terms);
  int n_old = 0;
  for (size_t i = 0; i < terms.n; i++) {
    term *t = &terms.at[i];
    if (t->mixed) {
      blame(out, a->step->returns[k]);
    } else if (t->state) {
      add_decay(out, t, k == 0 && n_old == 0, a->state);
      n_old++;
    } else {
      drop_constant_logs(a, t);
      out->scaled = out->scaled || t->logs.n > 0;
      add_gain(out, t);
    }
  }
  if (n_old != 1 || a->overflow) blame(out, a->step->returns[k]);
  free_terms(&terms);
}

void vtb_step_scale_find(const vtb_func *step, int n_states, int n_seqs, vtb_step_scale *out) {
  *out = (vtb_step_scale){.uniform = true};
  analysis a = {.step = step, .n_states = n_states, .n_seqs = n_seqs};
  a.on_state = vtb_xcalloc((size_t)step->n_values + 1, sizeof(bool));
  a.on_input = vtb_xcalloc((size_t)step->n_values + 1, sizeof(bool));
  mark_dependences(&a);
  for (int k = 0; k < n_states; k++) read_update(&a, k, out);
  if (out->scaled) {
    const vtb_value *v = first_tensor(&out->decay);
    for (int i = 0; i < out->n_gains && !v; i++) v = first_tensor(&out->gains[i]);
    if (v) blame(out, v);
  }
  vtb_free(a.on_state);
  vtb_free(a.on_input);
}

void vtb_step_scale_free(vtb_step_scale *s) {
  for (int i = 0; i < s->n_gains; i++) vtb_free(s->gains[i].values);
  vtb_free(s->gains);
  vtb_free(s->decay.values);
  *s = (vtb_step_scale){0};
}
