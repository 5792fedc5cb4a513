/* Checkpoints of other tools, made by tests/runtime/make_weights.py: what PyTorch writes is read to
 * the bit, what is damaged or means harm is refused with a sentence. */
#include "runtime/artefact/safetensors.h"
#include "runtime/weights/open.h"
#include "tests/runtime/support.h"

#include <sys/resource.h>

static const char *weights_path(const char *name) {
  static char path[512];
  snprintf(path, sizeof path, "%s/tests/runtime/weights/%s", VTB_SOURCE_DIR, name);
  return path;
}

/* Memory that was given back holds something else from now on. */
static void stir_memory(void) {
  enum { N = 400 };
  void *at[N];
  for (int i = 0; i < N; i++) {
    size_t n = (size_t)1 << (5 + i % 13);
    at[i] = malloc(n);
    if (at[i]) memset(at[i], 0xa5, n);
  }
  for (int i = 0; i < N; i++) free(at[i]);
}

/* NULL, after a failed check, if it cannot be read. */
static vtb_weights *open_part(const char *name, const char *part, vtb_strbuf *said) {
  vtb_weights *w = NULL;
  vtb_error err = {0};
  vtb_status status = vtb_weights_open_part(weights_path(name), part, &w, said, &err);
  CHECK_MSG(status == VTB_OK, "%s: status %d: %s", name, (int)status, err.text);
  stir_memory();
  return status == VTB_OK ? w : NULL;
}

static void check_said(const vtb_strbuf *said, const char *part) {
  CHECK_MSG(strstr(vtb_strbuf_text(said), part), "said \"%s\", not \"%s\"", vtb_strbuf_text(said),
            part);
}

/* Element i of the tensors that the script makes. */
static double value(vtb_elem e, int64_t i) {
  double x = (double)i * 0.5 - 3;
  if (e == VTB_ELEM_BOOL) return x > 0;
  return e == VTB_ELEM_F32 || e == VTB_ELEM_F64 || e == VTB_ELEM_F16 || e == VTB_ELEM_BF16
             ? x
             : (double)i;
}

/* The tensor has so many elements, and element k is value(place[k]). */
static void check_places(const vtb_weights *w, const char *name, int64_t n, const int *place) {
  const vtb_weight *t = vtb_weights_find(w, name);
  double got[64];
  CHECK_MSG(t && t->count == n && n <= 64, "%s is missing or has another size", name);
  if (!t || t->count != n || n > 64) return;
  vtb_weight_read_f64(t, got);
  for (int64_t k = 0; k < n; k++) {
    double want = value(t->elem, place ? place[k] : k);
    CHECK_MSG(got[k] == want, "%s[%d] = %g, want %g", name, (int)k, got[k], want);
  }
}

static void check_shape(const vtb_weights *w, const char *name, const char *want) {
  const vtb_weight *t = vtb_weights_find(w, name);
  vtb_strbuf shape = {0};
  if (t) vtb_shape_print(&shape, t->rank, t->dim);
  CHECK_STR(vtb_strbuf_text(&shape), want);
  vtb_strbuf_free(&shape);
}

/* ---- what PyTorch writes --------------------------------------------------------------------- */

TEST(every_element_type_of_every_form_is_read) {
  static const char *const files[] = {
      "types.pth",
      "types_legacy.pth",
      "packed.pth",
      "protocol1.pth",
      "protocol2.pth",
      "protocol3.pth",
      "protocol4.pth",
      "protocol5.pth",
      "protocol1_legacy.pth",
      "protocol2_legacy.pth",
      "protocol3_legacy.pth",
      "protocol4_legacy.pth",
      "protocol5_legacy.pth",
  };
  static const char *const names[] = {"tfloat32", "tfloat64", "tfloat16", "tbfloat16", "tint64",
                                      "tint32",   "tint16",   "tint8",    "tuint8",    "tbool",
                                      "tuint16",  "tuint32",  "tuint64"};
  static const vtb_elem elems[] = {VTB_ELEM_F32, VTB_ELEM_F64,  VTB_ELEM_F16, VTB_ELEM_BF16,
                                   VTB_ELEM_I64, VTB_ELEM_I32,  VTB_ELEM_I16, VTB_ELEM_I8,
                                   VTB_ELEM_U8,  VTB_ELEM_BOOL, VTB_ELEM_U16, VTB_ELEM_U32,
                                   VTB_ELEM_U64};
  for (size_t f = 0; f < sizeof files / sizeof *files; f++) {
    vtb_weights *w = open_part(files[f], NULL, NULL);
    if (!w) continue;
    CHECK_MSG(w->n == (f ? 10 : 13), "%s has %zu tensors", files[f], w->n);
    for (size_t i = 0; i < w->n; i++) {
      CHECK_STR(w->at[i]->name, names[i]);
      CHECK(w->at[i]->elem == elems[i]);
      check_shape(w, names[i], "[2, 3]");
      check_places(w, names[i], 6, NULL);
    }
    vtb_weights_free(w);
  }
}

