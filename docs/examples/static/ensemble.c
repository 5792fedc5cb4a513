/* Classifies images with two models that are linked into the program, by the sum of their scores:
 * ensemble IMAGE... There are no files of models to ship or to find. */
#include <stdio.h>
#include <vertebra.h>

#include "first.h"
#include "second.h"

enum { MODELS = 2 };

static int fail(const vtb_error *err) {
  fprintf(stderr, "ensemble: %s\n", err->text);
  return (int)err->status;
}

int main(int argc, char **argv) {
  const vtb_static_model *const linked[MODELS] = {&first_vtb, &second_vtb};
  vtb_session *sessions[MODELS] = {NULL, NULL};
  vtb_array scores[MODELS];
  vtb_error err = {0};
  for (int i = 0; i < MODELS; i++) {
    vtb_model *model = NULL;
    scores[i] = (vtb_array){.size = sizeof scores[i]};
    if (vtb_model_open_static(linked[i], NULL, &model, &err) != VTB_OK ||
        vtb_session_open(model, NULL, &sessions[i], &err) != VTB_OK ||
        vtb_session_array(sessions[i], VTB_ARRAY_OUTPUT, NULL, &scores[i], &err) != VTB_OK)
      return fail(&err);
    vtb_model_release(model); /* the session has it */
  }
  for (int a = 1; a < argc; a++) {
    int64_t best = 0;
    float most = 0;
    for (int i = 0; i < MODELS; i++)
      if (vtb_session_load_image(sessions[i], NULL, 0, argv[a], &err) != VTB_OK ||
          vtb_session_run(sessions[i], 1, &err) != VTB_OK)
        return fail(&err);
    for (int64_t c = 0; c < scores[0].dim[1]; c++) {
      float sum = ((const float *)scores[0].data)[c] + ((const float *)scores[1].data)[c];
      if (c == 0 || sum > most) most = sum, best = c;
    }
    printf("%s: class %lld (%.4f)\n", argv[a], (long long)best, (double)most);
  }
  for (int i = 0; i < MODELS; i++) vtb_session_close(sessions[i]);
  return 0;
}
