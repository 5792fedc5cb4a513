/* A model against itself: one set of random weights through every mode, several chunk sizes and
 * every target, forward and gradients, compared with the interpreter running the recurrent form;
 * and the search for the first op that departs. */
#include "runtime/base/random.h"
#include "frontend/cli/verify.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Initial values alone hide errors (zeros and ones), so noise is added. */
static vtb_status random_args(const vtb_func *f, int64_t batch, vtb_weights *args, vtb_error *err) {
  vtb_strbuf key = {0};
  vtb_status status = VTB_OK;
  for (int a = 0; a < f->n_args && status == VTB_OK; a++) {
    const vtb_type *t = &f->args[a]->type;
    int64_t dims[VTB_MAX_RANK];
    for (int d = 0; d < t->rank; d++) dims[d] = t->dim[d].size == VTB_DYN ? batch : t->dim[d].size;
    vtb_weight *w =
        vtb_weights_add(args, cli_arg_key(f, a, &key),
                        t->dtype == VTB_I32 ? VTB_ELEM_I32 : VTB_ELEM_F32, t->rank, dims);
    if (!w) {
      status = vtb_fail(err, VTB_E_MEMORY, "out of memory for %s", key.at);
    } else if (t->dtype == VTB_F32) {
      float *x = w->data;
      bool param = f->arg_info[a].role == VTB_ROLE_PARAM;
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

static vtb_status with_gradient(vtb_module *m, const char **name, vtb_error *err) {
  vtb_func *f = m->entry, *grad = NULL;
  int *outs = vtb_xcalloc((size_t)f->n_returns + 1, sizeof *outs),
      *wrt = vtb_xcalloc((size_t)f->n_args + 1, sizeof *wrt);
  int n_outs = 0, n_wrt = 0;
  for (int r = 0; r < f->n_returns; r++)
    if (f->returns[r]->type.dtype == VTB_F32) outs[n_outs++] = r;
  for (int a = 0; a < f->n_args; a++)
    if (f->args[a]->type.dtype == VTB_F32) wrt[n_wrt++] = a;
  vtb_diags diags = {0};
  vtb_status status = vtb_autodiff(m, f, outs, n_outs, wrt, n_wrt, &grad, &diags, err);
  vtb_diags_print(&diags, stderr);
  vtb_diags_free(&diags);
  vtb_free(outs);
  vtb_free(wrt);
  if (status == VTB_OK) *name = grad->name;
  return status;
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
  const cli_model_options *mo;
  bool nan;
  double tol;
} locate;

/* Arguments of a call, by the callee's keys, from the values around it. */
static vtb_weights *call_args(const vtb_func *f, const vtb_inst *call, const vtb_weights *args,
                              const vtb_weights *values) {
  vtb_weights *out = vtb_weights_new();
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

/* Compares every value of `func` in order and descends into the call that departs first. */
static bool find_first(const locate *l, const vtb_module *module, const char *func,
                       const vtb_weights *args) {
  vtb_module *m = vtb_module_clone(module);
  vtb_func *f = vtb_module_find(m, func);
  vtb_error err = {0};
  expose_all(f);
  vtb_weights *want = NULL, *got = NULL;
  bool found = false;
  if (cli_evaluate(m, func, l->mo, vtb_target_find("interp"), args, &want, &err) == VTB_OK &&
      cli_evaluate(m, func, l->mo, l->target, args, &got, &err) == VTB_OK) {
    for (vtb_inst *i = f->first; i && !found; i = i->next) {
      for (int r = 0; r < i->n_results && !found; r++) {
        const vtb_weight *a = vtb_weights_find(got, i->results[r]->name),
                         *b = vtb_weights_find(want, i->results[r]->name);
        if (!a || !b) continue;
        int64_t at = 0;
        cli_difference d = cli_compare(a, b);
        if (l->nan ? finite_all(a, &at) : d.relative <= l->tol) continue;
        found = true;
        vtb_weights *inner = i->op == VTB_OP_call ? call_args(f, i, args, want) : NULL;
        if (!inner || !find_first(l, module, i->callee->name, inner)) {
          if (l->nan)
            d = (cli_difference){.index = at,
                                 .got = ((double *)a->data)[at],
                                 .want = ((double *)b->data)[at],
                                 .max_abs = NAN,
                                 .relative = NAN};
          print_place(l->nan ? "gives NaN or Inf" : "departs", i, f, &d);
        }
        vtb_weights_free(inner);
      }
    }
  } else {
    cli_error(&err);
  }
  vtb_weights_free(want);
  vtb_weights_free(got);
  vtb_module_free(m);
  return found;
}

static double worst_difference(const vtb_weights *got, const vtb_weights *want, bool grads,
                               const char **name) {
  double worst = 0, largest_grad = 0;
  for (size_t i = 0; i < want->n; i++)
    if (vtb_starts_with(want->at[i]->name, "d:"))
      largest_grad = fmax(largest_grad, cli_compare(want->at[i], want->at[i]).scale);
  for (size_t i = 0; i < want->n; i++) {
    const char *key = want->at[i]->name;
    bool is_grad = vtb_starts_with(key, "d:");
    const vtb_weight *g = vtb_weights_find(got, key);
    if (is_grad != grads || !g) continue;
    cli_difference d = cli_compare(g, want->at[i]);
    if (is_grad && d.scale < 1e-3 * largest_grad)
      d.relative = d.max_abs / (1e-3 * largest_grad); /* nearly cancelling */
    if (d.relative <= worst) continue;
    worst = d.relative;
    *name = key;
  }
  return worst;
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

static vtb_status one_run(const char *what, const verify_options *o, const verify_mode *mode,
                          const vtb_target *target, const vtb_weights *args,
                          const vtb_weights *reference, cJSON *json) {
  vtb_error err = {0};
  cli_model model;
  cli_model_options mo = o->model;
  mo.mode = mode->mode;
  mo.chunk = mode->chunk;
  vtb_status status = cli_model_load(what, &mo, NULL, &model);
  if (status != VTB_OK) return status;
  status = cli_run_passes(model.module, &mo, vtb_pipeline_graph, false, 0);
  const char *func = model.name, *worst_out = "", *worst_grad = "", *bad = NULL;
  if (status == VTB_OK && !o->no_grad) status = with_gradient(model.module, &func, &err);
  vtb_weights *results = NULL;
  if (status == VTB_OK)
    status = cli_evaluate(model.module, func, &mo, target, args, &results, &err);
  if (status == VTB_OK) {
    double exact = target->in_double ? 1e-9 : 0;
    double out = worst_difference(results, reference, false, &worst_out);
    double grad = worst_difference(results, reference, true, &worst_grad);
    bool ok = out <= (exact > 0 ? exact : o->tol) && grad <= (exact > 0 ? exact : o->grad_tol);
    if (o->nan && any_not_finite(results, &bad)) ok = false;
    char label[64];
    snprintf(label, sizeof label, mode->chunk ? "%s(%lld)" : "%s", mode->mode,
             (long long)mode->chunk);
    if (json) {
      cJSON *r = cJSON_CreateObject();
      cJSON_AddStringToObject(r, "mode", label);
      cJSON_AddStringToObject(r, "target", target->name);
      cJSON_AddNumberToObject(r, "output", out);
      cJSON_AddNumberToObject(r, "gradient", grad);
      cJSON_AddBoolToObject(r, "ok", ok);
      cJSON_AddItemToArray(json, r);
    } else {
      printf("%-4s %-7s %-16s outputs %.1e", ok ? "ok" : "FAIL", target->name, label, out);
      if (!o->no_grad) printf("  gradients %.1e (%s)", grad, worst_grad);
      putchar('\n');
    }
    if (!ok) {
      status = VTB_E_NUMBERS;
      locate l = {target, o, &mo, bad != NULL, o->tol};
      if (!target->in_double && !json && !find_first(&l, model.module, func, args))
        puts("  no single op departs: the error builds up");
    }
    fflush(stdout);
  } else if (err.text[0]) {
    cli_error(&err);
  }
  vtb_weights_free(results);
  cli_model_free(&model);
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

/* A recurrence that is not linear in its state has one form only. */
static bool runs_stepwise(const vtb_module *m) {
  for (const vtb_func *f = m->first; f; f = f->next)
    for (const vtb_inst *i = f->first; i; i = i->next)
      if (i->op == VTB_OP_fold) return true;
  return false;
}

vtb_status verify_model(const char *what, const verify_options *o) {
  vtb_error err = {0};
  cli_model model;
  cli_model_options mo = o->model;
  mo.mode = "recurrent";
  mo.chunk = 0;
  vtb_status status = cli_model_load(what, &mo, NULL, &model);
  if (status != VTB_OK) return status;
  status = cli_run_passes(model.module, &mo, vtb_pipeline_graph, false, 0);
  const char *func = model.name;
  if (status == VTB_OK && !o->no_grad) status = with_gradient(model.module, &func, &err);
  vtb_weights *args = vtb_weights_new(), *reference = NULL;
  int64_t batch = o->model.batch ? o->model.batch : 1, length = longest_sequence(model.module);
  if (status == VTB_OK)
    status = random_args(vtb_module_find(model.module, func), batch, args, &err);
  if (status == VTB_OK) {
    if (!o->model.json)
      fprintf(stderr, "reference: interpreter, recurrent form, batch %lld\n", (long long)batch);
    status =
        cli_evaluate(model.module, func, &mo, vtb_target_find("interp"), args, &reference, &err);
  }
  bool stepwise = runs_stepwise(model.module);
  if (stepwise && !o->model.json)
    fputs("only modes recurrent and auto apply: see the warning above\n", stderr);
  cli_model_free(&model);
  if (status != VTB_OK && err.text[0]) cli_error(&err);
  const verify_mode modes[] = {{"recurrent", 0}, {"parallel", 0},   {"chunkwise", 1},
                               {"chunkwise", 7}, {"chunkwise", 64}, {"chunkwise", length + 1},
                               {"auto", 0}};
  cJSON *json = o->model.json ? cJSON_CreateArray() : NULL;
  vtb_status worst = status;
  const vtb_target *t = status == VTB_OK ? cli_next_target(o->target, NULL) : NULL;
  for (; t; t = cli_next_target(o->target, t)) {
    for (size_t m = 0; m < sizeof modes / sizeof *modes; m++) {
      if (o->model.mode && strcmp(o->model.mode, modes[m].mode) != 0) continue;
      if (t->in_double && m == 0) continue; /* the reference itself */
      if (stepwise && strcmp(modes[m].mode, "recurrent") != 0 && strcmp(modes[m].mode, "auto") != 0)
        continue;
      vtb_status s = one_run(what, o, &modes[m], t, args, reference, json);
      if (s != VTB_OK && worst == VTB_OK) worst = s;
    }
  }
  if (json) cli_print_json(json);
  vtb_weights_free(args);
  vtb_weights_free(reference);
  return worst;
}
