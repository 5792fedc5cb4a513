/* Small data sets for the command-line tests, the same at every run:
 *   make_data masks DIR TRAIN TEST        16 x 16 images with a square or a bar, and their classes
 *   make_data series FILE TRAIN TEST      arrays x [32, 2], label, target [4], mask [32]
 *   make_data npy DIR N                   x.npy [32, 2] and label.npy
 *   make_data arrays FILE N WHAT...       of N samples each: x=2x16 numbers, label:3 classes
 *   make_data classes DIR N NAME...       N 16 x 16 images of a colour in a folder of its name
 *   make_data poison FILE FILE            weights with a NaN in every tensor
 */
#include "runtime/artefact/safetensors.h"
#include "runtime/base/random.h"
#include "runtime/image/image.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE = 16, STEPS = 32 };

static void fail(const vtb_error *err) {
  fprintf(stderr, "make_data: %s\n", err->text);
  exit(1);
}

static void save(const char *folder, const char *kind, int i, const vtb_image *im) {
  vtb_error err = {0};
  char path[1024];
  snprintf(path, sizeof path, "%s/%s", folder, kind);
  if (vtb_make_dirs(path, &err) != VTB_OK) fail(&err);
  snprintf(path, sizeof path, "%s/%s/%03d.png", folder, kind, i);
  if (vtb_image_save_png(path, im, &err) != VTB_OK) fail(&err);
}

static void masks(const char *folder, const char *split, int n, uint64_t seed) {
  char path[900];
  snprintf(path, sizeof path, "%s/%s", folder, split);
  for (int i = 0; i < n; i++) {
    vtb_image im = vtb_image_new(SIDE, SIDE, 3), mask = vtb_image_new(SIDE, SIDE, 1);
    uint64_t r = vtb_random_u64(seed, (uint64_t)i);
    int x0 = (int)(r % 8), y0 = (int)(r / 8 % 8), kind = 1 + i % 2;
    int w = kind == 1 ? 6 : 3, h = kind == 1 ? 6 : 10;
    for (int y = 0; y < SIDE; y++)
      for (int x = 0; x < SIDE; x++) {
        bool inside = x >= x0 && x < x0 + w && y >= y0 && y < y0 + h;
        int p = y * SIDE + x, noise = (int)(vtb_random_u64(r, (uint64_t)p) % 40);
        im.pixels[3 * p] = (uint8_t)(noise + (inside && kind == 1 ? 180 : 20));
        im.pixels[3 * p + 1] = (uint8_t)(noise + (inside && kind == 2 ? 180 : 20));
        im.pixels[3 * p + 2] = (uint8_t)(noise + 60);
        mask.pixels[p] = (uint8_t)(x == 0 ? 255 : inside ? kind : 0); /* the border is ignored */
      }
    save(path, "images", i, &im);
    save(path, "labels", i, &mask);
    vtb_image_free(&im);
    vtb_image_free(&mask);
  }
}

/* Waves of a frequency that the label says, and what can be asked about them. */
static void series(vtb_weights *w, const char *split, int64_t n, uint64_t seed) {
  const int64_t of_x[] = {n, STEPS, 2}, of_label[] = {n}, of_target[] = {n, 4},
                of_mask[] = {n, STEPS};
  char name[64];
  snprintf(name, sizeof name, "%sx", split);
  float *x = vtb_weights_add(w, name, VTB_ELEM_F32, 3, of_x)->data;
  snprintf(name, sizeof name, "%slabel", split);
  int64_t *label = vtb_weights_add(w, name, VTB_ELEM_I64, 1, of_label)->data;
  snprintf(name, sizeof name, "%starget", split);
  float *target = vtb_weights_add(w, name, VTB_ELEM_F32, 2, of_target)->data;
  snprintf(name, sizeof name, "%smask", split);
  int32_t *mask = vtb_weights_add(w, name, VTB_ELEM_I32, 2, of_mask)->data;
  for (int64_t i = 0; i < n; i++) {
    double phase = 6.28 * vtb_random_unit(seed, (uint64_t)i);
    label[i] = i % 3;
    for (int c = 0; c < 4; c++) target[4 * i + c] = (float)(c == i % 3 ? 1 : -0.5);
    for (int t = 0; t < STEPS; t++) {
      double v = sin(phase + 0.3 * (double)(1 + 2 * (i % 3)) * t);
      x[2 * (STEPS * i + t)] = (float)v;
      x[2 * (STEPS * i + t) + 1] = (float)vtb_random_unit(seed + 1, (uint64_t)(STEPS * i + t));
      mask[STEPS * i + t] = v > 0;
    }
  }
}

