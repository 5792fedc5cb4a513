/* Compares built cases with what they should give, on a machine that cannot compile: linked to the
 * runtime alone.
 *
 *   check_built TARGET TOLERANCE FILE.so CASE.safetensors [FILE CASE]...
 *
 * FILE is what `vertebra build CASE` made. Every output and gradient of the case is compared after
 * the first run and after the third, which on a GPU is the first that replays a graph. An error
 * counts relative to the largest magnitude of its tensor; gradients that nearly cancel (1000 times
 * below their block's largest) relative to that one. Gradients may be off by ten tolerances. A hash
 * of all results tells whether two machines compute the same bits. Exit
 * status 0, 5 if numbers differ, or what kept a file from running. */
#include "runtime/artefact/artefact.h"
#include "runtime/artefact/safetensors.h"
#include "runtime/launch/threads.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

typedef struct check {
  vtb_artefact *file;
  vtb_weights *want; /* the case */
  vtb_program *program;
  vtb_services *services;
  void **args, *workspace;
  double tolerance, worst;
  char worst_name[256];
  int compared, failed;
  uint64_t bits; /* a hash of the results */
} check;

static void free_check(check *c) {
  for (int i = 0; c->args && i < c->program->n_tensors; i++) free(c->args[i]);
  free(c->args);
  free(c->workspace);
  vtb_program_free(c->program);
  vtb_weights_free(c->want);
  vtb_artefact_close(c->file);
  vtb_services_free(c->services);
}

/* What the case calls a tensor of the program; NULL: nothing. */
static const char *case_name(const vtb_tensor_info *t, const vtb_weights *want, vtb_strbuf *buf) {
  const char *plain = vtb_starts_with(t->name, "d:") ? t->name + 2 : t->name;
  const char *prefix = t->io == VTB_IO_INPUT     ? "input/"
                       : t->io == VTB_IO_GRAD_IN ? "probe/"
                                                 : "output/";
  if (t->io == VTB_IO_OUTPUT && vtb_starts_with(t->name, "tap:"))
    prefix = "inter/", plain += strlen("tap:");
  for (int turn = 0; turn < 2; turn++) { /* gradients are a parameter's or an input's */
    if (t->io == VTB_IO_GRAD_OUT) prefix = turn ? "grad_input/" : "grad/";
    buf->n = 0;
    vtb_strbuf_printf(buf, "%s%s", prefix, plain);
    if (vtb_weights_find(want, buf->at)) return buf->at;
  }
  return NULL;
}

static vtb_status fill_input(const vtb_tensor_info *t, const vtb_weight *from, void *to,
                             vtb_error *err) {
  if (from->count != vtb_tensor_info_count(t))
    return vtb_fail(err, VTB_E_INPUT, "%s has another shape", t->name);
  if (t->is_int && from->elem >= VTB_ELEM_I64) return vtb_weight_read_i32(from, to, err);
  if (!t->is_int) {
    vtb_weight_read_f32(from, to);
    return VTB_OK;
  }
  double *wide = vtb_xcalloc((size_t)from->count + 1, sizeof *wide);
  vtb_weight_read_f64(from, wide);
  for (int64_t i = 0; i < from->count; i++) ((int32_t *)to)[i] = (int32_t)wide[i];
  free(wide);
  return VTB_OK;
}

