/* See inputs.h. */
#include "frontend/cli/run/inputs.h"
#include "runtime/artefact/npy.h"
#include "runtime/base/update.h"

#include <math.h>
#include <string.h>

static bool is_image(const vtb_tensor_info *t) {
  return t->io == VTB_IO_INPUT && !t->is_int && t->rank == 4;
}

static bool is_seed(const vtb_tensor_info *t) {
  return t->is_int && t->rank == 0 && vtb_streq(t->name, "seed");
}

/* Filled by `run` itself. */
static bool is_own(const vtb_tensor_info *t) {
  return is_seed(t) || vtb_streq(t->name, VTB_RANK_FIRST);
}

static const vtb_tensor_info *find_input(const vtb_program *p, const char *name) {
  for (int i = 0; i < p->n_tensors; i++)
    if (p->tensors[i].io == VTB_IO_INPUT && strcmp(p->tensors[i].name, name) == 0)
      return &p->tensors[i];
  return NULL;
}

static vtb_status unknown(const vtb_program *p, const char *name, vtb_error *err) {
  vtb_strbuf names = {0};
  for (int i = 0; i < p->n_tensors; i++)
    if (p->tensors[i].io == VTB_IO_INPUT && !is_own(&p->tensors[i]))
      vtb_strbuf_printf(&names, "%s%s", names.n ? ", " : "", p->tensors[i].name);
  vtb_fail(err, VTB_E_USAGE, "the model has no input \"%s\": its inputs are %s", name,
           names.n ? names.at : "none");
  vtb_strbuf_free(&names);
  return VTB_E_USAGE;
}

/* The array of the name, or the file's only one. */
static vtb_status load_array(cli_inputs *in, const char *name, const char *path, vtb_error *err) {
  if (vtb_ends_with(path, ".npy")) return vtb_npy_load(path, name, in->arrays, err);
  vtb_weights *file = NULL;
  vtb_status status = vtb_safetensors_load(path, &file, err);
  if (status != VTB_OK) return status;
  const vtb_weight *w = vtb_weights_find(file, name);
  if (!w && file->n == 1) w = file->at[0];
  if (!w)
    status = vtb_fail(err, VTB_E_INPUT, "%s has no array \"%s\"", path, name);
  else if (!vtb_weights_put(in->arrays, name, w->elem, w->rank, w->dim, w->data))
    status = vtb_fail(err, in->arrays->error.status, "%s", in->arrays->error.text);
  vtb_weights_free(file);
  return status;
}

static vtb_status check_shape(const vtb_tensor_info *t, const vtb_weight *w, vtb_error *err) {
  bool same = w->rank == t->rank && t->rank > 0;
  for (int i = 1; same && i < t->rank; i++) same = w->dim[i] == t->dim[i];
  if (same && w->dim[0] > 0) return VTB_OK;
  if (same)
    return vtb_fail(err, VTB_E_INPUT, "the array for the input \"%s\" has no samples", t->name);
  vtb_strbuf want = {0}, have = {0};
  vtb_shape_print(&have, w->rank, w->dim);
  vtb_shape_print(&want, t->rank, t->dim);
  vtb_fail(
      err, VTB_E_INPUT,
      "the array for the input \"%s\" is %s, and %s is needed, the first axis being the samples",
      t->name, have.at, want.at);
  vtb_strbuf_free(&want);
  vtb_strbuf_free(&have);
  return VTB_E_INPUT;
}

static vtb_status take_input(cli_inputs *in, const vtb_program *p, const char *given,
                             vtb_error *err) {
  const char *eq = strchr(given, '=');
  if (!eq || eq == given || !eq[1])
    return vtb_fail(err, VTB_E_USAGE, "--input is NAME=FILE, not '%s'", given);
  char *name = vtb_xstrdup(given);
  name[eq - given] = '\0';
  const vtb_tensor_info *t = find_input(p, name);
  vtb_status status = t ? load_array(in, name, eq + 1, err) : unknown(p, name, err);
  if (status == VTB_OK) status = check_shape(t, vtb_weights_find(in->arrays, name), err);
  vtb_free(name);
  return status;
}

/* An input that nothing fills would be zeros, without a word. */
static vtb_status check_filled(const cli_inputs *in, const vtb_program *p, vtb_error *err) {
  for (int i = 0; i < p->n_tensors; i++) {
    const vtb_tensor_info *t = &p->tensors[i];
    if (t->io != VTB_IO_INPUT || i == in->image || is_own(t) ||
        vtb_weights_find(in->arrays, t->name))
      continue;
    vtb_strbuf shape = {0};
    vtb_shape_print(&shape, t->rank, t->dim);
    vtb_fail(
        err, VTB_E_USAGE,
        "nothing fills the input \"%s\" %s: give it with --input %s=FILE.npy or a .safetensors "
        "file, the first axis being the samples",
        t->name, shape.at, t->name);
    vtb_strbuf_free(&shape);
    return VTB_E_USAGE;
  }
  return VTB_OK;
}