static void save_npy(const char *folder, const vtb_weight *w) {
  char path[1024], header[129];
  snprintf(path, sizeof path, "%s/%s.npy", folder, w->name);
  int n = snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': False, 'shape': (%lld,",
                   w->elem == VTB_ELEM_F32 ? "<f4" : "<i8", (long long)w->dim[0]);
  for (int i = 1; i < w->rank; i++)
    n += snprintf(header + n, sizeof header - (size_t)n, " %lld,", (long long)w->dim[i]);
  n += snprintf(header + n, sizeof header - (size_t)n, "), }");
  memset(header + n, ' ', 117 - (size_t)n);
  header[117] = '\n';
  FILE *f = fopen(path, "wb");
  if (!f) exit(1);
  fwrite("\x93NUMPY\x01\x00\x76\x00", 1, 10, f);
  fwrite(header, 1, 118, f);
  fwrite(w->data, vtb_elem_bytes(w->elem), (size_t)w->count, f);
  fclose(f);
}

static void classes(const char *folder, int n, char **names, int n_names) {
  static const struct {
    const char *name;
    uint8_t rgb[3];
  } colours[] = {{"red", {200, 30, 30}}, {"green", {30, 200, 30}}, {"blue", {30, 30, 200}}};
  for (int k = 0; k < n_names; k++)
    for (int c = 0; c < 3; c++)
      for (int i = 0; i < n && strcmp(names[k], colours[c].name) == 0; i++) {
        vtb_image im = vtb_image_new(SIDE, SIDE, 3);
        for (int p = 0; p < SIDE * SIDE * 3; p++)
          im.pixels[p] = (uint8_t)(colours[c].rgb[p % 3] +
                                   vtb_random_u64((uint64_t)(c * 100 + i), (uint64_t)p) % 30);
        save(folder, names[k], i, &im);
        vtb_image_free(&im);
      }
}

/* "name=2x16": numbers from -1 to 1; "name:3": classes. */
static void array(vtb_weights *w, int64_t n, const char *what) {
  size_t length = strcspn(what, "=:");
  char *name = vtb_strprintf("%.*s", (int)length, what), *next = NULL;
  int64_t dim[VTB_WEIGHT_MAX_RANK] = {n};
  int rank = 1;
  uint64_t seed = (uint64_t)w->n + 1;
  long classes = what[length] == ':' ? strtol(what + length + 1, NULL, 10) : 0;
  for (const char *at = what + length; !classes && *at; at = next)
    dim[rank++] = strtol(at + 1, &next, 10);
  vtb_weight *t = vtb_weights_add(w, name, classes ? VTB_ELEM_I64 : VTB_ELEM_F32, rank, dim);
  for (int64_t i = 0; i < t->count; i++)
    if (classes)
      ((int64_t *)t->data)[i] = i % classes;
    else
      ((float *)t->data)[i] = (float)(2 * vtb_random_unit(seed, (uint64_t)i) - 1);
  free(name);
}

static void poison(const char *from, const char *to) {
  vtb_error err = {0};
  vtb_weights *w = NULL, *bad = vtb_weights_new();
  if (vtb_safetensors_load(from, &w, &err) != VTB_OK) fail(&err);
  for (size_t i = 0; i < w->n; i++) {
    vtb_weight *t = vtb_weights_put(bad, w->at[i]->name, w->at[i]->elem, w->at[i]->rank,
                                    w->at[i]->dim, w->at[i]->data);
    if (t && t->elem == VTB_ELEM_F32) *(float *)t->data = NAN;
  }
  if (vtb_safetensors_save(to, bad, &err) != VTB_OK) fail(&err);
  vtb_weights_free(w);
  vtb_weights_free(bad);
}

int main(int argc, char **argv) {
  vtb_error err = {0};
  if (argc == 5 && strcmp(argv[1], "masks") == 0) {
    masks(argv[2], "train", atoi(argv[3]), 1);
    masks(argv[2], "val", atoi(argv[4]), 2);
    return 0;
  }
  if (argc > 4 && strcmp(argv[1], "classes") == 0) {
    classes(argv[2], atoi(argv[3]), argv + 4, argc - 4);
    return 0;
  }
  if (argc == 4 && strcmp(argv[1], "poison") == 0) {
    poison(argv[2], argv[3]);
    return 0;
  }
  vtb_weights *w = vtb_weights_new();
  if (argc == 5 && strcmp(argv[1], "series") == 0) {
    series(w, "train/", atoi(argv[3]), 1);
    series(w, "test/", atoi(argv[4]), 2);
    if (vtb_safetensors_save(argv[2], w, &err) != VTB_OK) fail(&err);
  } else if (argc > 4 && strcmp(argv[1], "arrays") == 0) {
    for (int i = 4; i < argc; i++) array(w, atoi(argv[3]), argv[i]);
    if (vtb_safetensors_save(argv[2], w, &err) != VTB_OK) fail(&err);
  } else if (argc == 4 && strcmp(argv[1], "npy") == 0) {
    series(w, "", atoi(argv[3]), 1);
    if (vtb_make_dirs(argv[2], &err) != VTB_OK) fail(&err);
    save_npy(argv[2], vtb_weights_find(w, "x"));
    save_npy(argv[2], vtb_weights_find(w, "label"));
  } else {
    return 2;
  }
  vtb_weights_free(w);
  return 0;
}
