/* Damaged files for the readers of weights, images, data sets, checkpoints, built files, plans and
 * texts: see hostile.h. */
#include "codegen/cuda/compile/nvrtc.h"
#include "frontend/compile/driver.h"
#include "runtime/artefact/npy.h"
#include "runtime/artefact/safetensors.h"
#include "runtime/image/image.h"
#include "runtime/launch/launch_check.h"
#include "runtime/launch/launch_plan_file.h"
#include "runtime/launch/threads.h"
#include "runtime/train/train.h"
#include "runtime/runner.h"
#include "runtime/vertebra.h"
#include "tests/hostile/hostile.h"
#include "tests/runtime/fake_program.h"
#include "tests/runtime/sample_plan.h"

#include <jpeglib.h>
#include <zlib.h>

/* ---- weights --------------------------------------------------------------------------------- */

static vtb_status read_safetensors(const char *path, const char *folder, vtb_error *err) {
  (void)folder;
  vtb_weights *w = NULL;
  vtb_status status = vtb_safetensors_load(path, &w, err);
  double sum = 0;
  for (size_t i = 0; status == VTB_OK && i < w->n; i++) {
    double *values = calloc((size_t)w->at[i]->count + 1, sizeof *values);
    if (!values) break;
    vtb_weight_read_f64(w->at[i], values);
    sum += values[0];
    free(values);
  }
  vtb_weights_free(w);
  return isnan(sum) ? VTB_OK : status;
}

static bytes sound_safetensors(void) {
  const char *path = temp_path("sound.safetensors");
  vtb_weights *w = vtb_weights_new();
  float values[24] = {0};
  const int64_t dim[] = {2, 3, 4};
  vtb_weights_put(w, "blocks.0.norm.weight", VTB_ELEM_F32, 3, dim, values);
  vtb_weights_put(w, "head.bias", VTB_ELEM_F16, 1, dim + 2, values);
  vtb_weights_put(w, "steps", VTB_ELEM_I64, 0, dim, values);
  vtb_weights_set_meta(w, "format", "vertebra-weights-1");
  CHECK_OK(vtb_safetensors_save(path, w, err));
  vtb_weights_free(w);
  return hostile_sample(path);
}

static vtb_status read_npy(const char *path, const char *folder, vtb_error *err) {
  (void)folder;
  vtb_weights *w = vtb_weights_new();
  vtb_status status = vtb_npy_load(path, "x", w, err);
  vtb_weights_free(w);
  return status;
}

static bytes sound_npy(void) {
  static unsigned char file[128 + 6 * 4] = "\x93NUMPY\x01\x00\x76\x00";
  char head[119];
  int n =
      snprintf(head, sizeof head, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }");
  memset(file + 10, ' ', 118);
  memcpy(file + 10, head, (size_t)n);
  file[127] = '\n';
  return hostile_copy(file, sizeof file);
}

/* ---- images ---------------------------------------------------------------------------------- */

enum { SIDE = 12 };

static vtb_status read_image(const char *path, const char *folder, vtb_error *err) {
  (void)folder;
  vtb_image im = {0}, small = {0};
  vtb_status status = vtb_image_load(path, 3, &im, err);
  if (status == VTB_OK && (int64_t)im.width * im.height < 1 << 20)
    small = vtb_image_resize(&im, 5, 7, VTB_FILTER_BICUBIC);
  vtb_image_free(&small);
  vtb_image_free(&im);
  return status;
}

static vtb_image picture(void) {
  vtb_image im = vtb_image_new(SIDE, SIDE, 3);
  for (int i = 0; i < SIDE * SIDE * 3; i++) im.pixels[i] = (uint8_t)(i * 7 % 251);
  return im;
}

static bytes sound_png(void) {
  vtb_image im = picture();
  CHECK_OK(vtb_image_save_png(temp_path("sound.png"), &im, err));
  vtb_image_free(&im);
  return hostile_sample(temp_path("sound.png"));
}

