#include "runtime/artefact/safetensors.h"
#include "runtime/launch/threads.h"
#include "runtime/vertebra.h"
#include "tests/runtime/fake_program.h"

static int freed;
static void count_free(void *owner) { freed += owner == &freed; }

TEST(a_model_loads_runs_and_saves) {
  vtb_program p = fake_eval_program();
  p.owner = &freed, p.free = count_free;
  vtb_model *m = NULL;
  int64_t n;
  CHECK_OK(vtb_model_new(&p, 2, &m, err));
  CHECK(vtb_model_batch(m) == FAKE_BATCH && vtb_model_tensors(m, NULL) == 4);
  float *image = vtb_model_input(m, "image", &n), *bias = vtb_model_param(m, "bias", NULL);
  CHECK(n == FAKE_BATCH * FAKE_PIXELS && image == vtb_model_input(m, NULL, NULL));
  CHECK((uintptr_t)image % 64 == 0);
  for (int64_t i = 0; i < n; i++) image[i] = 1;
  CHECK_OK(vtb_model_init(m, 3, err));
  bias[2] = 100;
  CHECK_OK(vtb_model_run(m, err));
  const float *logits = vtb_model_output(m, "logits", &n);
  CHECK(n == FAKE_BATCH * FAKE_CLASSES && logits == vtb_model_output(m, NULL, NULL));
  CHECK_NEAR((double)logits[2], 100, 2);
  double kept = (double)logits[1];

  CHECK_OK(vtb_model_save(m, temp_path("m.safetensors"), err));
  CHECK_OK(vtb_model_init(m, 4, err));
  CHECK_OK(vtb_model_load(m, temp_path("m.safetensors"), err));
  CHECK_OK(vtb_model_run(m, err));
  CHECK((double)logits[1] == kept);

  CHECK(!vtb_model_input(m, "labels", &n) && n == 0);
  CHECK(!vtb_model_output(m, "image", NULL));
  CHECK_REFUSED(vtb_model_set_input(m, "picture", logits, 1, err), "no input picture");
  CHECK_REFUSED(vtb_model_set_input(m, "image", logits, 1, err), "image has 288 elements, not 1");
  CHECK_REFUSED(vtb_model_load(m, temp_path("none.safetensors"), err), "cannot open");
  vtb_weights *w = vtb_weights_new();
  CHECK_OK(vtb_safetensors_save(temp_path("empty.safetensors"), w, err));
  vtb_weights_free(w);
  CHECK_REFUSED(vtb_model_load(m, temp_path("empty.safetensors"), err),
                "empty.safetensors: weights: tensor weight is missing (and 1 more)");
  vtb_model_free(m);
  CHECK(freed == 1);
}

