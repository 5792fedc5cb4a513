/* Checkpoints whose numbers need not be stored: element i of a tensor is a hash of its name and of
 * i, as make_timm.py has it too.
 *
 *   checkpoint make SHAPES.txt OUT FORM    FORM: safetensors, or of PyTorch's files: plain, module
 *                                          (names begin with "module."), model, averaged (with an
 *                                          EMA beside it), trained (arguments, an epoch)
 *   checkpoint compare GOT WANT TOLERANCE  scores of `run -o` and those stored; prints the largest
 *                                          difference
 *   checkpoint same A B PREFIX...          tensors whose names begin so are equal
 *   checkpoint names CASE                  the parameters of a reference case
 *   checkpoint case CASE NAMES OUT FORM    its tensors of lines "TENSOR NAME", under these names
 *   checkpoint meets GOT CASE TOLERANCE    results of `run -o`, a sample each, and its output/y */
#include "runtime/artefact/safetensors.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <zip.h>

static void stop(const char *what) {
  fprintf(stderr, "checkpoint: %s\n", what);
  exit(1);
}

/* ---- numbers --------------------------------------------------------------------------------- */

static double uniform(uint64_t seed, uint64_t i) {
  uint64_t x = seed + (i + 1) * UINT64_C(0x9E3779B97F4A7C15);
  x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
  x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
  x ^= x >> 31;
  return (double)(x >> 40) / 8388608.0 - 1.0;
}

static void fill(vtb_weight *t) {
  uint64_t seed = vtb_hash_str(VTB_HASH_INIT, t->name);
  double scale = 0.125, base = t->rank > 1 || vtb_ends_with(t->name, "bias") ? 0 : 1;
  if (t->rank > 1) scale = t->dim[0] == 1 ? 0.5 : sqrt(3.0 / (double)(t->count / t->dim[0]));
  float *data = t->data;
  for (int64_t i = 0; i < t->count; i++)
    data[i] = (float)(base + uniform(seed, (uint64_t)i) * scale);
}

/* Lines "NAME 3 16 16". */
static vtb_weights *make(const char *path) {
  char *text;
  size_t n;
  vtb_error err = {0};
  vtb_weights *w = vtb_weights_new();
  if (!w || vtb_file_read(path, 1 << 20, &text, &n, &err) != VTB_OK) stop(err.text);
  for (char *rest = text, *line; (line = strsep(&rest, "\n")) && *line;) {
    char *word = strsep(&line, " ");
    int64_t dim[VTB_WEIGHT_MAX_RANK];
    int rank = 0;
    for (char *size; (size = strsep(&line, " ")) && rank < VTB_WEIGHT_MAX_RANK;)
      dim[rank++] = atoll(size);
    vtb_weight *t = vtb_weights_add(w, word, VTB_ELEM_F32, rank, dim);
    if (!t) stop("no memory");
    fill(t);
  }
  free(text);
  return w;
}

/* ---- PyTorch's files: a pickle beside the numbers, in a zip file ----------------------------- */

static void put_u32(vtb_strbuf *s, uint32_t v) {
  vtb_strbuf_write(s, (char[]){(char)v, (char)(v >> 8), (char)(v >> 16), (char)(v >> 24)}, 4);
}
static void put_text(vtb_strbuf *s, const char *text) {
  vtb_strbuf_putc(s, 'X');
  put_u32(s, (uint32_t)strlen(text));
  vtb_strbuf_puts(s, text);
}
static void put_int(vtb_strbuf *s, int64_t v) {
  vtb_strbuf_putc(s, 'J');
  put_u32(s, (uint32_t)v);
}

/* torch._utils._rebuild_tensor_v2(storage, 0, size, stride, False, OrderedDict()) */
static void put_tensor(vtb_strbuf *s, const vtb_weight *t, int number) {
  char key[16];
  int64_t stride = t->count;
  snprintf(key, sizeof key, "%d", number);
  vtb_strbuf_puts(s, "ctorch._utils\n_rebuild_tensor_v2\n((");
  put_text(s, "storage");
  vtb_strbuf_puts(s, "ctorch\nFloatStorage\n");
  put_text(s, key);
  put_text(s, "cpu");
  put_int(s, t->count);
  vtb_strbuf_puts(s, "tQ");
  put_int(s, 0);
  vtb_strbuf_putc(s, '(');
  for (int i = 0; i < t->rank; i++) put_int(s, t->dim[i]);
  vtb_strbuf_puts(s, "t(");
  for (int i = 0; i < t->rank; i++) put_int(s, stride /= t->dim[i]);
  vtb_strbuf_puts(s, "t\x89"
                     "ccollections\nOrderedDict\n)RtR");
}

