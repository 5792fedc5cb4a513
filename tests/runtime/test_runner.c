#include "runtime/artefact/safetensors.h"
#include "runtime/launch/threads.h"
#include "runtime/runner.h"
#include "tests/runtime/fake_program.h"

static int freed;
static void count_free(void *owner) { freed += owner == &freed; }

TEST(a_runner_loads_runs_and_saves) {
  vtb_program p = fake_eval_program();
  p.owner = &freed, p.free = count_free;
  vtb_runner *m = NULL;
  int64_t n;
  CHECK_OK(vtb_runner_new(&p, 2, &m, err));
  CHECK(vtb_runner_batch(m) == FAKE_BATCH && vtb_runner_tensors(m, NULL) == 4);
  float *image = vtb_runner_input(m, "image", &n), *bias = vtb_runner_param(m, "bias", NULL);
  CHECK(n == FAKE_BATCH * FAKE_PIXELS && image == vtb_runner_input(m, NULL, NULL));
  CHECK((uintptr_t)image % 64 == 0);
  for (int64_t i = 0; i < n; i++) image[i] = 1;
  CHECK_OK(vtb_runner_init(m, 3, err));
  bias[2] = 100;
  CHECK_OK(vtb_runner_run(m, err));
  const float *logits = vtb_runner_output(m, "logits", &n);
  CHECK(n == FAKE_BATCH * FAKE_CLASSES && logits == vtb_runner_output(m, NULL, NULL));
  CHECK_NEAR((double)logits[2], 100, 2);
  double kept = (double)logits[1];

  CHECK_OK(vtb_runner_save(m, temp_path("m.safetensors"), err));
  vtb_weights *w = NULL;
  CHECK_OK(vtb_safetensors_load(temp_path("m.safetensors"), &w, err));
  CHECK_OK(vtb_runner_init(m, 4, err));
  for (size_t i = 0; i < w->n; i++)
    memcpy(vtb_runner_param(m, w->at[i]->name, NULL), w->at[i]->data, (size_t)w->at[i]->count * 4);
  vtb_weights_free(w);
  CHECK_OK(vtb_runner_run(m, err));
  CHECK((double)logits[1] == kept);

  CHECK(!vtb_runner_input(m, "labels", &n) && n == 0);
  CHECK(!vtb_runner_output(m, "image", NULL));
  vtb_runner_free(m);
  CHECK(freed == 1);
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
  vtb_runner *m = NULL;
  CHECK_OK(vtb_runner_new(&p, 1, &m, err));
  CHECK_OK(vtb_runner_init(m, 3, err));
  for (int way = 0; way < 2; way++) {
    CHECK_OK(vtb_runner_run(m, err));
    CHECK(kept_roles == fixed);
    CHECK_OK(vtb_runner_run(m, err));
    CHECK(kept_roles == fixed);
    if (way == 0) CHECK_OK(vtb_runner_init(m, 4, err));
    if (way == 1) (void)vtb_runner_param(m, "bias", NULL);
    CHECK_MSG(kept_roles == 0, "way %d: %x are kept", way, kept_roles);
  }
  CHECK(keeps == 4); /* once after a change, once after the run that follows */
  vtb_runner_free(m);
}

int main(void) {
  RUN(a_runner_loads_runs_and_saves);
  RUN(changed_parameters_are_not_kept);
  return test_done();
}
