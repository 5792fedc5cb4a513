/* Every allocation of opening, running, training, reading images and saving fails once, in the
 * runtime as in the libraries below it: a status with a sentence, nothing left behind, and the same
 * bits afterwards. LeakSanitizer sees what is not freed. */
#include "runtime/artefact/safetensors.h"
#include "runtime/launch/threads.h"
#include "runtime/train/train.h"
#include "runtime/vertebra.h"
#include "tests/failing_malloc.h"
#include "tests/runtime/fake_program.h"
#include "tests/runtime/linked_file.h"

#include <cjson/cJSON.h>
#include <dirent.h>
#include <locale.h>
#include <signal.h>
#include <sys/resource.h>

/* Thousands of checkpoints: they need not survive a power cut. */
int fsync(int fd) {
  (void)fd;
  return 0;
}

/* ---- what belongs to the host ---------------------------------------------------------------- */

typedef struct host {
  int n_open;
  mode_t mask;
  const char *json_error;
  char locale[64];
  void (*on_interrupt)(int), (*on_pipe)(int);
} host;

static int count_entries(const char *folder, const char *part) {
  DIR *d = opendir(folder);
  int n = 0;
  for (const struct dirent *e; d && (e = readdir(d));) n += strstr(e->d_name, part) != NULL;
  if (d) closedir(d);
  return n;
}

static host look(void) {
  host h = {.n_open = count_entries("/proc/self/fd", ""),
            .mask = umask(0),
            .json_error = cJSON_GetErrorPtr()};
  struct sigaction a;
  umask(h.mask);
  snprintf(h.locale, sizeof h.locale, "%s", setlocale(LC_ALL, NULL));
  sigaction(SIGINT, NULL, &a), h.on_interrupt = a.sa_handler;
  sigaction(SIGPIPE, NULL, &a), h.on_pipe = a.sa_handler;
  return h;
}

static void check_host(const host *before) {
  host now = look();
  CHECK(now.mask == before->mask);
  CHECK(now.json_error == before->json_error && strcmp(now.locale, before->locale) == 0);
  CHECK(now.on_interrupt == before->on_interrupt && now.on_pipe == before->on_pipe);
  CHECK_MSG(now.n_open == before->n_open, "%d files are open, %d were", now.n_open, before->n_open);
  CHECK_MSG(count_entries(temp_folder, ".tmp-") == 0, "a temporary file is left");
}

/* ---- each allocation in turn ----------------------------------------------------------------- */

typedef vtb_status (*work_fn)(uint64_t *hash, vtb_error *err);

static vtb_status quietly(work_fn work, uint64_t *hash, vtb_error *err) {
  *hash = VTB_HASH_INIT;
  return work(hash, err);
}

/* The first hundreds one by one, then at growing distances. `other`: what failing may be beside
 * VTB_E_MEMORY, where another library says what went wrong. */
static void fail_each(work_fn work, vtb_status other) {
  uint64_t want, hash;
  vtb_error err = {0};
  CHECK_MSG(quietly(work, &want, &err) == VTB_OK, "%s", err.text); /* libraries warm up */
  host before = look();
  int failures = 0;
  for (int64_t n = 1;; n += n < 300 ? 1 : n / 16) {
    err = (vtb_error){0};
    fail_nth(n);
    vtb_status status = quietly(work, &hash, &err);
    bool reached = fail_off();
    failures += status != VTB_OK;
    CHECK_MSG(status == VTB_OK ? hash == want
                               : (status == VTB_E_MEMORY || status == other) && err.text[0],
              "allocation %d: status %d \"%s\"", (int)n, (int)status, err.text);
    check_host(&before);
    if (!reached) break;
  }
  CHECK_MSG(failures > 10, "%d failures", failures);
  CHECK(quietly(work, &hash, NULL) == VTB_OK && hash == want);
}

static void add(uint64_t *hash, const void *p, size_t n) { *hash = vtb_hash_bytes(*hash, p, n); }

/* ---- opening, running, saving ---------------------------------------------------------------- */

static const char *built; /* path of a built file */

