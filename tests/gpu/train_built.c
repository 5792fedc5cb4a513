/* Trains built files on a device and on the CPU, on a machine that cannot compile: linked to the
 * runtime alone.
 *
 *   train_built TARGET DATA EPOCHS FILE.so FRACTION [FILE FRACTION]...
 *
 * FILE is what `vertebra build MODEL --train --ema --target cpu,cuda` made; its training must give
 * the losses of the first file's on the CPU, each epoch's within FRACTION of it, in training and in
 * evaluation. Of the first file, too, a run that begins on the target goes on on the CPU. Exit
 * status 0, 5 if a curve departs, or what kept a file from running. tests/gpu/train.sh makes the
 * files and the data.
 */
#include "runtime/artefact/artefact.h"
#include "runtime/launch/threads.h"
#include "runtime/train/train.h"
#include "tests/runtime/schedule.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

enum { MOST_EPOCHS = 64 };

typedef struct curve {
  double loss[MOST_EPOCHS], test[MOST_EPOCHS];
  int n;
  int64_t updates, skipped;
} curve;

static vtb_services *services;
static vtb_dataset *train_set, *test_set;
static int64_t epochs;

static void on_event(void *user, const vtb_train_event *e) {
  curve *c = user;
  c->updates = e->step;
  c->skipped = e->skipped;
  if (e->kind != VTB_TRAIN_EPOCH || e->epoch < 1 || e->epoch > MOST_EPOCHS) return;
  c->loss[e->epoch - 1] = e->loss;
  c->test[e->epoch - 1] = e->eval_loss;
  c->n = (int)e->epoch;
}

static vtb_status transform_for(const vtb_program *p, vtb_transform *t, vtb_error *err) {
  for (int i = 0; i < p->n_tensors; i++) {
    const vtb_tensor_info *x = &p->tensors[i];
    if (x->io == VTB_IO_INPUT && x->rank == 4)
      return vtb_transform_init(t, train_set, (int)x->dim[1], (int)x->dim[2], (int)x->dim[3], err);
  }
  return vtb_fail(err, VTB_E_INPUT, "no image input");
}

static vtb_status train(vtb_program *step, vtb_program *eval, const char *checkpoint,
                        int64_t max_steps, curve *c, vtb_error *err) {
  vtb_train_config o = vtb_train_defaults();
  vtb_trainer *t = NULL;
  int64_t updates = vtb_loader_batches(vtb_dataset_count(train_set), step->batch, true);
  o.step = step, o.eval = eval, o.services = services;
  o.train_set = train_set, o.eval_set = test_set;
  o.optim.clip_norm = 1, o.optim.ema_decay = 0.9;
  o.schedule = warm_schedule(1e-3, updates / 2, epochs * updates);
  o.epochs = epochs, o.seed = 1;
  o.checkpoint = checkpoint, o.resume = checkpoint != NULL, o.max_steps = max_steps;
  o.on_event = on_event, o.user = c;
  vtb_status status = transform_for(step, &o.train_transform, err);
  o.eval_transform = o.train_transform;
  if (status == VTB_OK) status = vtb_trainer_open(&o, &t, err);
  if (status == VTB_OK) status = vtb_trainer_run(t, NULL, err);
  vtb_trainer_close(t);
  return status;
}

static vtb_status train_file(const char *path, const char *target, const char *checkpoint,
                             int64_t max_steps, curve *c, vtb_error *err) {
  vtb_artefact *file = NULL;
  vtb_program *step = NULL, *eval = NULL;
  vtb_status status = vtb_artefact_open(path, &file, err);
  if (status == VTB_OK) status = vtb_artefact_load(file, VTB_ARTEFACT_STEP, target, &step, err);
  if (status == VTB_OK)
    status = vtb_artefact_load(file, VTB_ARTEFACT_INFERENCE, target, &eval, err);
  double start = vtb_now();
  if (status == VTB_OK) status = train(step, eval, checkpoint, max_steps, c, err);
  if (status == VTB_OK)
    printf("%s on %s: %lld updates in %.1f s, %lld skipped\n", path, target, (long long)c->updates,
           vtb_now() - start, (long long)c->skipped);
  vtb_program_free(step);
  vtb_program_free(eval);
  vtb_artefact_close(file);
  return status;
}