static vtb_status prepare(check *c, vtb_error *err) {
  const vtb_program *p = c->program;
  vtb_strbuf name = {0};
  vtb_status status = VTB_OK;
  c->args = vtb_xcalloc((size_t)p->n_tensors + 1, sizeof *c->args);
  c->workspace = vtb_aligned_alloc((size_t)p->workspace_bytes + 64);
  for (int i = 0; i < p->n_tensors && status == VTB_OK; i++) {
    const vtb_tensor_info *t = &p->tensors[i];
    size_t bytes = (size_t)vtb_tensor_info_count(t) * 4;
    c->args[i] = vtb_aligned_alloc(bytes + 64);
    if (!c->args[i] || !c->workspace) return vtb_fail(err, VTB_E_MEMORY, "out of memory");
    memset(c->args[i], 0xff, bytes);
    if (t->io != VTB_IO_INPUT && t->io != VTB_IO_GRAD_IN) continue;
    const char *key = case_name(t, c->want, &name);
    status = key ? fill_input(t, vtb_weights_find(c->want, key), c->args[i], err)
                 : vtb_fail(err, VTB_E_INPUT, "the case has nothing for %s", t->name);
  }
  vtb_strbuf_free(&name);
  const vtb_weights *params = vtb_artefact_weights(c->file);
  return status == VTB_OK && params ? vtb_weights_bind(p, params, NULL, c->args, NULL, NULL, err)
                                    : status;
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* The repeated unit a name belongs to: up to and including the last component that is a number. */
static size_t block_of(const char *name) {
  size_t end = 0;
  for (const char *p = name; *p;) {
    size_t n = strcspn(p, "./"), digits = 0;
    while (digits < n && isdigit((unsigned char)p[digits])) digits++;
    if (n && digits == n) end = (size_t)(p - name) + n + 1;
    p += n + (p[n] != 0);
  }
  return end ? end : strcspn(name, "/") + 1;
}

static double *numbers(const vtb_weight *t, double *largest) {
  double *x = vtb_xcalloc((size_t)t->count + 1, sizeof *x);
  vtb_weight_read_f64(t, x);
  for (int64_t i = 0; i < t->count; i++) *largest = fmax(*largest, fabs(x[i]));
  return x;
}

static double block_scale(const check *c, const char *name) {
  double largest = 0;
  for (size_t i = 0; i < c->want->n; i++)
    if (strncmp(c->want->at[i]->name, name, block_of(name)) == 0)
      free(numbers(c->want->at[i], &largest));
  return largest;
}

static void compare(check *c, const char *name, const vtb_weight *want, const void *got,
                    bool is_int) {
  double scale = 0, error = 0;
  double *x = numbers(want, &scale);
  bool gradient = vtb_starts_with(name, "grad");
  double tolerance = gradient ? 10 * c->tolerance : c->tolerance;
  for (int64_t i = 0; i < want->count; i++) {
    double y = is_int ? ((const int32_t *)got)[i] : (double)((const float *)got)[i],
           e = y == x[i] ? 0 : fabs(y - x[i]);
    if (!(e <= error)) error = e; /* NaN stays */
  }
  free(x);
  double block = gradient ? block_scale(c, name) : 0;
  if (scale < 1e-3 * block) scale = block;
  double relative = error / (scale > 0 ? scale : 1);
  c->compared++;
  if (!(relative <= c->worst)) {
    c->worst = relative;
    snprintf(c->worst_name, sizeof c->worst_name, "%s", name);
  }
  if (relative <= tolerance) return;
  c->failed++;
  printf("  FAIL %-58s abs %.2e rel %.2e\n", name, error, relative);
}

static void compare_all(check *c) {
  vtb_strbuf name = {0};
  for (int i = 0; i < c->program->n_tensors; i++) {
    const vtb_tensor_info *t = &c->program->tensors[i];
    if (t->io != VTB_IO_OUTPUT && t->io != VTB_IO_GRAD_OUT) continue;
    c->bits = vtb_hash_bytes(c->bits, c->args[i], (size_t)vtb_tensor_info_count(t) * 4);
    const char *key = case_name(t, c->want, &name);
    const vtb_weight *want = key ? vtb_weights_find(c->want, key) : NULL;
    if (want && want->count == vtb_tensor_info_count(t))
      compare(c, key, want, c->args[i], t->is_int);
  }
  vtb_strbuf_free(&name);
}

static vtb_status check_file(const char *target, double tolerance, const char *path,
                             const char *want) {
  check c = {.tolerance = tolerance, .services = vtb_services_default(0), .bits = VTB_HASH_INIT};
  vtb_error err = {0};
  vtb_status status = vtb_safetensors_load(want, &c.want, &err);
  if (status == VTB_OK) status = vtb_artefact_open(path, &c.file, &err);
  if (status == VTB_OK)
    status = vtb_artefact_load(c.file, VTB_ARTEFACT_INFERENCE, target, &c.program, &err);
  if (status == VTB_OK) status = prepare(&c, &err);
  for (int run = 0; run < 3 && status == VTB_OK; run++) {
    status = vtb_program_execute(c.program, c.args, c.workspace, c.services, &err);
    if (status == VTB_OK && run != 1) compare_all(&c);
  }
  if (status == VTB_OK && (c.failed || !c.compared)) status = VTB_E_NUMBERS;
  const char *slash = strrchr(path, '/');
  printf("%-4s %-44s %016llx %3d tensors, worst %.1e (%s)%s%s\n", status ? "FAIL" : "ok",
         slash ? slash + 1 : path, (unsigned long long)c.bits, c.compared, c.worst, c.worst_name,
         err.text[0] ? ": " : "", err.text);
  free_check(&c);
  return status;
}

int main(int argc, char **argv) {
  double tolerance = argc > 2 ? strtod(argv[2], NULL) : 0;
  vtb_status worst = VTB_OK;
  if (argc < 5 || argc % 2 == 0 || !(tolerance > 0)) {
    fprintf(stderr,
            "usage: check_built TARGET TOLERANCE FILE.so CASE.safetensors [FILE CASE]...\n");
    return VTB_E_USAGE;
  }
  for (int i = 3; i + 1 < argc; i += 2) {
    vtb_status status = check_file(argv[1], tolerance, argv[i], argv[i + 1]);
    if (status != VTB_OK) worst = status;
  }
  return (int)worst;
}