static vtb_status run_twice(vtb_session *s, uint64_t *hash, vtb_error *err) {
  vtb_array x = {.size = sizeof x}, y = {.size = sizeof y};
  vtb_status status = vtb_session_array(s, VTB_ARRAY_INPUT, "x", &x, err);
  for (int i = 0; i < 64 && status == VTB_OK; i++) ((float *)x.data)[i] = (float)i;
  for (int run = 0; run < 2 && status == VTB_OK; run++) {
    status = vtb_session_run(s, 0, err);
    if (status == VTB_OK) status = vtb_session_array(s, VTB_ARRAY_OUTPUT, NULL, &y, err);
    if (status == VTB_OK) add(hash, y.data, 64 * sizeof(float));
  }
  return status;
}

/* Takes the model. */
static vtb_status run_and_save(vtb_model *m, vtb_device device, uint64_t *hash, vtb_error *err) {
  vtb_session *s = NULL;
  vtb_session_options options = {.size = sizeof options, .device = device, .threads = 2};
  vtb_status status = vtb_session_open(m, &options, &s, err);
  CHECK(status == VTB_OK || s == NULL);
  if (status == VTB_OK) status = run_twice(s, hash, err);
  if (status == VTB_OK) status = vtb_session_save(s, temp_path("saved.safetensors"), err);
  vtb_session_close(s);
  vtb_model_release(m);
  return status;
}

static vtb_status open_and_run(const vtb_open_options *o, vtb_device device, uint64_t *hash,
                               vtb_error *err) {
  vtb_model *m = NULL;
  vtb_status status = vtb_model_open(built, o, &m, err);
  CHECK(status == VTB_OK || m == NULL);
  return status == VTB_OK ? run_and_save(m, device, hash, err) : status;
}

static vtb_status on_processor(uint64_t *hash, vtb_error *err) {
  vtb_status status = open_and_run(NULL, VTB_DEVICE_CPU, hash, err);
  vtb_open_options saved = {.size = sizeof saved, .weights = temp_path("saved.safetensors")};
  return status == VTB_OK ? open_and_run(&saved, VTB_DEVICE_CPU, hash, err) : status;
}

TEST(opening_and_running_a_file) { fail_each(on_processor, VTB_E_MEMORY); }

static program linked; /* into the program, by hand */

static vtb_status what_is_linked(uint64_t *hash, vtb_error *err) {
  vtb_status status = VTB_OK;
  for (int saved = 0; saved < 2 && status == VTB_OK; saved++) {
    vtb_open_options o = {
        .size = sizeof o, .verify = true, .weights = saved ? temp_path("saved.safetensors") : NULL};
    vtb_model *m = NULL;
    status = vtb_model_open_static((const vtb_static_model *)&linked.linked, &o, &m, err);
    CHECK(status == VTB_OK || m == NULL);
    if (status == VTB_OK) status = run_and_save(m, VTB_DEVICE_CPU, hash, err);
  }
  return status;
}

TEST(opening_and_running_what_is_linked_in) {
  linked = link_sample(make_object());
  linked.linked.bytes = &linked.bytes;
  fail_each(what_is_linked, VTB_E_MEMORY);
  free(linked.image);
}

static void nothing(void *user, const char *line) { (void)user, (void)line; }

/* Parameters of another type are converted, those of another name too, unaligned arrays copied. */
static const char *copied;
static vtb_status with_copies(uint64_t *hash, vtb_error *err) {
  static char bytes[2][64 * 4 + 1];
  vtb_model *m = NULL;
  vtb_session *s = NULL;
  vtb_open_options o = {.size = sizeof o, .weights = copied, .allow_unused = true, .say = nothing};
  vtb_session_options one = {.size = sizeof one, .threads = 1};
  vtb_array a = {.size = sizeof a, .type = VTB_ARRAY_F32, .rank = 1, .dim = {64}};
  vtb_status status = vtb_model_open(built, &o, &m, err);
  if (status == VTB_OK) status = vtb_session_open(m, &one, &s, err);
  for (int i = 0; i < 2 && status == VTB_OK; i++) {
    a.data = bytes[i] + 1;
    status = vtb_session_bind(s, i ? "y" : "x", &a, err);
  }
  if (status == VTB_OK) status = vtb_session_run(s, 0, err);
  if (status == VTB_OK) add(hash, bytes[1], sizeof bytes[1]);
  vtb_session_close(s);
  vtb_model_release(m);
  return status;
}