TEST(views_are_read_as_they_look) {
  static const char *const files[] = {"views.pth", "views_legacy.pth"};
  for (int f = 0; f < 2; f++) {
    vtb_weights *w = open_part(files[f], NULL, NULL);
    int rows[12], columns[12], transposed[24], flipped[24];
    if (!w) continue;
    for (int i = 0; i < 12; i++) rows[i] = 6 + i, columns[i] = i / 3 * 6 + 2 + i % 3;
    for (int i = 0; i < 24; i++) transposed[i] = i % 4 * 6 + i / 4;
    for (int i = 0; i < 24; i++) flipped[i] = i % 6 * 4 + i / 6;
    CHECK(w->n == 10);
    check_shape(w, "transposed", "[6, 4]");
    check_shape(w, "flipped", "[4, 2, 3]");
    check_shape(w, "channels_last", "[2, 3, 2, 2]");
    check_shape(w, "scalar", "[]");
    check_shape(w, "empty", "[0, 3]");
    check_places(w, "t", 24, NULL);
    check_places(w, "tied", 24, NULL);
    check_places(w, "rows", 12, rows);
    check_places(w, "columns", 12, columns);
    check_places(w, "transposed", 24, transposed);
    check_places(w, "flipped", 24, flipped);
    check_places(w, "channels_last", 24, NULL);
    check_places(w, "parameter", 3, NULL);
    check_places(w, "scalar", 1, (int[]){20});
    vtb_weights_free(w);
  }
}

TEST(forms_of_older_versions_are_read) {
  static const char *const names[] = {"old", "gpu", "state", "typed"};
  vtb_weights *w = open_part("odd.pth", NULL, NULL);
  CHECK(w && w->n == 4);
  for (int i = 0; w && i < 4; i++) {
    check_shape(w, names[i], "[4]");
    check_places(w, names[i], 4, NULL);
  }
  vtb_weights_free(w);
}

TEST(values_beside_the_weights_are_kept_as_text) {
  static const char *const texts[][2] = {
      {"a set", "{1}"},
      {"frozen", "{2.5}"},
      {"path", "PosixPath('a', 'b')"},
      {"device", "device('cpu')"},
      {"size", "(1, 2)"},
      {"type", "float32"},
      {"complex", "complex(0, 1)"},
      {"bytes", "ab"},
      {"slice", "slice(1, 2, None)"},
      {"negative", "-70000"},
      {"small", "1e-5"},
      {"none", "None"},
      {"one", "(1,)"},
      {"yes", "True"},
      {"counts", "{'a': 2, 'b': 1}"},
      {"text", "gr\xc3\xbcn \xe8\x9b\x87"},
      {"numpy", "[-3, 0.25, True]"},
  };
  vtb_strbuf said = VTB_CHECKED_STRBUF;
  vtb_weights *w = open_part("texts.pth", NULL, &said);
  for (size_t i = 0; w && i < sizeof texts / sizeof *texts; i++) {
    char key[40];
    snprintf(key, sizeof key, "torch.%s", texts[i][0]);
    CHECK_STR(vtb_weights_meta(w, key), texts[i][1]);
  }
  CHECK(w && !vtb_weights_meta(w, "torch.long") && vtb_weights_find(w, "tfloat32"));
  check_said(&said, "left out \"date\", \"long\"\n");
  vtb_weights_free(w);
  vtb_strbuf_free(&said);
}

