/* A model against itself: one set of random weights through every mode, several chunk sizes and
 * every target, forward and gradients, compared with the interpreter running the recurrent form;
 * and the search for the first op that departs. */
#include "runtime/base/random.h"
#include "ir/fold.h"
#include "ir/axes.h"
#include "ir/ops.h"
#include "frontend/cli/say/progress.h"
#include "frontend/cli/verify/verify.h"
#include "frontend/cli/verify/verify_bounds.h"

#include <math.h>
#include <string.h>

/* Initial values alone hide errors (zeros and ones), so noise is added. */
static vtb_status random_args(const vtb_func *f, int64_t batch, vtb_weights *args, vtb_error *err) {
  vtb_strbuf key = {0};
  vtb_status status = VTB_OK;
  for (int a = 0; a < f->n_args && status == VTB_OK; a++) {
    const vtb_type *t = &f->args[a]->type;
    int64_t dims[VTB_MAX_RANK];
    for (int d = 0; d < t->rank; d++) dims[d] = vtb_bound_size(t->dim[d].size, batch);
    vtb_weight *w =
        vtb_weights_add(args, cli_arg_key(f, a, &key),
                        t->dtype == VTB_I32 ? VTB_ELEM_I32 : VTB_ELEM_F32, t->rank, dims);
    if (!w) {
      status = vtb_fail(err, VTB_E_MEMORY, "out of memory for %s", key.at);
    } else if (t->dtype == VTB_F32) {
      float *x = w->data;
      bool param = f->arg_info[a].role == VTB_ROLE_PARAM || f->arg_info[a].role == VTB_ROLE_BUFFER;
      if (param) status = vtb_init_tensor(f->arg_info[a].init, key.at, 1, t->rank, dims, x, err);
      uint64_t stream = vtb_hash_str(VTB_HASH_INIT, key.at);
      for (int64_t i = 0; i < w->count; i++) {
        double noise = 2 * vtb_random_unit(stream, (uint64_t)i) - 1;
        x[i] = (float)(param ? (double)x[i] + 0.2 * noise : noise);
      }
    }
  }
  vtb_strbuf_free(&key);
  return status;
}

static vtb_status with_gradient(vtb_compilation *c) {
  vtb_func *f = c->module->entry;
  int *outs = vtb_xcalloc((size_t)f->n_returns + 1, sizeof *outs),
      *wrt = vtb_xcalloc((size_t)f->n_args + 1, sizeof *wrt);
  int n_outs = 0, n_wrt = 0;
  for (int r = 0; r < f->n_returns; r++)
    if (f->returns[r]->type.dtype == VTB_F32) outs[n_outs++] = r;
  for (int a = 0; a < f->n_args; a++)
    if (f->args[a]->type.dtype == VTB_F32) wrt[n_wrt++] = a;
  vtb_status status = vtb_compilation_gradient(c, outs, n_outs, wrt, n_wrt);
  vtb_free(outs);
  vtb_free(wrt);
  return status;
}

/* The model in a mode at graph level, with its losses and metrics as further outputs, and with its
 * gradient if that is compared. */
static vtb_status open_in_mode(const char *what, const verify_options *o, const verify_mode *mode,
                               vtb_compilation *c) {
  vtb_compile_options with = cli_compile_options(&o->model, what);
  with.mode = mode->mode;
  with.chunk = mode->chunk;
  vtb_instantiate_options more = {.objective = true};
  vtb_status status = vtb_compilation_load(c, &with, &more, o->model.report);
  if (status == VTB_OK) status = vtb_compilation_graph(c);
  return status == VTB_OK && !o->no_grad ? with_gradient(c) : status;
}

/* Every f32 value a function computes becomes a return named after it. */
static void expose_all(vtb_func *f) {
  VTB_VEC(vtb_value *) values = {0};
  VTB_VEC(const char *) names = {0};
  for (vtb_inst *i = f->first; i; i = i->next)
    for (int r = 0; r < i->n_results; r++) {
      if (i->results[r]->type.dtype != VTB_F32 || i->op == VTB_OP_constant) continue;
      vtb_vec_push(&values, i->results[r]);
      vtb_vec_push(&names, i->results[r]->name);
    }
  vtb_func_set_returns(f, values.at, names.at, (int)values.n);
  vtb_vec_free(&values);
  vtb_vec_free(&names);
}

static bool finite_all(const vtb_weight *w, int64_t *index) {
  const double *x = w->data;
  for (int64_t i = 0; i < w->count; i++)
    if (!isfinite(x[i])) {
      *index = i;
      return false;
    }
  return true;
}