/* Row 2 gets the image as the model says, then as weights say that were loaded; the others stay. */
TEST(images_are_prepared_as_the_model_or_its_weights_say) {
  vtb_program p = fake_eval_program();
  strcpy(p.prepare, "{\"crop\": 0.5, \"mean\": 0.25, \"std\": 2}");
  vtb_model *m = NULL;
  vtb_preparation how;
  CHECK_OK(vtb_model_new(&p, 1, &m, err));
  CHECK_OK(vtb_model_preparation(m, NULL, &how, err));
  CHECK(how.width == FAKE_SIDE && how.crop == 0.5 && (double)how.std[0] == 2);
  vtb_image im = vtb_image_new(9, 7, 3);
  memset(im.pixels, 255, 9 * 7 * 3);
  const float *row = (const float *)vtb_model_input(m, NULL, NULL) + 2 * FAKE_PIXELS;
  CHECK_OK(vtb_model_set_image(m, NULL, 2, &im, err));
  CHECK_NEAR((double)row[0], 0.375, 1e-6);
  CHECK_NEAR((double)row[FAKE_PIXELS - 1], 0.375, 1e-6);
  CHECK(row[-1] == 0 && row[FAKE_PIXELS] == 0);
  CHECK_OK(vtb_image_save_png(temp_path("white.png"), &im, err));
  CHECK_OK(vtb_model_load_image(m, "image", 3, temp_path("white.png"), err));
  CHECK_NEAR((double)row[FAKE_PIXELS], 0.375, 1e-6);

  CHECK_OK(vtb_model_save(m, temp_path("w.safetensors"), err));
  vtb_weights *w = NULL;
  CHECK_OK(vtb_safetensors_load(temp_path("w.safetensors"), &w, err));
  vtb_weights_set_meta(w, "prepare", "{\"mean\": 0}");
  CHECK_OK(vtb_safetensors_save(temp_path("said.safetensors"), w, err));
  CHECK_OK(vtb_model_load(m, temp_path("said.safetensors"), err));
  CHECK_OK(vtb_model_preparation(m, NULL, &how, err));
  CHECK(how.crop == 0.5 && (double)how.mean[0] == 0 && (double)how.std[0] == 2);
  CHECK_OK(vtb_model_set_image(m, NULL, 2, &im, err));
  CHECK_NEAR((double)row[0], 0.5, 1e-6);

  CHECK_REFUSED(vtb_model_set_image(m, NULL, FAKE_BATCH, &im, err), "row 8 of image, which has 8");
  CHECK_REFUSED(vtb_model_set_image(m, NULL, -1, &im, err), "row -1");
  CHECK_REFUSED(vtb_model_set_image(m, "logits", 0, &im, err), "no image input logits");
  CHECK_REFUSED(vtb_model_load_image(m, NULL, 0, temp_path("no.png"), err), "no.png");
  vtb_weights_set_meta(w, "prepare", "{\"std\": 0}");
  CHECK_OK(vtb_safetensors_save(temp_path("bad.safetensors"), w, err));
  CHECK_OK(vtb_model_load(m, temp_path("bad.safetensors"), err));
  CHECK_REFUSED(vtb_model_set_image(m, NULL, 0, &im, err), "the weights: std has 0");
  vtb_weights_free(w);
  vtb_image_free(&im);
  vtb_model_free(m);
}

static unsigned kept_roles;
static int keeps;
static void note_roles(void *owner, unsigned roles) {
  (void)owner;
  kept_roles = roles;
  keeps++;
}

/* After a run a device has the parameters; every way to change them says that it has not. */
TEST(changed_parameters_are_not_kept) {
  const unsigned fixed = 1u << VTB_IO_PARAM | 1u << VTB_IO_BUFFER;
  vtb_program p = fake_eval_program();
  p.keep = note_roles;
  vtb_model *m = NULL;
  CHECK_OK(vtb_model_new(&p, 1, &m, err));
  CHECK_OK(vtb_model_init(m, 3, err));
  CHECK_OK(vtb_model_save(m, temp_path("kept.safetensors"), err));
  for (int way = 0; way < 3; way++) {
    CHECK_OK(vtb_model_run(m, err));
    CHECK(kept_roles == fixed);
    CHECK_OK(vtb_model_run(m, err));
    CHECK(kept_roles == fixed);
    if (way == 0) CHECK_OK(vtb_model_load(m, temp_path("kept.safetensors"), err));
    if (way == 1) CHECK_OK(vtb_model_init(m, 4, err));
    if (way == 2) (void)vtb_model_param(m, "bias", NULL);
    CHECK_MSG(kept_roles == 0, "way %d: %x are kept", way, kept_roles);
  }
  CHECK(keeps == 6); /* once after a change, once after the run that follows */
  vtb_model_free(m);
}

TEST(the_version_is_known) { CHECK(vtb_version()[0] >= '0' && vtb_version()[0] <= '9'); }

int main(void) {
  RUN(a_model_loads_runs_and_saves);
  RUN(images_are_prepared_as_the_model_or_its_weights_say);
  RUN(changed_parameters_are_not_kept);
  RUN(the_version_is_known);
  return test_done();
}
