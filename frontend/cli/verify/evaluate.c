/* One function of a module on named tensors, on any target. */
#include "frontend/cli/verify/evaluate.h"

#include <math.h>

const char *cli_arg_key(const vtb_func *f, int a, vtb_strbuf *buf) {
  const vtb_arg_info *info = &f->arg_info[a];
  const char *name = info->official ? info->official : f->args[a]->name;
  buf->n = 0;
  if (info->role == VTB_ROLE_PARAM || info->role == VTB_ROLE_BUFFER)
    vtb_strbuf_printf(buf, "param/%s", name);
  else if (info->role == VTB_ROLE_GRAD)
    vtb_strbuf_printf(buf, "probe/%s", vtb_starts_with(name, "d:") ? name + 2 : name);
  else
    vtb_strbuf_printf(buf, "input/%s", name);
  return buf->at;
}

int64_t cli_infer_batch(const vtb_func *f, const vtb_weights *args) {
  vtb_strbuf key = {0};
  int64_t batch = 1;
  for (int a = 0; a < f->n_args; a++) {
    const vtb_weight *w = vtb_weights_find(args, cli_arg_key(f, a, &key));
    const vtb_type *t = &f->args[a]->type;
    for (int d = 0; w && d < t->rank && w->rank == t->rank; d++)
      if (vtb_is_batch(t->dim[d].size)) batch = w->dim[d] / vtb_batches(t->dim[d].size);
  }
  vtb_strbuf_free(&key);
  return batch;
}

static vtb_status check_shape(const char *key, const vtb_weight *w, const vtb_type *t,
                              int64_t batch, vtb_error *err) {
  bool same = w->rank == t->rank;
  for (int d = 0; same && d < t->rank; d++)
    same = w->dim[d] == vtb_bound_size(t->dim[d].size, batch);
  if (same) return VTB_OK;
  vtb_strbuf want = {0}, have = {0};
  vtb_type_print(t, &want);
  vtb_shape_print(&have, w->rank, w->dim);
  vtb_fail(err, VTB_E_INPUT, "%s has shape %s, but the model takes %s", key, have.at, want.at);
  vtb_strbuf_free(&want);
  vtb_strbuf_free(&have);
  return VTB_E_INPUT;
}

static vtb_status find_arg(const vtb_func *f, int a, const vtb_weights *args, int64_t batch,
                           const vtb_weight **out, vtb_error *err) {
  vtb_strbuf key = {0};
  vtb_status status = VTB_OK;
  *out = vtb_weights_find(args, cli_arg_key(f, a, &key));
  if (!*out)
    status = vtb_fail(err, VTB_E_INPUT, "no value for %s", key.at);
  else
    status = check_shape(key.at, *out, &f->args[a]->type, batch, err);
  vtb_strbuf_free(&key);
  return status;
}

static vtb_status run_interpreter(vtb_func *f, const vtb_interp_options *options,
                                  const vtb_weights *args, vtb_weights *results, vtb_error *err) {
  int64_t batch = options->batch;
  vtb_tensor *in = vtb_xcalloc((size_t)f->n_args + 1, sizeof *in);
  vtb_tensor *out = vtb_xcalloc((size_t)f->n_returns + 1, sizeof *out);
  vtb_status status = VTB_OK;
  for (int a = 0; a < f->n_args && status == VTB_OK; a++) {
    const vtb_weight *w;
    if ((status = find_arg(f, a, args, batch, &w, err)) != VTB_OK) break;
    vtb_type t = f->args[a]->type;
    for (int d = 0; d < t.rank; d++) t.dim[d].size = vtb_bound_size(t.dim[d].size, batch);
    in[a] = vtb_tensor_new(t);
    vtb_weight_read_f64(w, in[a].data);
  }
  if (status == VTB_OK) status = vtb_interpret(f, in, out, options, err);
  for (int r = 0; r < f->n_returns && status == VTB_OK; r++) {
    int64_t dims[VTB_MAX_RANK];
    for (int d = 0; d < out[r].type.rank; d++) dims[d] = out[r].type.dim[d].size;
    if (!vtb_weights_find(results, f->return_names[r]))
      vtb_weights_put(results, f->return_names[r], VTB_ELEM_F64, out[r].type.rank, dims,
                      out[r].data);
  }
  for (int a = 0; a < f->n_args; a++) vtb_tensor_free(&in[a]);
  for (int r = 0; r < f->n_returns; r++) vtb_tensor_free(&out[r]);
  vtb_free(in);
  vtb_free(out);
  return status;
}

static void poison(void *data, int64_t count) {
  float *x = data;
  for (int64_t i = 0; i < count; i++) x[i] = NAN;
}