TEST(copies_of_parameters_and_arrays) {
  double values[64];
  vtb_weights *w = vtb_weights_new();
  for (int i = 0; i < 64; i++) values[i] = i;
  vtb_weights_put(w, "w", VTB_ELEM_F64, 1, (int64_t[]){64}, values);
  copied = temp_path("double.safetensors");
  CHECK_OK(vtb_safetensors_save(copied, w, err));
  fail_each(with_copies, VTB_E_MEMORY);
  vtb_weights_free(w);
  w = vtb_weights_new();
  vtb_weights_put(w, "net.w", VTB_ELEM_F64, 1, (int64_t[]){64}, values);
  vtb_weights_put(w, "net.other", VTB_ELEM_F64, 1, (int64_t[]){64}, values);
  vtb_weights_set_meta(w, "hf.config", "{\"id2label\": {\"0\": \"a\", \"1\": \"b\"}}");
  CHECK_OK(vtb_safetensors_save(copied, w, err));
  vtb_weights_free(w);
  fail_each(with_copies, VTB_E_MEMORY);
}

/* The emulated driver computes another function, which has no parameters. */
static vtb_status on_device(uint64_t *hash, vtb_error *err) {
  vtb_model *m = NULL;
  vtb_session *s = NULL;
  vtb_session_options o = {.size = sizeof o, .device = VTB_DEVICE_CUDA};
  vtb_array y = {.size = sizeof y};
  vtb_status status = vtb_model_open(built, NULL, &m, err);
  if (status == VTB_OK) status = vtb_session_open(m, &o, &s, err);
  for (int run = 0; run < 3 && status == VTB_OK; run++) {
    status = vtb_session_run(s, 0, err);
    if (status == VTB_OK) status = vtb_session_array(s, VTB_ARRAY_OUTPUT, NULL, &y, err);
    if (status == VTB_OK) add(hash, y.data, 64 * sizeof(float));
  }
  vtb_session_close(s);
  vtb_model_release(m);
  return status;
}

TEST(opening_and_running_a_file_on_a_device) { fail_each(on_device, VTB_E_DEVICE); }

/* ---- training -------------------------------------------------------------------------------- */

/* Equations of a sample: its negative. */
static void negative(void *const *args, void *workspace, const vtb_services *s) {
  (void)workspace, (void)s;
  const float *in = args[0];
  float *out = args[1];
  for (int i = 0; i < FAKE_PIXELS; i++) out[i] = 255 - in[i];
}

static vtb_status train_on(const vtb_services *s, const vtb_dataset *train_set,
                           const vtb_dataset *eval_set, uint64_t *hash, vtb_error *err) {
  vtb_program step = fake_step_program(), eval = fake_eval_program();
  vtb_train_config c = vtb_train_defaults();
  vtb_trainer *t = NULL;
  vtb_train_result r = {0};
  c.step = &step, c.eval = &eval, c.services = s;
  vtb_tensor_info tensors[2] = {
      {.name = "image", .io = VTB_IO_INPUT, .rank = 4, .dim = {1, 1, FAKE_SIDE, FAKE_SIDE}}};
  tensors[1] = tensors[0];
  tensors[1].io = VTB_IO_OUTPUT;
  const vtb_program equations = {
      .entry = negative, .n_tensors = 2, .tensors = tensors, .batch = 1, .workspace_bytes = 64};
  const vtb_augment augment = {.program = &equations, .where = "m.vtb:1"};
  c.augments = &augment, c.n_augments = 1;
  c.train_set = train_set, c.eval_set = eval_set;
  c.optim.ema_decay = 0.9, c.optim.clip_norm = 1;
  c.epochs = 1, c.seed = 3, c.loader_threads = 1, c.recipe = "recipe";
  c.log = temp_path("log"), c.log_steps = 2;
  c.checkpoint = temp_path("checkpoint.safetensors"), c.checkpoint_steps = 3;
  vtb_status status =
      vtb_transform_init(&c.train_transform, train_set, 1, FAKE_SIDE, FAKE_SIDE, err);
  c.eval_transform = c.train_transform;
  c.train_transform.augment.shift = 1;
  if (status == VTB_OK) status = vtb_trainer_open(&c, &t, err);
  if (status == VTB_OK) status = vtb_trainer_run(t, &r, err);
  if (status == VTB_OK) status = vtb_trainer_save_weights(t, temp_path("w.safetensors"), err);
  if (status == VTB_OK) add(hash, vtb_trainer_param(t, "weight", NULL), FAKE_PIXELS * 4);
  if (status == VTB_OK) add(hash, &r.eval_loss, sizeof r.eval_loss);
  vtb_trainer_close(t);
  return status;
}