static bytes sound_jpeg(void) {
  vtb_image im = picture();
  struct jpeg_compress_struct j;
  struct jpeg_error_mgr errors;
  unsigned char *data = NULL;
  unsigned long n = 0;
  j.err = jpeg_std_error(&errors);
  jpeg_create_compress(&j);
  jpeg_mem_dest(&j, &data, &n);
  j.image_width = j.image_height = SIDE;
  j.input_components = 3;
  j.in_color_space = JCS_RGB;
  jpeg_set_defaults(&j);
  jpeg_simple_progression(&j);
  jpeg_start_compress(&j, TRUE);
  while (j.next_scanline < SIDE) {
    JSAMPROW row = im.pixels + (size_t)j.next_scanline * SIDE * 3;
    jpeg_write_scanlines(&j, &row, 1);
  }
  jpeg_finish_compress(&j);
  jpeg_destroy_compress(&j);
  vtb_image_free(&im);
  return (bytes){data, n};
}

/* ---- data sets ------------------------------------------------------------------------------- */

static vtb_status read_dataset(const char *path, const char *folder, vtb_error *err) {
  (void)path;
  vtb_dataset *d = NULL;
  vtb_status status = vtb_dataset_open(folder, NULL, &d, err);
  for (int64_t i = 0; status == VTB_OK && i < vtb_dataset_count(d) && i < 50; i++) {
    vtb_image im = {0};
    status = vtb_dataset_image(d, i, 1, &im, err);
    vtb_image_free(&im);
  }
  vtb_dataset_free(d);
  return status;
}

static void beside_idx_images(const char *folder) {
  char path[600];
  unsigned char labels[8 + 20] = {0, 0, 8, 1, 0, 0, 0, 20};
  snprintf(path, sizeof path, "%s/train-labels-idx1-ubyte", folder);
  write_file(path, labels, sizeof labels);
}

static bytes sound_idx_images(bool packed) {
  static unsigned char file[16 + 20 * 36] = {0, 0, 8, 3, 0, 0, 0, 20, 0, 0, 0, 6, 0, 0, 0, 6};
  for (size_t i = 16; i < sizeof file; i++) file[i] = (unsigned char)(i * 13);
  if (!packed) return hostile_copy(file, sizeof file);
  const char *path = temp_path("images.gz");
  gzFile z = gzopen(path, "wb");
  gzwrite(z, file, sizeof file);
  gzclose(z);
  return hostile_sample(path);
}

static void beside_idx_labels(const char *folder) {
  char path[600];
  bytes images = sound_idx_images(false);
  snprintf(path, sizeof path, "%s/train-images-idx3-ubyte", folder);
  write_file(path, images.at, images.n);
  free(images.at);
}

static bytes sound_idx_labels(void) {
  static unsigned char file[8 + 20] = {0, 0, 8, 1, 0, 0, 0, 20};
  for (size_t i = 8; i < sizeof file; i++) file[i] = (unsigned char)(i % 4);
  return hostile_copy(file, sizeof file);
}

/* ---- checkpoints ----------------------------------------------------------------------------- */

static vtb_dataset *train_set;
static vtb_program step_program;

static vtb_train_config training(const vtb_services *s, const char *path) {
  vtb_train_config c = vtb_train_defaults();
  step_program = fake_step_program();
  c.step = &step_program, c.services = s, c.train_set = train_set;
  CHECK_OK(vtb_transform_init(&c.train_transform, train_set, 1, FAKE_SIDE, FAKE_SIDE, err));
  c.optim.clip_norm = 1, c.optim.ema_decay = 0.9;
  c.epochs = 2, c.seed = 3, c.max_steps = 7, c.checkpoint = path, c.resume = true;
  return c;
}

static vtb_status read_checkpoint(const char *path, const char *folder, vtb_error *err) {
  (void)folder;
  vtb_services *s = vtb_services_default(1);
  vtb_train_config c = training(s, path);
  vtb_trainer *t = NULL;
  vtb_status status = vtb_trainer_open(&c, &t, err);
  vtb_trainer_close(t);
  vtb_services_free(s);
  return status;
}

static bytes sound_checkpoint(void) {
  char path[512];
  snprintf(path, sizeof path, "%s", temp_path("sound_checkpoint.safetensors"));
  fake_dataset("data", "train", 40, 1);
  CHECK_OK(vtb_dataset_open(temp_path("data"), NULL, &train_set, err));
  vtb_services *s = vtb_services_default(1);
  vtb_train_config c = training(s, path);
  vtb_trainer *t = NULL;
  CHECK_OK(vtb_trainer_open(&c, &t, err));
  if (!t) exit(1);
  CHECK_OK(vtb_trainer_run(t, NULL, err));
  vtb_trainer_close(t);
  vtb_services_free(s);
  return hostile_sample(path);
}