typedef struct locate {
  const vtb_target *target;
  const verify_options *o;
  bool nan;
  double tol;
} locate;

/* Arguments of a call, by the callee's keys, from the values around it. */
static vtb_weights *call_args(const vtb_func *f, const vtb_inst *call, const vtb_weights *args,
                              const vtb_weights *values) {
  vtb_weights *out = vtb_need(vtb_weights_new());
  vtb_strbuf key = {0};
  for (int k = 0; k < call->n_operands; k++) {
    const vtb_value *v = call->operands[k];
    const vtb_weight *w = v->def ? vtb_weights_find(values, v->name)
                                 : vtb_weights_find(args, cli_arg_key(f, v->index, &key));
    if (w)
      vtb_weights_put(out, cli_arg_key(call->callee, k, &key), w->elem, w->rank, w->dim, w->data);
  }
  vtb_strbuf_free(&key);
  return out;
}

static void print_place(const char *what, const vtb_inst *i, const vtb_func *f,
                        const cli_difference *d) {
  vtb_strbuf text = {0};
  char place[256];
  vtb_inst_print(i, &text);
  printf("  first op that %s: in @%s\n    %s\n    from %s\n", what, f->name, text.at,
         vtb_span_text(i->span, place, sizeof place));
  if (d)
    printf("    largest error %.3e absolute, %.3e relative, at element %lld: %.9g, want %.9g\n",
           d->max_abs, d->relative, (long long)d->index, d->got, d->want);
  vtb_strbuf_free(&text);
}

/* Compares every value of what `c` compiles in order and descends into the call that departs
 * first. */
static bool find_first(const locate *l, const vtb_compilation *c, const vtb_weights *args) {
  vtb_compilation all = *c;
  int threads = (int)l->o->model.threads;
  all.module = vtb_module_clone(c->module);
  vtb_func *f = vtb_module_find(all.module, c->func);
  expose_all(f);
  vtb_weights *want = NULL, *got = NULL;
  bool found = false;
  vtb_status status = cli_evaluate(&all, vtb_target_find("interp"), threads, args, &want);
  if (status == VTB_OK) status = cli_evaluate(&all, l->target, threads, args, &got);
  cli_report(&l->o->model, status);
  for (vtb_inst *i = status == VTB_OK ? f->first : NULL; i && !found; i = i->next)
    for (int r = 0; r < i->n_results && !found; r++) {
      const vtb_weight *a = vtb_weights_find(got, i->results[r]->name),
                       *b = vtb_weights_find(want, i->results[r]->name);
      if (!a || !b) continue;
      int64_t at = 0;
      cli_difference d = cli_compare(a, b);
      if (l->nan ? finite_all(a, &at) : d.relative <= l->tol) continue;
      found = true;
      vtb_weights *args_of = i->op == VTB_OP_call ? call_args(f, i, args, want) : NULL;
      vtb_compilation inner = *c;
      if (args_of) inner.func = i->callee->name;
      if (!args_of || !find_first(l, &inner, args_of)) {
        if (l->nan)
          d = (cli_difference){.index = at,
                               .got = ((double *)a->data)[at],
                               .want = ((double *)b->data)[at],
                               .max_abs = NAN,
                               .relative = NAN};
        print_place(l->nan ? "gives NaN or Inf" : "departs", i, f, &d);
      }
      vtb_weights_free(args_of);
    }
  vtb_weights_free(want);
  vtb_weights_free(got);
  vtb_module_free(all.module);
  return found;
}

static bool any_not_finite(const vtb_weights *w, const char **name) {
  int64_t at;
  for (size_t i = 0; i < w->n; i++)
    if (!finite_all(w->at[i], &at)) {
      *name = w->at[i]->name;
      return true;
    }
  return false;
}

/* The worst of a run's outputs or gradients: the result that is nearest to its bound, or farthest
 * beyond it. */
typedef struct nearest {
  verify_judged v;
  const char *name;
} nearest;

typedef struct outcome {
  nearest out, grad;
  verify_verdict verdict;
  bool not_finite;
} outcome;

static bool is_gradient(const vtb_weight *w) { return vtb_starts_with(w->name, "d:"); }

static double largest_gradient(const vtb_weights *w) {
  double largest = 0;
  for (size_t i = 0; i < w->n; i++)
    if (is_gradient(w->at[i])) largest = fmax(largest, cli_compare(w->at[i], w->at[i]).scale);
  return largest;
}

/* True if a is said rather than b: its verdict is graver, or as grave and nearer to its bound. */
static bool is_worse(const verify_judged *a, const nearest *b) {
  if (!b->name || a->verdict != b->v.verdict) return !b->name || a->verdict > b->v.verdict;
  return !(a->j.d.relative / a->j.bound <= b->v.j.d.relative / b->v.j.bound);
}

