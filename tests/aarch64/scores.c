/* Prints what a model makes of an image by formula, a number a line: of a file,
 *
 *   scores FILE.so
 *
 * or, compiled with -DLINKED='"nano.h"' -DMODEL=nano_vtb, of the model that is linked in. */
#include <stdio.h>

#include <vertebra.h>
#ifdef LINKED
#include LINKED
#endif

static vtb_status open_model(int argc, char **argv, vtb_model **m, vtb_error *err) {
#ifdef LINKED
  (void)argc, (void)argv;
  return vtb_model_open_static(&MODEL, NULL, m, err);
#else
  return vtb_model_open(argc > 1 ? argv[1] : "", NULL, m, err);
#endif
}

static int64_t count(const vtb_array *a) {
  int64_t n = 1;
  for (int i = 0; i < a->rank; i++) n *= a->dim[i];
  return n;
}

int main(int argc, char **argv) {
  vtb_model *m = NULL;
  vtb_session *s = NULL;
  vtb_error err = {0};
  vtb_array x = {.size = sizeof x}, y = {.size = sizeof y};
  vtb_status status = open_model(argc, argv, &m, &err);
  if (status == VTB_OK) status = vtb_session_open(m, NULL, &s, &err);
  if (status == VTB_OK) status = vtb_session_array(s, VTB_ARRAY_INPUT, NULL, &x, &err);
  for (int64_t i = 0; status == VTB_OK && i < count(&x); i++)
    ((float *)x.data)[i] = (float)(i * 37 % 19) / 19 - 0.4f;
  if (status == VTB_OK) status = vtb_session_run(s, 0, &err);
  if (status == VTB_OK) status = vtb_session_array(s, VTB_ARRAY_OUTPUT, NULL, &y, &err);
  for (int64_t i = 0; status == VTB_OK && i < count(&y); i++)
    printf("%.9g\n", (double)((const float *)y.data)[i]);
  if (status != VTB_OK) fprintf(stderr, "%s\n", err.text);
  vtb_session_close(s);
  vtb_model_release(m);
  return (int)status;
}
