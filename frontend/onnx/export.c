/* The entry of a module as a graph: inputs, parameters, outputs. */
#include "frontend/onnx/internal.h"
#include "runtime/base/half.h"

#include <math.h>
#include <string.h>

/* ---- parameters ------------------------------------------------------------------------------ */

/* The numbers as the model computes with them, without a copy where they are that already. */
static vtb_status read_numbers(ox *x, const vtb_weight *w, ox_elem want, const void **out,
                               vtb_error *err) {
  size_t n = (size_t)w->count * 4 + 4;
  vtb_elem as = want == OX_I32 ? VTB_ELEM_I32 : VTB_ELEM_F32;
  *out = w->data;
  if (w->elem == as) return VTB_OK;
  void *numbers = vtb_arena_alloc(&x->arena, n);
  *out = numbers;
  if (want == OX_I32) return vtb_weight_read_i32(w, numbers, err);
  vtb_weight_read_f32(w, numbers);
  return VTB_OK;
}

static vtb_status halve(ox *x, const char *name, const float *from, int64_t n, const void **out,
                        vtb_error *err) {
  uint16_t *half = vtb_arena_alloc(&x->arena, (size_t)n * 2 + 2);
  int64_t lost = 0;
  for (int64_t i = 0; i < n; i++) {
    float value;
    memcpy(&value, (const char *)from + i * 4, 4); /* files need not align */
    half[i] = vtb_f32_to_f16(value);
    lost += isfinite(value) && fabsf(value) >= 65520;
  }
  *out = half;
  if (!lost) return VTB_OK;
  return vtb_fail(err, VTB_E_NUMBERS,
                  "tensor %s has %lld numbers beyond 65504, the largest of f16: leave out --half",
                  name, (long long)lost);
}

static vtb_status parameter(ox *x, const vtb_arg_info *info, const vtb_type *type, ox_value **out,
                            vtb_error *err) {
  const vtb_weight *w = vtb_weights_find(x->job->weights, info->official);
  ox_type t = vtb__ox_type(type);
  if (!w || w->count != vtb__ox_count(&t))
    return vtb_fail(err, VTB_E_INPUT, "the weights lack the model's tensor %s", info->official);
  bool half = x->job->half && t.elem == OX_F32;
  ox_value *v = vtb__ox_new(x, &t);
  v->name = vtb_arena_strdup(&x->arena, info->official);
  vtb_vec_push(&x->initialisers, v);
  vtb_status status = read_numbers(x, w, t.elem, &v->data, err);
  if (status == VTB_OK && half) {
    status = halve(x, info->official, v->data, w->count, &v->data, err);
    v->type.elem = OX_F16;
    x->path = v->name, x->place = NULL;
    v = vtb__ox_cast(x, v, OX_F32);
  }
  *out = v;
  return status;
}

/* ---- the graph ------------------------------------------------------------------------------- */

/* The batch as a number that nodes can read, of the first input that has it. */
static void find_batch(ox *x, ox_value *input) {
  for (int axis = 0; !x->batch && axis < input->type.rank; axis++) {
    if (input->type.dim[axis] != VTB_DYN) continue;
    const vtb_attr attrs[] = {VTB_A_INT("start", axis), VTB_A_INT("end", axis + 1)};
    const int64_t one = 1;
    x->path = "batch", x->place = NULL;
    x->batch = vtb__ox_one(x, "Shape", vtb__ox_shape(OX_I64, 1, &one), attrs, 2, OX_IN(input));
  }
}

static vtb_status arguments(ox *x, const vtb_func *f, ox_value **in, vtb_error *err) {
  vtb_status status = VTB_OK;
  x->top->in = VTB_NEW_ARRAY(&x->arena, ox_value *, f->n_args + 1);
  for (int a = 0; a < f->n_args && status == VTB_OK; a++) {
    const vtb_arg_info *info = &f->arg_info[a];
    if (info->role == VTB_ROLE_PARAM || info->role == VTB_ROLE_BUFFER) {
      status = parameter(x, info, &f->args[a]->type, &in[a], err);
      continue;
    }
    ox_type t = vtb__ox_type(&f->args[a]->type);
    in[a] = x->top->in[x->top->n_in++] = vtb__ox_new(x, &t);
    in[a]->name = vtb_arena_strdup(&x->arena, info->official ? info->official : f->args[a]->name);
    find_batch(x, in[a]);
  }
  return status;
}

/* An update, what a training step makes of a buffer, is no output of a run. */
static bool is_update(const vtb_func *f, const char *name) {
  const char prefix[] = "updated.";
  if (!name || !vtb_starts_with(name, prefix)) return false;
  for (int a = 0; a < f->n_args; a++)
    if (f->arg_info[a].role == VTB_ROLE_BUFFER &&
        vtb_streq(f->arg_info[a].official, name + strlen(prefix)))
      return true;
  return false;
}

/* Outputs are made by nodes, each under a name of its own. */
static void results(ox *x, const vtb_func *f, ox_value *const *made) {
  x->top->out = VTB_NEW_ARRAY(&x->arena, ox_value *, f->n_returns + 1);
  for (int r = 0; r < f->n_returns; r++) {
    const char *name = f->return_names ? f->return_names[r] : NULL;
    ox_value *v = made[r];
    if (is_update(f, name)) continue;
    name = name ? vtb_arena_strdup(&x->arena, name) : f->returns[r]->name;
    x->path = name, x->place = NULL;
    if (!v->def || v->name) v = vtb__ox_unary(x, "Identity", v);
    v->name = name;
    x->top->out[x->top->n_out++] = v;
  }
}

static vtb_status make(ox *x, vtb_error *err) {
  const vtb_func *f = x->job->entry;
  ox_value **in = VTB_NEW_ARRAY(&x->arena, ox_value *, f->n_args + 1);
  ox_value **out = VTB_NEW_ARRAY(&x->arena, ox_value *, f->n_returns + 1);
  VTB_TRY(arguments(x, f, in, err));
  vtb__ox_function(x, f, "", in, out);
  if (x->diags->n_errors)
    return vtb_fail(err, VTB_E_INPUT, "%s cannot be written as ONNX", f->name);
  results(x, f, out);
  return VTB_OK;
}

vtb_status vtb_onnx_write(const vtb_onnx_job *job, const char *path, vtb_onnx_made *made,
                          vtb_diags *diags, vtb_error *err) {
  ox x = {.job = job, .diags = diags};
  vtb_arena_init(&x.arena);
  x.top = x.at = VTB_NEW(&x.arena, ox_graph);
  *x.top = (ox_graph){.name = vtb_arena_strdup(&x.arena, job->entry->name)};
  vtb_status status = make(&x, err);
  if (status == VTB_OK) status = vtb__ox_write(&x, path, made, err);
  vtb_vec_free(&x.initialisers);
  vtb_map_free(&x.constants);
  vtb_arena_free(&x.arena);
  return status;
}
