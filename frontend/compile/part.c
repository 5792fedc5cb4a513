/* Entries that are no models: shapes of their tensors, and their gradients as programs. */
#include "frontend/compile/driver.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

/* ---- shapes ---------------------------------------------------------------------------------- */

/* "8x196x192", "Bx196", "" of a scalar. */
static bool read_dims(const char *text, vtb_type *t) {
  *t = (vtb_type){.dtype = VTB_F32};
  while (*text) {
    char *end = NULL;
    long long n = 0;
    if (t->rank == VTB_MAX_RANK) return false;
    if (*text == 'B' && t->rank == 0)
      n = VTB_DYN, end = (char *)(uintptr_t)text + 1;
    else if (*text >= '0' && *text <= '9')
      n = strtoll(text, &end, 10);
    if (!end || n == 0 || n > INT32_MAX || (*end && (*end != 'x' || !end[1]))) return false;
    t->dim[t->rank++] = (vtb_dim){n, n == VTB_DYN ? "B" : NULL};
    text = *end ? end + 1 : end;
  }
  return true;
}

vtb_status vtb_compile_shapes(const vtb_compile_options *o, vtb_arena *arena,
                              vtb_shape_bindings *out, vtb_error *err) {
  for (size_t i = 0; i < o->n_shapes; i++) {
    const char *text = o->shapes[i], *eq = strchr(text, '=');
    vtb_shape_binding b;
    if (!eq || eq == text || !read_dims(eq + 1, &b.type))
      return vtb_fail(err, VTB_E_USAGE,
                      "a shape is NAME=SIZES, x=8x196x192 or x=Bx196x192, not '%s'", text);
    b.name = vtb_arena_strndup(arena, text, (size_t)(eq - text));
    for (size_t k = 0; k < out->n; k++)
      if (strcmp(out->at[k].name, b.name) == 0)
        return vtb_fail(err, VTB_E_USAGE, "the shape of '%s' is given twice", b.name);
    vtb_vec_push(out, b);
  }
  return VTB_OK;
}

/* ---- outputs --------------------------------------------------------------------------------- */

static int find_output(const vtb_func *f, const char *name) {
  for (int r = 0; r < f->n_returns; r++)
    if (vtb_streq(f->return_names[r], name)) return r;
  return -1;
}

vtb_status vtb_compilation_outputs(vtb_compilation *c) {
  const vtb_compile_options *o = &c->options;
  vtb_func *f = c->module->entry;
  if (!o->n_outputs) return VTB_OK;
  vtb_value **values = vtb_xcalloc(o->n_outputs, sizeof *values);
  vtb_status status = VTB_OK;
  for (size_t i = 0; i < o->n_outputs && status == VTB_OK; i++) {
    int r = find_output(f, o->outputs[i]);
    if (r < 0)
      status =
          vtb_fail(&c->report->error, VTB_E_USAGE, "%s has no output '%s'", f->name, o->outputs[i]);
    else
      values[i] = f->returns[r];
  }
  if (status == VTB_OK) vtb_func_set_returns(f, values, o->outputs, (int)o->n_outputs);
  vtb_free(values);
  return status;
}

/* ---- gradients ------------------------------------------------------------------------------- */

static bool is_wanted(const vtb_compile_options *o, const vtb_func *f, int arg, bool *matched) {
  const vtb_arg_info *info = &f->arg_info[arg];
  const char *name = info->official ? info->official : f->args[arg]->name;
  bool floats = f->args[arg]->type.dtype == VTB_F32, wanted = !o->n_wrt;
  if (info->role != VTB_ROLE_INPUT && info->role != VTB_ROLE_PARAM) return false;
  for (size_t i = 0; i < o->n_wrt && floats; i++)
    if (fnmatch(o->wrt[i], name, 0) == 0) wanted = matched[i] = true;
  return floats && wanted;
}

typedef struct request {
  int *outs, *wrt;
  int n_outs, n_wrt;
} request;

static vtb_status ask(const vtb_compilation *c, const vtb_func *f, request *q, vtb_error *err) {
  const vtb_compile_options *o = &c->options;
  bool *matched = vtb_xcalloc(o->n_wrt + 1, sizeof *matched);
  vtb_status status = VTB_OK;
  q->outs = vtb_xcalloc((size_t)f->n_returns + 1, sizeof *q->outs);
  q->wrt = vtb_xcalloc((size_t)f->n_args + 1, sizeof *q->wrt);
  for (int r = 0; r < f->n_returns; r++)
    if (f->returns[r]->type.dtype == VTB_F32) q->outs[q->n_outs++] = r;
  for (int a = 0; a < f->n_args; a++)
    if (is_wanted(o, f, a, matched)) q->wrt[q->n_wrt++] = a;
  for (size_t i = 0; i < o->n_wrt && status == VTB_OK; i++)
    if (!matched[i])
      status = vtb_fail(err, VTB_E_USAGE, "%s has no input or parameter '%s' that holds floats",
                        f->name, o->wrt[i]);
  if (status == VTB_OK && !q->n_outs)
    status = vtb_fail(err, VTB_E_INPUT, "%s has no output that holds floats", f->name);
  if (status == VTB_OK && !q->n_wrt)
    status = vtb_fail(err, VTB_E_INPUT, "%s has nothing that a gradient could be by", f->name);
  vtb_free(matched);
  return status;
}

vtb_status vtb_compilation_part(vtb_compilation *c) {
  vtb_compile_part part = c->options.part;
  request q = {0};
  if (part == VTB_PART_VALUE) return VTB_OK;
  vtb_status status = ask(c, c->module->entry, &q, &c->report->error);
  if (status == VTB_OK && part == VTB_PART_GRADIENT)
    status = vtb_compilation_gradient(c, q.outs, q.n_outs, q.wrt, q.n_wrt);
  else if (status == VTB_OK)
    status = vtb_compilation_half(c, part == VTB_PART_BACKWARD, q.outs, q.n_outs, q.wrt, q.n_wrt);
  vtb_free(q.outs);
  vtb_free(q.wrt);
  if (status == VTB_OK) c->module->entry = vtb_module_find(c->module, c->func);
  return status;
}