/* As earlier versions wrote it, without a checksum: the damage reaches what reads the content. */
static bytes checkpoint_without_checksum(void) {
  bytes b = hostile_sample(temp_path("sound_checkpoint.safetensors"));
  unsigned char *key = memmem(b.at, b.n, "\"xxh3\"", 6);
  CHECK(key != NULL);
  if (key) memcpy(key, "\"none\"", 6);
  return b;
}

/* ---- built files, plans, compiled kernels ---------------------------------------------------- */

static const char small_model[] =
    "use std.nn\n"
    "use std.conv\n"
    "/* a block */\n"
    "block mlp(x: tokens, width: int = 8) {\n"
    "  return x + linear(\"down\", gelu(linear(\"up\", x, width)), 4)\n"
    "}\n"
    "model tiny(depth: int = 2, wide: bool = true) {\n"
    "  input image: image[1, 6, 6]\n"
    "  x = linear(\"embed\", pixels(image), 4)\n"
    "  repeat depth as i scope \"layers.{i}\" {\n"
    "    if wide { x = mlp(x) } else { x = mlp(x, width = 4) }\n"
    "  }\n"
    "  output logits = linear(\"head\", mean(x, axis = \"tokens\"), 4)\n"
    "}\n";

static vtb_compile_options compile_options(const char *text, size_t n) {
  return (vtb_compile_options){
      .size = sizeof(vtb_compile_options), .model = "tiny.vtb", .text = text, .text_bytes = n};
}

static vtb_status read_built(const char *path, const char *folder, vtb_error *err) {
  (void)folder;
  vtb_model *m = NULL;
  vtb_session *s = NULL;
  vtb_open_options o = {.size = sizeof o, .verify = true};
  vtb_session_options step = {.size = sizeof step, .threads = 1};
  vtb_status status = vtb_model_open(path, &o, &m, err);
  if (status == VTB_OK) status = vtb_session_open(m, &step, &s, err);
  if (status == VTB_OK) status = vtb_session_run(s, 1, err);
  vtb_session_close(s);
  vtb_model_release(m);
  return status;
}

static void write_parameters(const vtb_compile_options *o, const char *path) {
  vtb_program *p = NULL;
  vtb_runner *m = NULL;
  CHECK(vtb_compile(o, &p, NULL) == VTB_OK);
  CHECK_OK(vtb_runner_new(p, 1, &m, err));
  CHECK_OK(vtb_runner_init(m, 3, err));
  CHECK_OK(vtb_runner_save(m, path, err));
  vtb_runner_free(m);
}

static bytes sound_built(void) {
  char path[512], weights[512];
  snprintf(path, sizeof path, "%s", temp_path("sound.so"));
  snprintf(weights, sizeof weights, "%s", temp_path("parameters.safetensors"));
  vtb_compile_options o = compile_options(small_model, 0);
  write_parameters(&o, weights);
  o.weights = weights;
  vtb_report *r = vtb_report_new();
  vtb_status status = vtb_compile_file(&o, path, r);
  if (status != VTB_OK) fprintf(stderr, "%s\n", vtb_report_text(r, false));
  CHECK(status == VTB_OK);
  vtb_report_free(r);
  return hostile_sample(path);
}

static vtb_status read_plan(const char *path, const char *folder, vtb_error *err) {
  (void)folder;
  char *data;
  size_t n;
  vtb_launch_plan *p = NULL;
  vtb_status status = vtb_file_read(path, 1 << 20, &data, &n, err);
  if (status != VTB_OK) return status;
  status = vtb_launch_plan_read(data, n, &p, err);
  if (status == VTB_OK && vtb_launch_plan_check(p, NULL, err) == VTB_E_MEMORY)
    status = VTB_E_MEMORY;
  vtb_launch_plan_free(p);
  free(data);
  return status;
}

static bytes sound_plan(void) {
  vtb_strbuf out = {0};
  vtb_launch_plan *p = sample_plan();
  vtb_launch_plan_write(p, &out);
  vtb_launch_plan_free(p);
  return (bytes){(unsigned char *)out.at, out.n};
}