/* Files are whole or absent. */
static void check_files(void) {
  const char *checkpoint = temp_path("checkpoint.safetensors");
  vtb_weights *w = NULL;
  if (vtb_path_exists(checkpoint)) CHECK_OK(vtb_safetensors_load(checkpoint, &w, err));
  vtb_weights_free(w);
  for (int i = 0; i < 2; i++) {
    const char *log = temp_path(i ? "log.csv" : "log.jsonl");
    size_t n = 0;
    char *text = vtb_path_exists(log) ? read_file(log, &n) : NULL;
    CHECK_MSG(n == 0 || text[n - 1] == '\n', "%s ends within a line", log);
    free(text);
  }
}

static vtb_status train(uint64_t *hash, vtb_error *err) {
  vtb_dataset *train_set = NULL, *eval_set = NULL;
  vtb_services *s = vtb_services_default(2);
  vtb_status status = s ? VTB_OK : vtb_no_memory(err, "services");
  remove(temp_path("checkpoint.safetensors"));
  if (status == VTB_OK) status = vtb_dataset_open(temp_path("data"), NULL, &train_set, err);
  if (status == VTB_OK)
    status = vtb_dataset_open(temp_path("data"), &(vtb_dataset_options){.split = "test"}, &eval_set,
                              err);
  if (status == VTB_OK) status = train_on(s, train_set, eval_set, hash, err);
  vtb_dataset_free(train_set);
  vtb_dataset_free(eval_set);
  vtb_services_free(s);
  bool failing = fail_here;
  fail_here = false;
  check_files();
  fail_here = failing;
  return status;
}

TEST(training) { fail_each(train, VTB_E_MEMORY); }

/* ---- images ---------------------------------------------------------------------------------- */

static vtb_status prepare_image(const char *name, const vtb_transform *t, uint64_t *hash,
                                vtb_error *err) {
  char path[512];
  float chw[3 * 24 * 24];
  vtb_image im = {0};
  snprintf(path, sizeof path, VTB_SOURCE_DIR "/tests/fuzz/corpus/image/%s", name);
  vtb_status status = vtb_image_load(path, 3, &im, err);
  if (status == VTB_OK && !vtb_transform_apply(t, &im, 5, chw)) status = vtb_no_memory(err, path);
  if (status == VTB_OK) status = vtb_image_save_png(temp_path("image.png"), &im, err);
  if (status == VTB_OK) add(hash, chw, sizeof chw);
  vtb_image_free(&im);
  return status;
}

static vtb_status images(uint64_t *hash, vtb_error *err) {
  static const char *const names[] = {"gray_alpha.png", "rgb.png", "tiny.jpg"};
  vtb_transform t = {
      .prepare = {.channels = 3, .height = 24, .width = 24, .std = {1, 1, 1}, .crop = 0.9}};
  vtb_status status = VTB_OK;
  for (int i = 0; i < 3 && status == VTB_OK; i++) {
    status = prepare_image(names[i], &t, hash, err);
    t.augment.scale_min = t.augment.scale_min > 0 ? 0 : 0.3;
    t.augment.shift = 2;
  }
  return status;
}

TEST(reading_images) { fail_each(images, VTB_E_MEMORY); }

static vtb_status folder(uint64_t *hash, vtb_error *err) {
  vtb_dataset *d = NULL;
  vtb_status status = vtb_dataset_open(temp_path("folder"), NULL, &d, err);
  if (status == VTB_OK) add(hash, vtb_dataset_class_name(d, 1), 3);
  vtb_dataset_free(d);
  return status;
}