static vtb_status fill_buffers(const vtb_func *f, const vtb_program *p, const vtb_weights *args,
                               void **buffers, vtb_error *err) {
  for (int i = 0; i < p->n_tensors; i++) {
    int64_t n = vtb_tensor_info_count(&p->tensors[i]);
    if (!(buffers[i] = vtb_aligned_alloc((size_t)n * 4 + 64)))
      return vtb_fail(err, VTB_E_MEMORY, "out of memory");
    poison(buffers[i], n);
    if (i >= f->n_args) continue;
    const vtb_weight *w;
    vtb_status status = find_arg(f, i, args, p->batch, &w, err);
    if (status != VTB_OK) return status;
    if (!p->tensors[i].is_int)
      vtb_weight_read_f32(w, buffers[i]);
    else if (w->elem == VTB_ELEM_F64 || w->elem == VTB_ELEM_F32) {
      double *wide = vtb_xcalloc((size_t)n + 1, sizeof *wide);
      vtb_weight_read_f64(w, wide);
      for (int64_t k = 0; k < n; k++) ((int32_t *)buffers[i])[k] = (int32_t)wide[k];
      vtb_free(wide);
    } else if ((status = vtb_weight_read_i32(w, buffers[i], err)) != VTB_OK)
      return status;
  }
  return VTB_OK;
}

static vtb_status run_compiled(const vtb_func *f, const vtb_program *p, int threads,
                               const vtb_weights *args, vtb_weights *results, vtb_error *err) {
  void **buffers = vtb_xcalloc((size_t)p->n_tensors + 1, sizeof *buffers);
  vtb_status status = fill_buffers(f, p, args, buffers, err);
  void *workspace = vtb_aligned_alloc((size_t)p->workspace_bytes + 64);
  if (!workspace) status = vtb_fail(err, VTB_E_MEMORY, "out of memory for the workspace");
  if (status == VTB_OK) {
    vtb_services *services = vtb_need(vtb_services_default(threads));
    poison(workspace, p->workspace_bytes / 4);
    status = vtb_program_execute(p, buffers, workspace, services, err);
    vtb_services_free(services);
    for (int r = 0; r < f->n_returns; r++) {
      const vtb_tensor_info *t = &p->tensors[f->n_args + r];
      int64_t n = vtb_tensor_info_count(t);
      double *wide = vtb_xcalloc((size_t)n + 1, sizeof *wide);
      for (int64_t k = 0; k < n; k++)
        wide[k] = t->is_int ? ((int32_t *)buffers[f->n_args + r])[k]
                            : (double)((float *)buffers[f->n_args + r])[k];
      if (!vtb_weights_find(results, f->return_names[r]))
        vtb_weights_put(results, f->return_names[r], VTB_ELEM_F64, t->rank, t->dim, wide);
      vtb_free(wide);
    }
  }
  for (int i = 0; i < p->n_tensors; i++) vtb_free(buffers[i]);
  vtb_free(buffers);
  vtb_free(workspace);
  return status;
}

vtb_status cli_interpret(const vtb_compilation *c, const vtb_target *target, int bits,
                         const vtb_weights *args, vtb_weights **results) {
  vtb_compilation lowered;
  vtb_codegen_options code = {0};
  vtb_interp_options options = {.batch = cli_infer_batch(vtb_module_find(c->module, c->func), args),
                                .bits = bits};
  vtb_status status = VTB_OK;
  if (vtb_backend_of(target))
    status = vtb_compile_code(target, &c->options, &code, &c->report->error);
  if (status != VTB_OK) return status;
  vtb_weights *out = vtb_need(vtb_weights_new());
  status = vtb_compilation_lower(c, target, &code, options.batch, &lowered);
  if (status == VTB_OK)
    status = run_interpreter(lowered.module->entry, &options, args, out, &c->report->error);
  vtb_compilation_free(&lowered);
  if (status == VTB_OK)
    *results = out;
  else
    vtb_weights_free(out);
  return status;
}

static vtb_status compile_and_run(const vtb_compilation *c, const vtb_target *target, int threads,
                                  const vtb_weights *args, int64_t batch, vtb_weights *results) {
  vtb_program *p = NULL;
  vtb_compilation on_target = *c;
  on_target.options.target = target->name;
  vtb_status status = vtb_compilation_program(&on_target, batch, false, &p);
  if (status == VTB_OK)
    status = run_compiled(vtb_module_find(c->module, c->func), p, threads, args, results,
                          &c->report->error);
  vtb_program_free(p);
  return status;
}

vtb_status cli_evaluate(const vtb_compilation *c, const vtb_target *target, int threads,
                        const vtb_weights *args, vtb_weights **results) {
  if (!vtb_backend_of(target)) return cli_interpret(c, target, 0, args, results);
  int64_t batch = cli_infer_batch(vtb_module_find(c->module, c->func), args);
  vtb_weights *out = vtb_need(vtb_weights_new());
  vtb_status status = compile_and_run(c, target, threads, args, batch, out);
  if (status == VTB_OK)
    *results = out;
  else
    vtb_weights_free(out);
  return status;
}