static vtb_status compare_run(const verify_options *o, verify_noise *noise,
                              const vtb_weights *results, const vtb_weights *reference,
                              outcome *r) {
  const char *bad = NULL;
  *r = (outcome){.not_finite = o->nan && any_not_finite(results, &bad)};
  double largest = largest_gradient(reference);
  vtb_status status = VTB_OK;
  for (size_t i = 0; i < reference->n && status == VTB_OK; i++) {
    const vtb_weight *want = reference->at[i], *got = vtb_weights_find(results, want->name);
    if (!got) continue;
    bool grad = is_gradient(want);
    double tol = noise->target->in_double ? 1e-9 : grad ? o->grad_tol : o->tol;
    verify_judged v;
    nearest *w = grad ? &r->grad : &r->out;
    status = verify_judge(noise, want->name, got, want, tol, grad ? 1e-3 * tol * largest : 0, &v);
    if (status == VTB_OK && o->verbose && !o->model.json)
      cli_printf(7, "  %-4s %-40s %.1e, bound %.1e, cosine %.4f, norm %.4f",
                 verify_verdicts[v.verdict], want->name, v.j.d.relative, v.j.bound, v.j.cosine,
                 v.j.norm);
    if (status != VTB_OK || !is_worse(&v, w)) continue;
    *w = (nearest){v, want->name};
    if (v.verdict > r->verdict) r->verdict = v.verdict;
  }
  if (r->not_finite) r->verdict = VERIFY_FAIL;
  return status;
}

static void add_worst(cJSON *run, const char *what, const nearest *w) {
  const verify_judged *v = &w->v;
  if (w->name)
    doc_put(run, F(what, doc_object(F("name", w->name), F("relative", v->j.d.relative),
                                    F("bound", v->j.bound), F("cosine", v->j.cosine),
                                    F("norm", v->j.norm), F("verdict", verify_verdicts[v->verdict]),
                                    F("why", v->j.why))));
}

static void say_why(doc *d, const nearest *w) {
  if (!w->name || w->v.verdict == VERIFY_OK) return;
  doc_say(d, 4, "  %s %s: %s", verify_verdicts[w->v.verdict], w->name, w->v.j.why);
  if (w->v.verdict == VERIFY_ILL_CONDITIONED)
    doc_say(d, 4, "    the interpreter, rounding to as many digits, is off by as much");
}

static void record_run(const char *label, const vtb_target *target, const outcome *r, doc *d) {
  char gradients[300] = "";
  cJSON *run = doc_item(d->json, F("mode", label), F("target", target->name),
                        F("output", r->out.v.j.d.relative), F("gradient", r->grad.v.j.d.relative));
  add_worst(run, "worst_output", &r->out);
  add_worst(run, "worst_gradient", &r->grad);
  doc_put(run, F("ok", (bool)(r->verdict != VERIFY_FAIL)),
          F("verdict", verify_verdicts[r->verdict]));
  if (r->grad.name)
    snprintf(gradients, sizeof gradients, "  gradients %.1e, bound %.1e (%s)",
             r->grad.v.j.d.relative, r->grad.v.j.bound, r->grad.name);
  doc_say(d, 5, "%-4s %-7s %-16s outputs %.1e, bound %.1e%s", verify_verdicts[r->verdict],
          target->name, label, r->out.v.j.d.relative, r->out.v.j.bound, gradients);
  say_why(d, &r->out);
  say_why(d, &r->grad);
  cli_tell_so_far(d);
}

static vtb_status one_run(const char *what, const verify_options *o, const verify_mode *mode,
                          const char *label, const vtb_target *target, const vtb_weights *args,
                          const vtb_weights *reference, doc *d) {
  vtb_compilation c;
  vtb_weights *results = NULL;
  outcome r;
  cli_progress_note("verifying %s: %s, %s", what, target->name, label);
  vtb_status status = open_in_mode(what, o, mode, &c);
  verify_noise noise = {
      .c = &c, .target = target, .args = args, .precision = o->precision, .given = o->given};
  if (status == VTB_OK) status = cli_evaluate(&c, target, (int)o->model.threads, args, &results);
  if (status == VTB_OK) status = compare_run(o, &noise, results, reference, &r);
  cli_report(&o->model, status);
  if (status == VTB_OK) {
    record_run(label, target, &r, d);
    locate l = {target, o, r.not_finite, o->tol};
    bool failed = r.verdict == VERIFY_FAIL;
    if (failed && !target->in_double && !o->model.json && !find_first(&l, &c, args))
      puts("  no single op departs: the error builds up");
    if (failed) status = VTB_E_NUMBERS;
    fflush(stdout);
  }
  verify_noise_free(&noise);
  vtb_weights_free(results);
  vtb_compilation_free(&c);
  return status;
}