TEST(opening_a_folder_of_images) {
  vtb_image im = vtb_image_new(4, 4, 3);
  memset(im.pixels, 9, 48);
  CHECK_OK(vtb_make_dirs(temp_path("folder/train/cat"), err));
  CHECK_OK(vtb_make_dirs(temp_path("folder/train/dog"), err));
  CHECK_OK(vtb_image_save_png(temp_path("folder/train/cat/a.png"), &im, err));
  CHECK_OK(vtb_image_save_png(temp_path("folder/train/dog/b.png"), &im, err));
  vtb_image_free(&im);
  fail_each(folder, VTB_E_MEMORY);
}

/* ---- threads --------------------------------------------------------------------------------- */

TEST(without_threads_there_are_fewer_or_an_error) {
  uint64_t want, hash;
  CHECK_OK(quietly(train, &want, err));
  atomic_store(&fail_threads_left, 1); /* a helper or a loader's, but not both */
  CHECK_REFUSED(quietly(train, &hash, err), "cannot start a thread for loading images");
  atomic_store(&fail_threads_left, 0);
  vtb_services *s = vtb_services_default(4);
  CHECK(s && s->n_threads == 1);
  vtb_services_free(s);
  uint64_t on_two, on_one;
  atomic_store(&fail_threads_left, 1 << 20);
  CHECK_OK(quietly(on_processor, &on_two, err));
  atomic_store(&fail_threads_left, 0);
  CHECK_OK(quietly(on_processor, &on_one, err));
  CHECK(on_one == on_two);
  atomic_store(&fail_threads_left, 1 << 20);
}

/* ---- a full disk ----------------------------------------------------------------------------- */

/* As a disk that is full after so many bytes of any one file. */
static void limit_files(rlim_t bytes) {
  struct rlimit l;
  getrlimit(RLIMIT_FSIZE, &l);
  l.rlim_cur = bytes;
  setrlimit(RLIMIT_FSIZE, &l);
}

TEST(a_full_disk_leaves_the_file_that_was_there) {
  const char *path = temp_path("kept.safetensors");
  vtb_model *m = NULL;
  vtb_session *s = NULL;
  size_t n_before, n_after;
  CHECK_OK(vtb_model_open(built, NULL, &m, err));
  CHECK_OK(vtb_session_open(m, NULL, &s, err));
  CHECK_OK(vtb_session_save(s, path, err));
  char *was = read_file(path, &n_before);
  host before = look();
  void (*old)(int) = signal(SIGXFSZ, SIG_IGN);
  for (rlim_t limit = 0; limit < n_before; limit += 100) {
    limit_files(limit);
    CHECK_REFUSED(vtb_session_save(s, path, err), path);
    limit_files(RLIM_INFINITY);
    char *is = read_file(path, &n_after);
    CHECK(n_after == n_before && memcmp(is, was, n_after) == 0);
    free(is);
    check_host(&before);
  }
  for (rlim_t limit = 50; limit < 1000; limit += 300) {
    uint64_t hash;
    limit_files(limit);
    CHECK_REFUSED(quietly(train, &hash, err), "cannot write ");
    limit_files(RLIM_INFINITY);
    check_files();
  }
  signal(SIGXFSZ, old);
  free(was);
  vtb_session_close(s);
  vtb_model_release(m);
}

int main(void) {
  setenv("VTB_CUDA_DRIVER", VTB_FAKE_CUDA, 1);
  cJSON_Delete(cJSON_Parse("{\"what the host parsed\": nonsense}"));
  sample *file = make();
  char path[512];
  snprintf(path, sizeof path, "%s", temp_path("built.so"));
  built = path;
  CHECK_OK(write_sample(file, built, err));
  free(file);
  fake_dataset("data", "train", 60, 1);
  fake_dataset("data", "t10k", 20, 2);
  RUN(opening_and_running_a_file);
  RUN(opening_and_running_what_is_linked_in);
  RUN(copies_of_parameters_and_arrays);
  RUN(opening_and_running_a_file_on_a_device);
  RUN(training);
  RUN(reading_images);
  RUN(opening_a_folder_of_images);
  RUN(without_threads_there_are_fewer_or_an_error);
  RUN(a_full_disk_leaves_the_file_that_was_there);
  return test_done();
}