static void put_state(vtb_strbuf *s, const vtb_weights *w, const char *prefix, int first) {
  vtb_strbuf name = {0};
  vtb_strbuf_puts(s, "ccollections\nOrderedDict\n)R(");
  for (size_t i = 0; i < w->n; i++) {
    put_text(s, vtb_strbuf_format(&name, "%s%s", prefix, w->at[i]->name));
    put_tensor(s, w->at[i], first + (int)i);
  }
  vtb_strbuf_putc(s, 'u');
  vtb_strbuf_free(&name);
}

static void put_arguments(vtb_strbuf *s) {
  put_text(s, "args");
  vtb_strbuf_puts(s, "cargparse\nNamespace\n)\x81}(");
  put_text(s, "lr");
  put_int(s, 3);
  put_text(s, "model");
  put_text(s, "a_model");
  vtb_strbuf_puts(s, "ub");
  put_text(s, "epoch");
  put_int(s, 299);
}

static vtb_strbuf pickle(const vtb_weights *w, const char *form) {
  vtb_strbuf s = {0};
  const char *prefix = strcmp(form, "module") == 0 || strcmp(form, "trained") == 0 ? "module." : "";
  vtb_strbuf_puts(&s, "\x80\x02");
  if (strcmp(form, "plain") == 0 || strcmp(form, "module") == 0) {
    put_state(&s, w, prefix, 0);
  } else {
    vtb_strbuf_puts(&s, "}(");
    put_text(&s, "model");
    put_state(&s, w, prefix, 0);
    if (strcmp(form, "averaged") == 0) {
      put_text(&s, "model_ema");
      put_state(&s, w, "", 0);
    }
    if (strcmp(form, "trained") == 0) put_arguments(&s);
    vtb_strbuf_putc(&s, 'u');
  }
  vtb_strbuf_putc(&s, '.');
  return s;
}

static void add(zip_t *z, const char *name, const void *data, size_t n) {
  zip_source_t *source = zip_source_buffer(z, data, n, 0);
  zip_int64_t at = source ? zip_file_add(z, name, source, 0) : -1;
  if (at < 0 || zip_set_file_compression(z, (zip_uint64_t)at, ZIP_CM_STORE, 0) != 0)
    stop(zip_strerror(z));
}

static void save_torch(const char *path, const vtb_weights *w, const char *form) {
  char name[64];
  vtb_strbuf s = pickle(w, form);
  zip_t *z = zip_open(path, ZIP_CREATE | ZIP_TRUNCATE, NULL);
  if (!z) stop("cannot write");
  add(z, "archive/data.pkl", s.at, s.n);
  add(z, "archive/byteorder", "little", 6);
  for (size_t i = 0; i < w->n; i++) {
    snprintf(name, sizeof name, "archive/data/%zu", i);
    add(z, name, w->at[i]->data, (size_t)w->at[i]->count * 4);
  }
  add(z, "archive/version", "3\n", 2);
  if (zip_close(z) != 0) stop(zip_strerror(z));
  vtb_strbuf_free(&s);
}

/* ---- comparing ------------------------------------------------------------------------------- */

static int64_t largest(const float *x, int64_t n) {
  int64_t best = 0;
  for (int64_t i = 1; i < n; i++)
    if (x[i] > x[best]) best = i;
  return best;
}

/* Results are called "PATH OF A PICTURE/NAME OF THE OUTPUT", or by the picture alone. */
static const vtb_weight *find(const vtb_weights *w, const char *picture) {
  for (size_t i = 0; i < w->n; i++)
    if (strstr(w->at[i]->name, picture)) return w->at[i];
  return NULL;
}

static int compare(const char *got_path, const char *want_path, double tolerance) {
  vtb_weights *got = NULL, *want = NULL;
  vtb_error err = {0};
  double worst = 0;
  int other = 0, n = 0;
  if (vtb_safetensors_load(got_path, &got, &err) != VTB_OK ||
      vtb_safetensors_load(want_path, &want, &err) != VTB_OK)
    stop(err.text);
  for (size_t i = 0; i < want->n; i++) {
    const vtb_weight *b = want->at[i], *a = find(got, b->name);
    if (!a) continue;
    if (a->count != b->count) stop("other shapes");
    float x[2048], y[2048];
    if (a->count > 2048) stop("too many scores");
    vtb_weight_read_f32(a, x);
    vtb_weight_read_f32(b, y);
    for (int64_t k = 0; k < a->count; k++) {
      double d = fabs((double)x[k] - (double)y[k]);
      if (!(d <= worst)) worst = d;
    }
    other += largest(x, a->count) != largest(y, a->count);
    n++;
  }
  printf("%d pictures: largest difference %.2g, %d with another top class\n", n, worst, other);
  vtb_weights_free(got);
  vtb_weights_free(want);
  return n == 0 || other || !(worst <= tolerance);
}