static int64_t longest_sequence(const vtb_module *m) {
  int64_t longest = 1;
  for (const vtb_func *f = m->first; f; f = f->next)
    for (const vtb_inst *i = f->first; i; i = i->next)
      if (i->op == VTB_OP_linscan && i->operands[0]->type.dim[1].size > longest)
        longest = i->operands[0]->type.dim[1].size;
  return longest;
}

/* A recurrence as a fold of its step; a loop has no modes. */
static bool is_stepwise(const vtb_inst *i) { return i->op == VTB_OP_fold && !vtb_fold_of(i).steps; }

/* No recurrence is linear in its state: there is one form of each, whatever mode is asked for. */
static bool runs_stepwise(const vtb_module *m) {
  bool some = false;
  for (const vtb_func *f = m->first; f; f = f->next)
    for (const vtb_inst *i = f->first; i; i = i->next) {
      if (i->op == VTB_OP_linscan || i->op == VTB_OP_delta) return false;
      some |= is_stepwise(i);
    }
  return some;
}

/* ---- programs -------------------------------------------------------------------------------- */

typedef struct program { /* what a mode comes to on a target */
  verify_mode mode;
  uint64_t text; /* of the lowered module, hashed: modes of equal text are one program */
} program;

/* The order in which attributes were set says nothing. */
static void chunk_last(vtb_module *m) {
  for (vtb_func *f = m->first; f; f = f->next)
    for (vtb_inst *i = f->first; i; i = i->next) {
      int64_t chunk = vtb_attr_int(i, "chunk", 0);
      vtb_attr_remove(i, "chunk");
      if (chunk) vtb_attr_set(i, VTB_A_INT("chunk", chunk));
    }
}

/* The batch that is asked for, or one; three where samples meet, as one has nobody to meet. */
static int64_t batch_of(const verify_options *o, const vtb_compilation *c) {
  if (o->model.compile.batch) return o->model.compile.batch;
  return vtb_mixes_samples(c->module) ? 3 : 1;
}

static vtb_status identify(const char *what, const verify_options *o, const vtb_target *target,
                           program *p) {
  vtb_compilation c, lowered = {0};
  vtb_codegen_options code = {0};
  vtb_status status = open_in_mode(what, o, &p->mode, &c);
  int64_t batch = status == VTB_OK ? batch_of(o, &c) : 1;
  if (status == VTB_OK) status = vtb_compile_code(target, &c.options, &code, &c.report->error);
  if (status == VTB_OK) status = vtb_compilation_lower(&c, target, &code, batch, &lowered);
  cli_report(&o->model, status);
  if (status == VTB_OK) {
    vtb_strbuf text = {0};
    vtb_print_options print = {0};
    chunk_last(lowered.module);
    vtb_module_print(lowered.module, &print, &text);
    p->text = vtb_hash_str(VTB_HASH_INIT, text.at);
    vtb_strbuf_free(&text);
  }
  vtb_compilation_free(&lowered);
  vtb_compilation_free(&c);
  return status;
}

static bool has_recurrence(const vtb_module *m) {
  for (const vtb_func *f = m->first; f; f = f->next)
    for (const vtb_inst *i = f->first; i; i = i->next)
      if (i->op == VTB_OP_linscan || i->op == VTB_OP_delta || is_stepwise(i)) return true;
  return false;
}

/* The modes that come to the same program as the first of them: "recurrent, chunkwise(1)". */
static char *label_of(const program *list, size_t n, size_t first) {
  vtb_strbuf s = {0};
  for (size_t i = first; i < n; i++) {
    const verify_mode *m = &list[i].mode;
    if (list[i].text != list[first].text) continue;
    vtb_strbuf_printf(&s, "%s%s", s.n ? ", " : "", m->mode);
    if (m->chunk) vtb_strbuf_printf(&s, "(%lld)", (long long)m->chunk);
  }
  return s.at;
}

/* Every program that the modes come to, once. */
static vtb_status verify_programs(const char *what, const verify_options *o, program *list,
                                  size_t n, const vtb_target *target, const vtb_weights *args,
                                  const vtb_weights *reference, doc *d) {
  vtb_status worst = VTB_OK;
  for (size_t i = 0; i < n && worst == VTB_OK; i++) worst = identify(what, o, target, &list[i]);
  if (worst != VTB_OK) return worst;
  for (size_t i = 0; i < n; i++) {
    bool said = false;
    for (size_t k = 0; k < i; k++) said |= list[k].text == list[i].text;
    if (said) continue;
    char *label = label_of(list, n, i);
    vtb_status s = one_run(what, o, &list[i].mode, label, target, args, reference, d);
    vtb_free(label);
    if (s != VTB_OK && worst == VTB_OK) worst = s;
  }
  return worst;
}