/* ---- what stands around the weights ---------------------------------------------------------- */

TEST(a_training_is_unwrapped_and_said_so) {
  static const char *const files[] = {"training.pth", "training_legacy.pth"};
  for (int f = 0; f < 2; f++) {
    vtb_strbuf said = VTB_CHECKED_STRBUF;
    vtb_weights *w = open_part(files[f], NULL, &said);
    if (!w) continue;
    CHECK(w->n == 9);
    check_places(w, "0.weight", 6, NULL);
    CHECK(vtb_weights_find(w, "1.num_batches_tracked"));
    check_said(&said, "took \"model\"; left out \"model_ema\", \"optimizer\"\n");
    check_said(&said, "\"model_ema\": --ema-weights takes them\n");
    CHECK_STR(vtb_weights_meta(w, "torch.epoch"), "299");
    CHECK_STR(vtb_weights_meta(w, "torch.args"),
              "lr=0.001, model='a_model', betas=(0.9, 0.95), resume='', data_path=None, "
              "nested={'a': [1, 2]}");
    if (f == 0) CHECK_STR(vtb_weights_meta(w, "torch.best"), "81.25");
    if (f == 0) CHECK_STR(vtb_weights_meta(w, "torch.metric"), "top1");
    vtb_weights_free(w);
    vtb_strbuf_free(&said);
  }
}

/* Of the averaged weights every number is one more. */
static void check_averages(const char *file, const char *part) {
  vtb_weights *w = open_part(file, part, NULL);
  const vtb_weight *t = w ? vtb_weights_find(w, "0.bias") : NULL;
  float got[3] = {0};
  CHECK_MSG(t && t->count == 3, "%s has no 0.bias", file);
  if (t && t->count == 3) vtb_weight_read_f32(t, got);
  CHECK_MSG(got[0] == -2 && got[1] == -1.5f && got[2] == -1, "%s: %g", file, (double)got[0]);
  vtb_weights_free(w);
}

TEST(averaged_weights_are_taken_on_request) {
  check_averages("training.pth", "ema");
  check_averages("training.pth", "model_ema");
  check_averages("compiled.pth", "ema");
  check_averages("ema_only.pth", NULL);
  vtb_weights *w = NULL;
  CHECK_REFUSED(vtb_weights_open_part(weights_path("parallel.pth"), "ema", &w, NULL, err),
                "holds no tensors under \"ema\"; under these it does: \"state_dict\"");
  CHECK_REFUSED(vtb_weights_open_part(weights_path("types.pth"), "ema", &w, NULL, err),
                "holds no tensors under \"ema\"");
}

TEST(common_prefixes_come_off) {
  static const struct {
    const char *file, *said;
  } cases[] = {
      {"parallel.pth", "took \"module.\" off the names of all 9 tensors\n"},
      {"compiled.pth", "took \"_orig_mod.\" off the names of all 9 tensors\n"},
      {"averaged.pth", "off the names of all 9 tensors and left out \"n_averaged\""},
  };
  for (int i = 0; i < 3; i++) {
    vtb_strbuf said = VTB_CHECKED_STRBUF;
    vtb_weights *w = open_part(cases[i].file, NULL, &said);
    CHECK(w && w->n == 9);
    if (w) check_places(w, "0.weight", 6, NULL);
    check_said(&said, cases[i].said);
    vtb_weights_free(w);
    vtb_strbuf_free(&said);
  }
}

TEST(names_of_this_project_and_of_parts_stay) {
  vtb_weights *w = vtb_weights_new(), *back = NULL;
  const char *path = temp_path("own.safetensors");
  float x = 1;
  vtb_weights_put(w, "backbone.a", VTB_ELEM_F32, 0, NULL, &x);
  vtb_weights_set_meta(w, "format", "vertebra-weights-1");
  CHECK_OK(vtb_safetensors_save(path, w, err));
  CHECK_OK(vtb_weights_open(path, &back, NULL, err));
  CHECK(back && vtb_weights_find(back, "backbone.a"));
  vtb_weights_free(back);
  vtb_weights_set_meta(w, "format", "pt");
  CHECK_OK(vtb_safetensors_save(path, w, err));
  CHECK_OK(vtb_weights_open(path, &back, NULL, err));
  CHECK(back && vtb_weights_find(back, "a"));
  CHECK_STR(vtb_weights_meta(back, "format"), "pt");
  vtb_weights_free(back);
  vtb_weights_put(w, "head", VTB_ELEM_F32, 0, NULL, &x); /* not all of them */
  CHECK_OK(vtb_safetensors_save(path, w, err));
  CHECK_OK(vtb_weights_open(path, &back, NULL, err));
  CHECK(back && back->n == 2 && vtb_weights_find(back, "backbone.a"));
  vtb_weights_free(back);
  vtb_weights_free(w);
}