/* Whether the tensors whose names begin so are the same in both files, and there are some. */
static int same(int argc, char **argv) {
  vtb_weights *a = NULL, *b = NULL;
  vtb_error err = {0};
  int n = 0, moved = 0;
  if (vtb_safetensors_load(argv[0], &a, &err) != VTB_OK ||
      vtb_safetensors_load(argv[1], &b, &err) != VTB_OK)
    stop(err.text);
  for (size_t i = 0; i < a->n; i++)
    for (int k = 2; k < argc; k++) {
      const vtb_weight *x = a->at[i], *y = vtb_weights_find(b, x->name);
      if (!vtb_starts_with(x->name, argv[k])) continue;
      n++;
      moved += !y || y->count != x->count || memcmp(x->data, y->data, (size_t)x->count * 4) != 0;
    }
  vtb_weights_free(a);
  vtb_weights_free(b);
  return n == 0 || moved;
}

/* ---- reference cases ------------------------------------------------------------------------- */

static vtb_weights *load(const char *path) {
  vtb_weights *w = NULL;
  vtb_error err = {0};
  if (vtb_safetensors_load(path, &w, &err) != VTB_OK) stop(err.text);
  return w;
}

static void save(const char *path, const vtb_weights *w, const char *form) {
  vtb_error err = {0};
  if (strcmp(form, "safetensors") != 0)
    save_torch(path, w, form);
  else if (vtb_safetensors_save(path, w, &err) != VTB_OK)
    stop(err.text);
}

static int print_names(const char *path) {
  vtb_weights *w = load(path);
  for (size_t i = 0; i < w->n; i++)
    if (vtb_starts_with(w->at[i]->name, "param/")) puts(w->at[i]->name + strlen("param/"));
  vtb_weights_free(w);
  return 0;
}

static int take_case(char **argv) {
  char *text;
  size_t n;
  vtb_error err = {0};
  vtb_weights *from = load(argv[0]), *to = vtb_weights_new();
  if (!to || vtb_file_read(argv[1], 1 << 20, &text, &n, &err) != VTB_OK) stop(err.text);
  for (char *rest = text, *line; (line = strsep(&rest, "\n")) && *line;) {
    const char *name = strsep(&line, " ");
    const vtb_weight *t = vtb_weights_find(from, name);
    if (!t || !line || !vtb_weights_put(to, line, t->elem, t->rank, t->dim, t->data)) stop(name);
  }
  save(argv[2], to, argv[3]);
  free(text);
  vtb_weights_free(from);
  vtb_weights_free(to);
  return 0;
}

static int meets(char **argv) {
  vtb_weights *got = load(argv[0]), *from = load(argv[1]);
  const vtb_weight *want = vtb_weights_find(from, "output/y");
  const float *y = want ? want->data : NULL;
  double worst = 0;
  int64_t k = 0;
  for (size_t i = 0; i < got->n; i++) {
    const float *x = got->at[i]->data;
    if (!y || k + got->at[i]->count > want->count) stop("other results than the case's");
    for (int64_t j = 0; j < got->at[i]->count; j++, k++) {
      double d = fabs((double)x[j] - (double)y[k]);
      if (!(d <= worst)) worst = d;
    }
  }
  if (!want || k != want->count) stop("fewer results than the case's");
  printf("%lld results: largest difference %.2g\n", (long long)k, worst);
  vtb_weights_free(got);
  vtb_weights_free(from);
  return !(worst <= strtod(argv[2], NULL));
}

int main(int argc, char **argv) {
  if (argc > 4 && strcmp(argv[1], "same") == 0) return same(argc - 2, argv + 2);
  if (argc == 5 && strcmp(argv[1], "compare") == 0)
    return compare(argv[2], argv[3], strtod(argv[4], NULL));
  if (argc == 3 && strcmp(argv[1], "names") == 0) return print_names(argv[2]);
  if (argc == 6 && strcmp(argv[1], "case") == 0) return take_case(argv + 2);
  if (argc == 5 && strcmp(argv[1], "meets") == 0) return meets(argv + 2);
  if (argc != 5 || strcmp(argv[1], "make") != 0) stop("make SHAPES OUT FORM, or compare A B TOL");
  vtb_weights *w = make(argv[2]);
  save(argv[3], w, argv[4]);
  vtb_weights_free(w);
  return 0;
}