#define CACHED "vertebra/cuda/00112233445566778899aabbccddeeff"

static vtb_cuda_key cached_key(const char *home) {
  vtb_cuda_key key = {"00112233445566778899aabbccddeeff"};
  setenv("XDG_CACHE_HOME", home, 1);
  return key;
}

/* A file of the cache that is not as it was written is as if it were not there. */
static vtb_status read_cached(const char *path, const char *folder, vtb_error *err) {
  (void)path;
  vtb_cuda_key key = cached_key(folder);
  vtb_cuda_code code = {0};
  if (!vtb__cuda_cache_get(&key, &code)) return vtb_fail(err, VTB_E_INPUT, "as if not there");
  vtb_cuda_code_free(&code);
  return VTB_OK;
}

static void beside_cached(const char *folder) {
  char path[600];
  snprintf(path, sizeof path, "%s/vertebra/cuda", folder);
  CHECK_OK(vtb_make_dirs(path, err));
}

static bytes sound_cached(void) {
  static char image[] = "an image", log[] = "a log";
  vtb_cuda_key key = cached_key(temp_path("cache"));
  vtb_cuda_code code = {.data = image, .n_bytes = sizeof image, .log = log};
  CHECK_OK(vtb_make_dirs(temp_path("cache"), err));
  vtb__cuda_cache_put(&key, &code, 0);
  return hostile_sample(temp_path("cache/" CACHED));
}

/* ---- texts ----------------------------------------------------------------------------------- */

static vtb_status read_text(const char *path, const char *folder, vtb_error *err) {
  (void)folder;
  char *data, *text = NULL;
  size_t n;
  vtb_status status = vtb_file_read(path, 1 << 20, &data, &n, err);
  if (status != VTB_OK) return status;
  vtb_compile_options o = compile_options(data, n);
  vtb_report *r = vtb_report_new();
  status = n ? vtb_compile_stage(&o, "graph", NULL, &text, r) : VTB_OK;
  const vtb_diagnostic *first;
  if (status != VTB_OK)
    vtb_fail(err, status, "%s",
             vtb_report_diagnostics(r, &first) ? first->text : vtb_report_error(r));
  vtb_report_free(r);
  free(text);
  free(data);
  return status;
}

static bytes sound_text(void) { return hostile_copy(small_model, sizeof small_model - 1); }

/* ---- all ------------------------------------------------------------------------------------- */

TEST(damaged_files_are_refused_with_a_sentence) {
  const hostile_format formats[] = {
      {"safetensors", "w.safetensors", sound_safetensors(), read_safetensors, NULL, 200},
      {"npy", "x.npy", sound_npy(), read_npy, NULL, 100},
      {"png", "i.png", sound_png(), read_image, NULL, 150},
      {"jpeg", "i.jpg", sound_jpeg(), read_image, NULL, 40},
      {"idx", "train-images-idx3-ubyte", sound_idx_images(false), read_dataset, beside_idx_images,
       80},
      {"idx_gz", "train-images-idx3-ubyte.gz", sound_idx_images(true), read_dataset,
       beside_idx_images, 150},
      {"idx_labels", "train-labels-idx1-ubyte", sound_idx_labels(), read_dataset, beside_idx_labels,
       80},
      {"checkpoint", "c.safetensors", sound_checkpoint(), read_checkpoint, NULL, 150},
      {"checkpoint_old", "c.safetensors", checkpoint_without_checksum(), read_checkpoint, NULL,
       100},
      {"built", "m.so", sound_built(), read_built, NULL, 300},
      {"cubin", CACHED, sound_cached(), read_cached, beside_cached, 300},
      {"plan", "m.plan", sound_plan(), read_plan, NULL, 100},
      {"vtb", "m.vtb", sound_text(), read_text, NULL, 100},
  };
  for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
    hostile_check(&formats[i]);
    free(formats[i].sound.at);
  }
  vtb_dataset_free(train_set);
}

int main(void) {
  setenv("VTB_MODELS", VTB_SOURCE_DIR "/models", 1);
  RUN(damaged_files_are_refused_with_a_sentence);
  return test_done();
}