static vtb_status agree(const curve *got, const curve *want, double fraction, vtb_error *err) {
  double worst = got->n == want->n && got->n == epochs ? 0 : HUGE_VAL;
  for (int i = 0; i < got->n && i < want->n; i++) {
    double a = got->loss[i] / want->loss[i] - 1, b = got->test[i] / want->test[i] - 1;
    printf("  epoch %d  loss %.5f (%+.5f)  test loss %.5f (%+.5f)\n", i + 1, got->loss[i], a,
           got->test[i], b);
    if (!(fmax(fabs(a), fabs(b)) <= worst))
      worst = fabs(a) > fabs(b) || isnan(a) ? fabs(a) : fabs(b);
  }
  if (worst <= fraction) return VTB_OK;
  return vtb_fail(err, VTB_E_NUMBERS, "a loss departs by %g of itself, %g is allowed", worst,
                  fraction);
}

/* Half on the target, the rest on the CPU. */
static vtb_status moved(const char *path, const char *target, const curve *want, double fraction,
                        vtb_error *err) {
  char checkpoint[64];
  curve c = {0};
  snprintf(checkpoint, sizeof checkpoint, "/tmp/vtb-train-built-%ld.safetensors", (long)getpid());
  vtb_status status = train_file(path, target, checkpoint, want->updates / 2, &c, err);
  if (status == VTB_OK) status = train_file(path, "cpu", checkpoint, 0, &c, err);
  remove(checkpoint);
  return status == VTB_OK ? agree(&c, want, fraction, err) : status;
}

static vtb_status open_data(const char *path, vtb_error *err) {
  vtb_status status =
      vtb_dataset_open(path, &(vtb_dataset_options){.split = "train"}, &train_set, err);
  if (status != VTB_OK) return status;
  return vtb_dataset_open(path, &(vtb_dataset_options){.split = "test"}, &test_set, err);
}

static vtb_status report(vtb_status status, const vtb_error *err, vtb_status worst) {
  if (status != VTB_OK) printf("  FAIL %s\n", err->text);
  fflush(stdout);
  return status != VTB_OK ? status : worst;
}

int main(int argc, char **argv) {
  vtb_error err = {0};
  epochs = argc > 3 ? strtoll(argv[3], NULL, 10) : 0;
  if (argc < 6 || argc % 2 || epochs < 1 || epochs > MOST_EPOCHS) {
    fprintf(stderr, "usage: train_built TARGET DATA EPOCHS FILE.so FRACTION [FILE FRACTION]...\n");
    return VTB_E_USAGE;
  }
  services = vtb_services_default(0);
  curve want = {0};
  vtb_status worst = open_data(argv[2], &err);
  if (worst == VTB_OK) worst = train_file(argv[4], "cpu", NULL, 0, &want, &err);
  worst = report(worst, &err, VTB_OK);
  bool ready = worst == VTB_OK;
  for (int i = 4; i + 1 < argc && ready; i += 2) {
    double fraction = strtod(argv[i + 1], NULL);
    curve got = {0};
    err = (vtb_error){0};
    vtb_status status = train_file(argv[i], argv[1], NULL, 0, &got, &err);
    if (status == VTB_OK) status = agree(&got, &want, fraction, &err);
    if (status == VTB_OK && i == 4) status = moved(argv[i], argv[1], &want, fraction, &err);
    worst = report(status, &err, worst);
  }
  vtb_dataset_free(train_set);
  vtb_dataset_free(test_set);
  vtb_services_free(services);
  return (int)worst;
}