TEST(one_of_several_sets_is_chosen) {
  vtb_weights *w = NULL;
  CHECK_REFUSED(vtb_weights_open(weights_path("teachers.pth"), &w, NULL, err),
                "several sets of weights: \"student\", \"teacher\"");
  w = open_part("teachers.pth", "student", NULL);
  CHECK(w && w->n == 9 && vtb_weights_find(w, "0.weight"));
  vtb_weights_free(w);
}

TEST(arrays_of_numpy_are_tensors) {
  vtb_weights *w = open_part("arrays.pkl", NULL, NULL);
  if (w) {
    check_places(w, "tfloat32", 6, NULL);
    check_places(w, "tint64", 6, NULL);
    check_places(w, "fortran", 6, NULL);
  }
  vtb_weights_free(w);
  w = open_part("arrays5.pkl", NULL, NULL);
  if (w) check_places(w, "tfloat16", 6, NULL);
  vtb_weights_free(w);
}

/* ---- several files --------------------------------------------------------------------------- */

TEST(shards_and_folders_are_one_checkpoint) {
  static const char *const paths[] = {"folder", "folder/", "folder/pytorch_model.bin.index.json"};
  for (int i = 0; i < 3; i++) {
    vtb_strbuf said = VTB_CHECKED_STRBUF;
    vtb_weights *w = open_part(paths[i], NULL, &said);
    if (!w) continue;
    CHECK(w->n == 9);
    check_places(w, "0.weight", 6, NULL);
    check_places(w, "2.weight", 6, NULL);
    check_said(&said, "9 tensors of 2 files\n");
    const char *config = vtb_weights_meta(w, "hf.preprocessor");
    if (i < 2) CHECK(config && strstr(config, "\"image_mean\": [0.5, 0.5, 0.5]"));
    if (i < 2) CHECK(vtb_weights_meta(w, "hf.config"));
    vtb_weights_free(w);
    vtb_strbuf_free(&said);
  }
  vtb_strbuf said = VTB_CHECKED_STRBUF;
  vtb_weights *w = open_part("folder/pytorch_model-00001-of-00002.bin", NULL, &said);
  CHECK(w && w->n == 4);
  check_said(&said, "is one file of several");
  vtb_weights_free(w);
  vtb_strbuf_free(&said);
}

TEST(content_counts_and_a_name_that_lies_is_said) {
  size_t n;
  char *data = read_file(weights_path("good.pth"), &n);
  const char *path = temp_path("good.safetensors");
  vtb_strbuf said = VTB_CHECKED_STRBUF;
  vtb_weights *w = NULL;
  write_file(path, data, n);
  CHECK_OK(vtb_weights_open(path, &w, &said, err));
  check_said(&said, "good.safetensors is a zip file of PyTorch, whatever its name says\n");
  vtb_weights_free(w);
  vtb_strbuf_free(&said);
  free(data);
}

/* ---- what is refused ------------------------------------------------------------------------- */