static vtb_status check_counts(const cli_inputs *in, vtb_error *err) {
  int64_t n = cli_inputs_count(in);
  for (size_t i = 0; i < in->arrays->n; i++) {
    const vtb_weight *w = in->arrays->at[i];
    if (w->dim[0] != n && w->dim[0] != 1)
      return vtb_fail(err, VTB_E_INPUT, "%s has %lld samples, another input %lld", w->name,
                      (long long)w->dim[0], (long long)n);
  }
  return VTB_OK;
}

vtb_status cli_inputs_open(cli_inputs *in, const vtb_program *p, const cli_list *given,
                           vtb_error *err) {
  *in = (cli_inputs){.arrays = vtb_need(vtb_weights_new()), .image = -1};
  vtb_status status = VTB_OK;
  for (size_t i = 0; i < given->n && status == VTB_OK; i++)
    status = take_input(in, p, given->at[i], err);
  for (int i = 0; i < p->n_tensors && in->image < 0; i++)
    if (is_image(&p->tensors[i]) && !vtb_weights_find(in->arrays, p->tensors[i].name))
      in->image = i;
  if (status == VTB_OK) status = check_filled(in, p, err);
  return status == VTB_OK ? check_counts(in, err) : status;
}

void cli_inputs_free(cli_inputs *in) { vtb_weights_free(in->arrays); }

int64_t cli_inputs_count(const cli_inputs *in) {
  int64_t n = 0;
  for (size_t i = 0; i < in->arrays->n; i++)
    if (in->arrays->at[i]->dim[0] > n) n = in->arrays->at[i]->dim[0];
  return n;
}

/* The seed, and the number of the first sample, by which a sample's random numbers are. */
static void fill_own(const cli_inputs *in, vtb_runner *m, int64_t from) {
  const vtb_tensor_info *t;
  int n = vtb_runner_tensors(m, &t);
  for (int i = 0; i < n; i++)
    if (t[i].io == VTB_IO_INPUT && is_own(&t[i]))
      *(int32_t *)(void *)vtb_runner_input(m, t[i].name, NULL) =
          is_seed(&t[i]) ? in->seed : (int32_t)from;
}

vtb_status cli_inputs_fill(const cli_inputs *in, vtb_runner *m, int64_t from, int64_t n,
                           vtb_error *err) {
  vtb_status status = VTB_OK;
  fill_own(in, m, from);
  for (size_t i = 0; i < in->arrays->n; i++) {
    const vtb_weight *w = in->arrays->at[i];
    const vtb_tensor_info *tensors;
    int n_tensors = vtb_runner_tensors(m, &tensors);
    float *to = vtb_runner_input(m, w->name, NULL);
    bool is_int = false;
    for (int k = 0; k < n_tensors; k++)
      if (tensors[k].io == VTB_IO_INPUT && strcmp(tensors[k].name, w->name) == 0)
        is_int = tensors[k].is_int;
    for (int64_t row = 0; row < n && status == VTB_OK; row++) {
      vtb_weight one = *w;
      int64_t sample = w->dim[0] == 1 ? 0 : from + row;
      one.count /= w->dim[0];
      one.data = (char *)w->data + (size_t)(sample * one.count) * vtb_elem_bytes(w->elem);
      if (is_int)
        status = vtb_weight_read_i32(&one, (int32_t *)(void *)to + row * one.count, err);
      else
        vtb_weight_read_f32(&one, to + row * one.count);
    }
  }
  return status;
}

const char *cli_inputs_not_finite(const cli_inputs *in, vtb_runner *m, int64_t row) {
  const vtb_tensor_info *t;
  int n = vtb_runner_tensors(m, &t);
  for (int i = 0; i < n; i++) {
    if (t[i].io != VTB_IO_INPUT || t[i].is_int || !vtb_weights_find(in->arrays, t[i].name))
      continue;
    int64_t count, each;
    const float *at = vtb_runner_input(m, t[i].name, &count);
    each = count / vtb_runner_batch(m);
    for (int64_t k = row * each; k < (row + 1) * each; k++)
      if (!isfinite(at[k])) return t[i].name;
  }
  return NULL;
}