/* NaN on both sides would neither be equal nor depart. */
static vtb_status check_finite(const vtb_weights *reference, vtb_error *err) {
  const char *name = NULL;
  if (!any_not_finite(reference, &name)) return VTB_OK;
  return vtb_fail(err, VTB_E_NUMBERS,
                  "with random weights '%s' is not finite in the interpreter either: there is "
                  "nothing to compare; `verify --nan` names the first op that makes it so",
                  name);
}

/* Random arguments, and what the interpreter makes of them in the recurrent form. */
static vtb_status make_reference(const vtb_compilation *c, const verify_options *o,
                                 vtb_weights *args, vtb_weights **reference) {
  int64_t batch = batch_of(o, c);
  vtb_status status =
      random_args(vtb_module_find(c->module, c->func), batch, args, &c->report->error);
  if (status != VTB_OK) return status;
  if (!o->model.json)
    cli_say("reference: interpreter, recurrent form, batch %lld", (long long)batch);
  cli_progress_note("the interpreter computes the reference of %s", c->func);
  status = cli_evaluate(c, vtb_target_find("interp"), (int)o->model.threads, args, reference);
  return status == VTB_OK && !o->nan ? check_finite(*reference, &c->report->error) : status;
}

vtb_status verify_model(const char *what, const verify_options *o) {
  vtb_compilation c;
  const char *asked = o->model.compile.mode;
  if (asked) { /* the compiler's own answer to a mode that there is not */
    vtb_status known = open_in_mode(what, o, &(verify_mode){asked, 0}, &c);
    vtb_compilation_free(&c);
    if (known == VTB_E_USAGE) return cli_report(&o->model, known);
  }
  vtb_status status = open_in_mode(what, o, &(verify_mode){"recurrent", 0}, &c);
  cli_report(&o->model, status);
  if (status != VTB_OK) {
    vtb_compilation_free(&c);
    return status;
  }
  vtb_weights *args = vtb_need(vtb_weights_new()), *reference = NULL;
  int64_t length = longest_sequence(c.module);
  bool stepwise = runs_stepwise(c.module), scans = has_recurrence(c.module);
  status = cli_report(&o->model, make_reference(&c, o, args, &reference));
  if (stepwise && !o->model.json)
    cli_say("only modes recurrent and auto apply: see the warning above");
  if (!scans && !o->model.json) cli_say("no recurrence: every mode is the same program");
  vtb_compilation_free(&c);
  const verify_mode modes[] = {{"recurrent", 0}, {"parallel", 0},   {"chunkwise", 1},
                               {"chunkwise", 7}, {"chunkwise", 64}, {"chunkwise", length + 1},
                               {"auto", 0}};
  int64_t chunk = o->model.compile.chunk; /* asked for, it is the only one */
  const char *only = chunk && !o->model.compile.mode ? "chunkwise" : o->model.compile.mode;
  doc *d = doc_new(cJSON_CreateArray());
  vtb_status worst = status;
  const vtb_target *t = status == VTB_OK ? cli_next_target(o->target, NULL) : NULL;
  for (; t; t = cli_next_target(o->target, t)) {
    program list[sizeof modes / sizeof *modes];
    size_t n = 0;
    for (size_t m = 0; m < sizeof modes / sizeof *modes; m++) {
      bool one_form = stepwise && strcmp(modes[m].mode, "recurrent") != 0;
      if (only ? strcmp(only, modes[m].mode) != 0 : one_form && strcmp(modes[m].mode, "auto") != 0)
        continue;
      if (t->in_double && m == 0 && scans) continue; /* the reference itself */
      if (modes[m].chunk > length && length < 64 && modes[m].chunk != 64) continue; /* as 64 */
      if (!scans && n > 0) continue; /* no mode changes anything */
      if (chunk && n > 0) continue;
      list[n++] = (program){.mode = {modes[m].mode, chunk ? chunk : modes[m].chunk}};
    }
    vtb_status s = verify_programs(what, o, list, n, t, args, reference, d);
    if (s != VTB_OK && worst == VTB_OK) worst = s;
  }
  cli_tell(d);
  vtb_weights_free(args);
  vtb_weights_free(reference);
  return worst;
}