TEST(what_is_no_weights_is_refused_with_a_sentence) {
  static const struct {
    const char *file, *reason;
  } cases[] = {
      {"call0_2.pth", "calls posix.system, which no weights need: refused, and nothing was"},
      {"call0_4.pth", "calls posix.system"},
      {"call1_2.pth", "calls builtins.eval"},
      {"call1_4.pth", "calls builtins.eval"},
      {"call2_2.pth", "calls builtins.exec"},
      {"call3_4.pth", "calls builtins.getattr"},
      {"call4_2.pth", "calls builtins.__import__"},
      {"call5_4.pth", "calls io.open"},
      {"call6_2.pth", "calls posix.unlink"},
      {"call7_2.pth", "uses torch.serialization.load, which is more than weights need"},
      {"call8_2.pth", "calls pickle.loads"},
      {"call8_4.pth", "calls _pickle.loads"},
      {"call_plain.pth", "calls posix.system"},
      {"call_old.pth", "calls os.system"},
      {"inst.pth", "calls os.system"},
      {"obj.pth", "calls os.system"},
      {"build.pth", "calls os.system"},
      {"extension.pth", "registry of extensions"},
      {"buffer.pth", "outside the pickle"},
      {"module.pth", "uses torch.nn.modules.linear.Linear"},
      {"script.pth", "a TorchScript program"},
      {"quantised.pth", "quantised tensors, which are not read"},
      {"sparse.pth", "sparse tensors, which are not read"},
      {"complex.pth", "tensor a has elements of type complex64"},
      {"float8.pth", "tensor a has elements of type float8_e5m2"},
      {"overlap.pth", "elements overlap"},
      {"nothing.pth", "holds no weights; its entries are: \"epoch\", \"optimizer\""},
      {"list.pth", "holds a list, not a dict"},
      {"deep.pth", "holds a list"},
      {"marks.pth", "more than 1048576 marks"},
      {"stack.pth", "more than 1048576 values wait"},
      {"memo.pth", "place 2147483647 of the memo"},
      {"self.pth", "holds no weights"},
      {"laughs.pth", "holds no weights; its entries are: \"args\""},
      {"size.pth", "ends inside a pickle"},
      {"size8.pth", "ends inside a pickle"},
      {"appends.pth", "holds a list"},
      {"offset.pth", "reaches beyond its storage"},
      {"negative_offset.pth", "not of a storage"},
      {"negative_stride.pth", "no natural numbers"},
      {"huge_stride.pth", "reaches beyond its storage"},
      {"huge_size.pth", "reaches beyond its storage"},
      {"huge_shape.pth", "its shape overflows"},
      {"huge_shape4.pth", "its shape overflows"},
      {"huge_numel.pth", "too large"},
      {"ranks.pth", "more than 8 axes"},
      {"strides.pth", "reaches beyond its storage"},
      {"no_member.pth", "no member data/1"},
      {"path.pth", "no member data/../../../../etc/passwd"},
      {"short_member.pth", "has 12 bytes, its tensors need 16"},
      {"control.pth", "no readable text"},
      {"class.pth", "torch.OrderedDict"},
      {"members.pth", "holds no weights"},
      {"two_pickles.pth", "has two members archive/data.pkl"},
      {"two_members.pth", "has two members archive/data/0"},
      {"bomb_more.pth", "far more than the file could hold"},
      {"bomb_some.pth", "not as long as the file says"},
      {"bomb_less.pth", "not as long as the file says"},
      {"arrays.npz", ".npz"},
      {"tar.pth", "is a tar file"},
      {"lfs.bin", "git lfs pull"},
      {"page.pth", "is a web page"},
      {"empty.pth", "is empty"},
      {"index_up.json", "\"../secret.safetensors\" is refused"},
      {"index_absolute.json", "\"/etc/passwd\" is refused"},
      {"index_dot.json", "\".hidden\" is refused"},
      {"none.pth", "cannot open"},
      {"../weights", "holds no weights that are known by their name"},
  };
  unlink("/tmp/vtb-executed");
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    vtb_weights *w = NULL;
    vtb_error err = {0};
    vtb_status status = vtb_weights_open(weights_path(cases[i].file), &w, NULL, &err);
    CHECK_MSG(status == VTB_E_INPUT && strstr(err.text, cases[i].reason), "%s: status %d: %s",
              cases[i].file, (int)status, err.text);
    CHECK(!w);
  }
  CHECK(!vtb_path_exists("/tmp/vtb-executed"));
}

/* ---- damage ---------------------------------------------------------------------------------- */

static uint64_t draw(uint64_t *state, uint64_t below) {
  *state ^= *state << 13;
  *state ^= *state >> 7;
  *state ^= *state << 17;
  return *state % below;
}

