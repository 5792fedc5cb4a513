/* Classifies image files with a built model: classify MODEL.so IMAGE...
 *
 * As many images at a time as the model was built for; the last ones are fewer, and nothing is
 * compiled for that. */
#include <stdio.h>
#include <vertebra.h>

static int fail(const vtb_error *err) {
  fprintf(stderr, "classify: %s\n", err->text);
  return (int)err->status;
}

static void print_best(const char *path, const float *scores, int64_t n) {
  int64_t best = 0;
  for (int64_t i = 1; i < n; i++)
    if (scores[i] > scores[best]) best = i;
  printf("%s: class %lld\n", path, (long long)best);
}

int main(int argc, char **argv) {
  vtb_model *model = NULL;
  vtb_session *session = NULL;
  vtb_error err = {0};
  vtb_array scores = {.size = sizeof scores};
  if (argc < 3) {
    fprintf(stderr, "usage: classify MODEL.so IMAGE...\n");
    return 2;
  }
  /* whoever ships files over a network wants them verified */
  const vtb_open_options options = {.size = sizeof options, .verify = true};
  if (vtb_model_open(argv[1], &options, &model, &err) != VTB_OK) return fail(&err);
  if (vtb_session_open(model, NULL, &session, &err) != VTB_OK) return fail(&err);
  vtb_model_release(model); /* the session has it */

  if (vtb_session_array(session, VTB_ARRAY_OUTPUT, NULL, &scores, &err) != VTB_OK)
    return fail(&err);
  const int64_t batch = scores.dim[0];
  for (int first = 2; first < argc; first += (int)batch) {
    int64_t rows = argc - first < batch ? argc - first : batch;
    for (int64_t i = 0; i < rows; i++)
      if (vtb_session_load_image(session, NULL, i, argv[first + i], &err) != VTB_OK)
        return fail(&err);
    if (vtb_session_run(session, rows, &err) != VTB_OK) return fail(&err);
    for (int64_t i = 0; i < rows; i++)
      print_best(argv[first + i], (const float *)scores.data + i * scores.dim[1], scores.dim[1]);
  }
  vtb_session_close(session);
  return 0;
}
