/* Fits a model to targets by gradient descent, with the gradients of a built file: sgd MODEL.so
 * STEPS ROWS, of what `vertebra build MODEL --weights W --vjp` wrote.
 *
 * The loss is of this program alone: half the mean square of y - target, whose adjoint is
 * (y - target) / n. The parameters are this program's memory, which it changes between runs. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vertebra.h>

enum { MOST = 4096 };
static const float rate = 0.5f;

static int fail(const vtb_error *err) {
  fprintf(stderr, "sgd: %s\n", err->text);
  return (int)err->status;
}

static int64_t count(const vtb_array *a) {
  int64_t n = 1;
  for (int i = 0; i < a->rank; i++) n *= a->dim[i];
  return n;
}

/* A parameter in memory of this program's, and its gradient. */
typedef struct parameter {
  vtb_array value, gradient;
} parameter;

/* The parameters that the gradients are by; -1 with a message. */
static int own_parameters(vtb_session *s, const vtb_model *model, parameter *out, vtb_error *err) {
  vtb_program_info p = {.size = sizeof p};
  int number = 0, n = 0;
  while (vtb_model_program(model, number, &p, err) == VTB_OK && p.role != VTB_SESSION_VJP) number++;
  for (int i = 0; i < p.n_arrays && n < MOST; i++) {
    char gradient[512];
    parameter *w = &out[n];
    w->value.size = w->gradient.size = sizeof(vtb_array);
    if (vtb_model_array(model, number, i, &w->value, err) != VTB_OK) return -1;
    if (w->value.kind != VTB_ARRAY_PARAMETER) continue;
    snprintf(gradient, sizeof gradient, "d:%s", w->value.name);
    if (vtb_session_array(s, VTB_ARRAY_GRADIENT, gradient, &w->gradient, err) != VTB_OK) return -1;
    size_t bytes = (size_t)count(&w->value) * sizeof(float);
    const void *from = w->value.data; /* NULL: the file has no weights */
    w->value.data = calloc(1, bytes + 1);
    if (!w->value.data) exit(VTB_E_MEMORY);
    if (from) memcpy(w->value.data, from, bytes);
    if (vtb_session_bind(s, w->value.name, &w->value, err) != VTB_OK) return -1;
    n++;
  }
  return n;
}

static void descend(const parameter *w) {
  float *value = (float *)w->value.data;
  const float *gradient = (const float *)w->gradient.data;
  for (int64_t i = count(&w->value) - 1; i >= 0; i--) value[i] -= rate * gradient[i];
}

/* The loss of the first rows; its adjoint to `dy`. */
static double measure(const vtb_array *y, int64_t rows, float *dy) {
  int64_t n = count(y) / y->dim[0] * rows;
  double sum = 0;
  for (int64_t i = 0; i < n; i++) {
    double off = (double)((const float *)y->data)[i] - (i % 7 == 0);
    sum += off * off / 2;
    dy[i] = (float)(off / (double)n);
  }
  return sum / (double)n;
}

int main(int argc, char **argv) {
  static parameter parameters[MOST];
  vtb_model *model = NULL;
  vtb_session *s = NULL;
  vtb_error err = {0};
  vtb_session_options o = {.size = sizeof o, .role = VTB_SESSION_VJP};
  vtb_array x = {.size = sizeof x}, y = {.size = sizeof y}, dy = {.size = sizeof dy};
  if (argc != 4) {
    fprintf(stderr, "usage: sgd MODEL.so STEPS ROWS\n");
    return VTB_E_USAGE;
  }
  o.batch = atoll(argv[3]); /* rows that a session runs at a time, of programs of any batch */
  if (vtb_model_open(argv[1], NULL, &model, &err) != VTB_OK) return fail(&err);
  if (vtb_session_open(model, &o, &s, &err) != VTB_OK) return fail(&err);
  if (vtb_session_array(s, VTB_ARRAY_INPUT, NULL, &x, &err) != VTB_OK) return fail(&err);
  if (vtb_session_array(s, VTB_ARRAY_OUTPUT, NULL, &y, &err) != VTB_OK) return fail(&err);
  if (vtb_session_array(s, VTB_ARRAY_ADJOINT, NULL, &dy, &err) != VTB_OK) return fail(&err);
  int n = own_parameters(s, model, parameters, &err);
  if (n < 0) return fail(&err);
  for (int64_t i = count(&x) - 1; i >= 0; i--)
    ((float *)x.data)[i] = sinf(0.1f * (float)(i % 977)) + 0.1f * (float)(i % 11);

  /* each run gives y, and the gradients by the adjoint that is there: the first is for y alone */
  int steps = atoi(argv[2]);
  if (vtb_session_run(s, o.batch, &err) != VTB_OK) return fail(&err);
  for (int step = 1; step <= steps; step++) {
    double loss = measure(&y, y.dim[0], (float *)dy.data);
    if (vtb_session_run(s, o.batch, &err) != VTB_OK) return fail(&err);
    for (int i = 0; i < n; i++) descend(&parameters[i]);
    if (vtb_session_run(s, o.batch, &err) != VTB_OK) return fail(&err);
    printf("step %d loss %.6f\n", step, loss);
  }
  for (int i = 0; i < n; i++) free(parameters[i].value.data);
  vtb_session_close(s);
  vtb_model_release(model);
  return 0;
}