/* One change: bytes, a piece left out, a piece of it twice, its end cut. */
static size_t damage(char *data, size_t n, uint64_t *state) {
  size_t at = draw(state, n), length = 1 + draw(state, 40);
  if (length > n - at) length = n - at;
  switch (draw(state, 5)) {
  case 0:
    return at;
  case 1:
    memmove(data + at, data + at + length, n - at - length);
    return n - length;
  case 2:
    memmove(data + draw(state, n - length + 1), data + at, length);
    return n;
  case 3:
    for (size_t i = 0; i < length; i++) data[at + i] = (char)draw(state, 256);
    return n;
  default:
    data[at] = (char)(data[at] ^ 1 << draw(state, 8));
    return n;
  }
}

/* Reads every number: all of them are where they should be. */
static double sum_all(const vtb_weights *w) {
  double sum = 0;
  for (size_t i = 0; i < w->n; i++) {
    double *x = malloc(((size_t)w->at[i]->count + 1) * sizeof *x);
    if (!x) continue;
    vtb_weight_read_f64(w->at[i], x);
    for (int64_t k = 0; k < w->at[i]->count; k++) sum += x[k];
    free(x);
  }
  return sum;
}

static long peak_kilobytes(void) {
  struct rusage use;
  getrusage(RUSAGE_SELF, &use);
  return use.ru_maxrss;
}

/* `open_as`: what is opened after `path` was damaged. */
static void check_damaged(const char *from, const char *path, const char *open_as) {
  size_t n;
  char *whole = read_file(weights_path(from), &n), *copy = malloc(n);
  uint64_t state = 88172645463325252u;
  int refused = 0;
  for (int i = 0; i < 300; i++) {
    vtb_weights *w = NULL;
    vtb_error err = {0};
    memcpy(copy, whole, n);
    write_file(path, copy, damage(copy, n, &state));
    vtb_status status = vtb_weights_open(open_as, &w, NULL, &err);
    if (status == VTB_OK)
      (void)sum_all(w);
    else
      CHECK_MSG(status == VTB_E_INPUT && err.text[0], "%s, change %d: status %d: %s", from, i,
                (int)status, err.text);
    refused += status != VTB_OK;
    vtb_weights_free(w);
  }
  CHECK_MSG(refused > 30, "%s: %d of 300 refused", from, refused);
  free(copy);
  free(whole);
}

TEST(damaged_files_are_read_or_refused) {
  static const char *const files[] = {"training.pth",        "training_legacy.pth", "views.pth",
                                      "views_legacy.pth",    "packed.pth",          "arrays.pkl",
                                      "protocol5_legacy.pth"};
  long before = peak_kilobytes();
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
    const char *path = temp_path("damaged.pth");
    check_damaged(files[i], path, path);
  }
  const char *folder = temp_path("folder");
  mkdir(folder, 0777);
  for (int k = 1; k <= 2; k++) {
    char name[80];
    size_t n;
    snprintf(name, sizeof name, "folder/pytorch_model-%05d-of-00002.bin", k);
    char *data = read_file(weights_path(name), &n);
    write_file(temp_path(name), data, n);
    free(data);
  }
  check_damaged("folder/pytorch_model.bin.index.json",
                temp_path("folder/pytorch_model.bin.index.json"), folder);
  CHECK_MSG(peak_kilobytes() - before < 1 << 20, "it took %ld MB",
            (peak_kilobytes() - before) >> 10);
}

int main(void) {
  RUN(every_element_type_of_every_form_is_read);
  RUN(views_are_read_as_they_look);
  RUN(forms_of_older_versions_are_read);
  RUN(values_beside_the_weights_are_kept_as_text);
  RUN(a_training_is_unwrapped_and_said_so);
  RUN(averaged_weights_are_taken_on_request);
  RUN(common_prefixes_come_off);
  RUN(names_of_this_project_and_of_parts_stay);
  RUN(one_of_several_sets_is_chosen);
  RUN(arrays_of_numpy_are_tensors);
  RUN(shards_and_folders_are_one_checkpoint);
  RUN(content_counts_and_a_name_that_lies_is_said);
  RUN(what_is_no_weights_is_refused_with_a_sentence);
  RUN(damaged_files_are_read_or_refused);
  return test_done();
}
