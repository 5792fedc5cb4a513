/* Gradients from built files: those of the reference, those that differences in double say, the
 * same for any number of rows, in the session's memory and in the caller's. */
#include "frontend/compile/driver.h"
#include "ir/interp.h"
#include "runtime/artefact/safetensors.h"
#include "runtime/runner.h"
#include "runtime/vertebra.h"
#include "tests/runtime/support.h"

enum { ROWS = 7, SIDE = 28, CLASSES = 10 };
static char joined[512], padded[512], weights[512];

static void compile(const vtb_compile_options *o, const char *path) {
  vtb_report *r = vtb_report_new();
  CHECK_MSG(vtb_compile_file(o, path, r) == VTB_OK, "%s%s", vtb_report_text(r, false),
            vtb_report_error(r));
  vtb_report_free(r);
}

static vtb_session *open_session(const char *path, vtb_session_role role) {
  vtb_model *m = NULL;
  vtb_session *s = NULL;
  vtb_session_options o = {.size = sizeof o, .role = role, .threads = 1, .batch = 2 * ROWS};
  CHECK_OK(vtb_model_open(path, NULL, &m, err));
  CHECK_OK(vtb_session_open(m, &o, &s, err));
  vtb_model_release(m);
  return s;
}

static vtb_array array_of(vtb_session *s, const char *name) {
  vtb_array a = {.size = sizeof a};
  CHECK_OK(vtb_session_array(s, VTB_ARRAY_ANY, name, &a, err));
  return a;
}

static int64_t count(const vtb_array *a) {
  int64_t n = 1;
  for (int i = 0; i < a->rank; i++) n *= a->dim[i];
  return n;
}

static double difference(const float *x, const float *y, int64_t n) {
  double most = 0, scale = 1e-6;
  for (int64_t i = 0; i < n; i++) {
    double d = fabs((double)x[i] - y[i]);
    if (!(d <= most)) most = d;
    if (fabs((double)y[i]) > scale) scale = fabs((double)y[i]);
    if (isnan(d)) return INFINITY;
  }
  return most / scale;
}

/* ---- a recurrence against the reference ------------------------------------------------------ */

TEST(gradients_of_a_recurrence_are_the_references) {
  static const char *const shapes[] = {"q=Bx4x32x8", "k=Bx4x32x8", "v=Bx4x32x8", "i=Bx4x32",
                                       "f=Bx4x32"};
  static const char *const names[] = {"q", "k", "v", "i", "f"};
  static const int64_t batches[] = {1};
  vtb_compile_options o = {.size = sizeof o,
                           .model = "mlstm",
                           .shapes = shapes,
                           .n_shapes = 5,
                           .batches = batches,
                           .n_batches = 1,
                           .vjp = true};
  char path[512];
  vtb_weights *w = NULL;
  snprintf(path, sizeof path, "%s", temp_path("mlstm.so"));
  compile(&o, path);
  CHECK_OK(vtb_safetensors_load(VTB_SOURCE_DIR "/tests/golden/vil/cell_gates_wide.safetensors", &w,
                                err));
  vtb_session *s = open_session(path, VTB_SESSION_VJP);
  for (int i = 0; i < 6; i++) {
    char key[64], name[64];
    snprintf(key, sizeof key, i < 5 ? "input/%s" : "probe/y", names[i % 5]);
    snprintf(name, sizeof name, "%s", i < 5 ? names[i] : "d:y");
    const vtb_weight *t = vtb_weights_find(w, key);
    vtb_array a = array_of(s, name);
    CHECK(t && a.kind == (i < 5 ? VTB_ARRAY_INPUT : VTB_ARRAY_ADJOINT));
    memcpy(a.data, t->data, (size_t)(count(&a) / a.dim[0] * 2) * 4);
  }
  CHECK_OK(vtb_session_run(s, 2, err)); /* two runs of one row */
  for (int i = 0; i < 5; i++) {
    char key[64], name[64];
    snprintf(key, sizeof key, "grad_input/%s", names[i]);
    snprintf(name, sizeof name, "d:%s", names[i]);
    const vtb_weight *t = vtb_weights_find(w, key);
    vtb_array a = array_of(s, name);
    double d = difference(a.data, t->data, count(&a) / a.dim[0] * 2);
    CHECK_MSG(a.kind == VTB_ARRAY_GRADIENT && d < 2e-4, "%s differs by %g", name, d);
  }
  vtb_session_close(s);
  vtb_weights_free(w);
}

/* ---- a model --------------------------------------------------------------------------------- */

static vtb_compile_options options(void) {
  static const char *const defines[] = {"depth=1", "dim=16"};
  return (vtb_compile_options){.size = sizeof(vtb_compile_options),
                               .model = "vil_nano",
                               .defines = defines,
                               .n_defines = 2,
                               .weights = weights,
                               .no_tuning = true,
                               .vjp = true};
}

/* As if it had been trained: what is initialised as zeros hides what is behind it. */
static void make_files(void) {
  static const int64_t some[] = {4, 1}, three[] = {3};
  vtb_compile_options o = options();
  vtb_program *p = NULL;
  vtb_runner *m = NULL;
  const vtb_tensor_info *t;
  unsigned long long seed = 5;
  snprintf(joined, sizeof joined, "%s", temp_path("joined.so"));
  snprintf(padded, sizeof padded, "%s", temp_path("padded.so"));
  snprintf(weights, sizeof weights, "%s", temp_path("w.safetensors"));
  o.weights = NULL;
  CHECK(vtb_compile(&o, &p, NULL) == VTB_OK);
  if (!p) exit(1);
  CHECK_OK(vtb_runner_new(p, 1, &m, err));
  CHECK_OK(vtb_runner_init(m, 11, err));
  for (int i = vtb_runner_tensors(m, &t) - 1; i >= 0; i--) {
    int64_t n;
    float *at = t[i].io == VTB_IO_PARAM ? vtb_runner_param(m, t[i].name, &n) : NULL;
    for (int64_t k = 0; at && k < n; k++) at[k] += 0.3f * (float)test_random(&seed);
  }
  CHECK_OK(vtb_runner_save(m, weights, err));
  vtb_runner_free(m);
  o.weights = weights;
  o.batches = some, o.n_batches = 2;
  compile(&o, joined);
  o.batches = three, o.n_batches = 1;
  compile(&o, padded);
}

/* x and dy of the first rows; behind them is what must not be seen. */
static void fill(float *at, const char *name, int64_t n, int64_t all) {
  unsigned long long seed = vtb_hash_str(VTB_HASH_INIT, name) | 1;
  for (int64_t i = 0; i < n; i++) at[i] = (float)(0.7 * test_random(&seed));
  for (int64_t i = n; i < all; i++) at[i] = NAN;
}

static void fill_session(vtb_session *s) {
  vtb_array x = array_of(s, "x"), dy = array_of(s, "d:y");
  CHECK(x.dim[0] == 2 * ROWS && dy.dim[0] == 2 * ROWS);
  fill(x.data, "x", count(&x) / 2, count(&x));
  fill(dy.data, "d:y", count(&dy) / 2, count(&dy));
}

static bool is_given(const vtb_array *a) {
  return a->kind == VTB_ARRAY_INPUT || a->kind == VTB_ARRAY_PARAMETER;
}

/* sum(dy * y) in double, with the argument `moved` (none: -1) moved by h along a direction. */
static double objective(vtb_compilation *c, const vtb_weights *w, int moved, double h) {
  vtb_func *f = vtb_module_find(c->module, c->func);
  vtb_tensor args[128] = {{{0}, NULL}}, y[4] = {{{0}, NULL}};
  vtb_interp_options o = {.batch = ROWS};
  float *numbers = calloc((size_t)ROWS * SIDE * SIDE, sizeof *numbers);
  double sum = 0;
  CHECK(f->n_args <= 128 && f->n_returns == 1);
  for (int a = 0; a < f->n_args; a++) {
    const char *name = f->arg_info[a].official ? f->arg_info[a].official : f->args[a]->name;
    unsigned long long seed = 99;
    vtb_type t = f->args[a]->type;
    const vtb_weight *given = vtb_weights_find(w, name);
    const float *from = given ? given->data : numbers;
    if (vtb_type_is_dynamic(&t)) t.dim[0].size = ROWS;
    int64_t n = vtb_type_count(&t);
    if (!given) fill(numbers, name, n, n);
    args[a] = vtb_tensor_new(t);
    for (int64_t k = 0; k < n; k++)
      args[a].data[k] = from[k] + (a == moved ? h * test_random(&seed) : 0);
  }
  CHECK_OK(vtb_interpret(f, args, y, &o, err));
  fill(numbers, "d:y", ROWS * CLASSES, ROWS * CLASSES);
  for (int64_t k = 0; k < ROWS * CLASSES && y[0].data; k++) sum += numbers[k] * y[0].data[k];
  for (int a = 0; a < f->n_args; a++) vtb_tensor_free(&args[a]);
  vtb_tensor_free(&y[0]);
  free(numbers);
  return sum;
}

/* Two programs put together, and one with a row that is none, give what differences say. */
TEST(gradients_of_a_model_are_what_differences_say) {
  vtb_compilation c;
  vtb_compile_options o = options();
  vtb_report *r = vtb_report_new();
  vtb_weights *w = NULL;
  vtb_session *s[2] = {open_session(joined, VTB_SESSION_VJP),
                       open_session(padded, VTB_SESSION_VJP)};
  CHECK(vtb_compilation_open(&c, &o, r) == VTB_OK);
  CHECK_OK(vtb_safetensors_load(weights, &w, err));
  for (int i = 0; i < 2; i++) {
    fill_session(s[i]);
    CHECK_OK(vtb_session_run(s[i], ROWS, err));
    CHECK_OK(vtb_session_run(s[i], ROWS, err)); /* makes them anew, and adds nothing */
  }
  vtb_func *f = vtb_module_find(c.module, c.func);
  for (int a = 0; a < f->n_args; a++) {
    const char *name = f->arg_info[a].official ? f->arg_info[a].official : f->args[a]->name;
    char of[128];
    snprintf(of, sizeof of, "d:%s", name);
    vtb_array g = array_of(s[0], of), other = array_of(s[1], of);
    int64_t n = strcmp(name, "x") == 0 ? count(&g) / 2 : count(&g);
    double want = (objective(&c, w, a, 1e-5) - objective(&c, w, a, -1e-5)) / 2e-5, got = 0, all = 0;
    unsigned long long seed = 99;
    for (int64_t k = 0; k < n; k++) {
      double along = test_random(&seed) * ((const float *)g.data)[k];
      got += along;
      all += fabs(along);
    }
    CHECK_MSG(fabs(got - want) <= 2e-4 * all + 1e-6, "%s is %.9g, differences say %.9g", of, got,
              want);
    double d = difference(g.data, other.data, n);
    CHECK_MSG(d < 2e-5, "%s differs by %g", of, d);
  }
  vtb_session_close(s[0]), vtb_session_close(s[1]);
  vtb_weights_free(w);
  vtb_compilation_free(&c);
  vtb_report_free(r);
}

/* Everything in memory of the caller's, at odd places: the same bits; parameters that he changes
 * between runs are those that the next one has. */
TEST(the_callers_memory_is_used) {
  vtb_session *own = open_session(joined, VTB_SESSION_VJP),
              *s = open_session(joined, VTB_SESSION_VJP);
  vtb_model *m = NULL;
  vtb_array at[128], arrays[128] = {{0}};
  char *memory[128] = {0};
  int n = 0;
  fill_session(own);
  CHECK_OK(vtb_session_run(own, ROWS, err));
  CHECK_OK(vtb_model_open(joined, NULL, &m, err));
  vtb_program_info about = {.size = sizeof about};
  int number = 0;
  while (vtb_model_program(m, number, &about, NULL) == VTB_OK && about.role != VTB_SESSION_VJP)
    number++;
  CHECK(about.role == VTB_SESSION_VJP && about.n_arrays <= 128 && about.cpu);
  for (; n < about.n_arrays; n++) {
    vtb_array *a = &arrays[n];
    a->size = sizeof *a;
    CHECK_OK(vtb_model_array(m, number, n, a, err));
    at[n] = array_of(own, a->name);
    if (at[n].dim[0] == 2 * ROWS) at[n].dim[0] = ROWS;
    memory[n] = malloc((size_t)count(&at[n]) * 4 + 2);
    memset(memory[n], 0x5a, (size_t)count(&at[n]) * 4 + 2);
    if (is_given(&at[n]) || at[n].kind == VTB_ARRAY_ADJOINT)
      memcpy(memory[n] + 1, at[n].data, (size_t)count(&at[n]) * 4);
    vtb_array mine = at[n];
    mine.data = memory[n] + 1;
    CHECK_OK(vtb_session_bind(s, a->name, &mine, err));
  }
  CHECK_OK(vtb_session_run(s, 0, err));
  for (int i = 0; i < n; i++) {
    size_t bytes = (size_t)count(&at[i]) * 4;
    CHECK_MSG(memcmp(memory[i] + 1, at[i].data, bytes) == 0, "%s is another", at[i].name);
    CHECK(memory[i][0] == 0x5a && memory[i][bytes + 1] == 0x5a);
  }
  /* a step of gradient descent makes the objective smaller */
  double before = 0, after = 0, most = 0;
  for (int way = 0; way < 2; way++) {
    for (int i = 0; i < n; i++)
      for (int64_t k = 0; k < count(&at[i]) && at[i].kind == VTB_ARRAY_OUTPUT; k++) {
        float y, dy;
        int j = 0;
        while (strcmp(at[j].name, "d:y") != 0) j++;
        memcpy(&y, memory[i] + 1 + 4 * k, 4), memcpy(&dy, memory[j] + 1 + 4 * k, 4);
        *(way ? &after : &before) += (double)y * dy;
      }
    for (int i = 0; i < n && !way; i++) {
      char of[128];
      int j = 0;
      snprintf(of, sizeof of, "d:%s", at[i].name);
      while (j < n && strcmp(at[j].name, of) != 0) j++;
      for (int64_t k = 0; k < count(&at[i]) && at[i].kind == VTB_ARRAY_PARAMETER && j < n; k++) {
        float p, g;
        memcpy(&p, memory[i] + 1 + 4 * k, 4), memcpy(&g, memory[j] + 1 + 4 * k, 4);
        p -= 1e-4f * g;
        most += 1e-4 * (double)g * (double)g;
        memcpy(memory[i] + 1 + 4 * k, &p, 4);
      }
    }
    if (!way) CHECK_OK(vtb_session_run(s, ROWS, err));
  }
  CHECK_MSG(fabs(before - after - most) < 0.2 * most && most > 1e-3, "%g less than %g: not %g",
            before - after, before, most);
  for (int i = 0; i < n; i++) free(memory[i]);
  vtb_session_close(own), vtb_session_close(s);
  vtb_model_release(m);
}

/* A row that a program has too many is not zeros, where a function may have no derivative. */
TEST(rows_too_many_add_nothing) {
  static const char text[] =
      "block root(x: tensor) {\n  return sqrt(x * param w: [x.dim] ~ ones)\n}\n";
  static const char *const shapes[] = {"x=Bx2"};
  static const int64_t batches[] = {3};
  vtb_compile_options o = {.size = sizeof o,
                           .model = "root.vtb",
                           .text = text,
                           .entry = "root",
                           .shapes = shapes,
                           .n_shapes = 1,
                           .batches = batches,
                           .n_batches = 1,
                           .vjp = true};
  float x[] = {4, 9, 16, 25}, w[] = {1, 4}, dy[] = {1, 2, 3, 4}, dw[2], dx[4];
  vtb_array all = {.size = sizeof all, .type = VTB_ARRAY_F32, .rank = 2, .dim = {2, 2}, .data = x};
  vtb_array one = {.size = sizeof one, .type = VTB_ARRAY_F32, .rank = 1, .dim = {2}, .data = w};
  char path[512];
  snprintf(path, sizeof path, "%s", temp_path("root.so"));
  compile(&o, path);
  vtb_session *s = open_session(path, VTB_SESSION_VJP);
  CHECK_OK(vtb_session_bind(s, "x", &all, err));
  CHECK_OK(vtb_session_bind(s, "w", &one, err));
  one.data = dw;
  CHECK_OK(vtb_session_bind(s, "d:w", &one, err));
  all.data = dy;
  CHECK_OK(vtb_session_bind(s, "d:y", &all, err));
  all.data = dx;
  CHECK_OK(vtb_session_bind(s, "d:x", &all, err));
  CHECK_OK(vtb_session_run(s, 0, err));
  for (int k = 0; k < 2; k++) { /* d sqrt(x w) = x / (2 sqrt(x w)) dw */
    double want = 0;
    for (int r = 0; r < 2; r++) {
      double root = sqrt((double)x[2 * r + k] * w[k]), by = dy[2 * r + k] / (2 * root);
      want += by * x[2 * r + k];
      CHECK_NEAR((double)dx[2 * r + k], by * w[k], 1e-6);
    }
    CHECK_NEAR((double)dw[k], want, 1e-5);
  }
  vtb_session_close(s);
}

/* ---- what cannot be -------------------------------------------------------------------------- */

TEST(what_cannot_be_is_said) {
  static const char text[] = "fn whole(x: tensor) {\n  return sum(x * x, axis = \"B\")\n}\n";
  static const char *const shapes[] = {"x=Bx3"};
  static const int64_t batches[] = {2, 1};
  vtb_compile_options o = {.size = sizeof o,
                           .model = "whole.vtb",
                           .entry = "whole",
                           .text = text,
                           .shapes = shapes,
                           .n_shapes = 1,
                           .batches = batches,
                           .n_batches = 2};
  vtb_session_options vjp = {.size = sizeof vjp, .role = VTB_SESSION_VJP, .batch = 3};
  vtb_model *m = NULL;
  vtb_session *s = NULL;
  char path[512];
  snprintf(path, sizeof path, "%s", temp_path("whole.so"));
  compile(&o, path);
  CHECK_OK(vtb_model_open(path, NULL, &m, err));
  CHECK_REFUSED(vtb_session_open(m, &vjp, &s, err), "make gradients: build it with --vjp");
  vtb_model_release(m);
  o.vjp = true;
  compile(&o, path);
  CHECK_OK(vtb_model_open(path, NULL, &m, err));
  CHECK_OK(vtb_session_open(m, &vjp, &s, err));
  CHECK_REFUSED(vtb_session_run(s, 3, err), "is of all rows of a program");
  CHECK_OK(vtb_session_run(s, 2, err));
  vtb_session_close(s);
  vtb_model_release(m);
}

int main(void) {
  setenv("VTB_MODELS", VTB_SOURCE_DIR "/models", 1);
  RUN(gradients_of_a_recurrence_are_the_references);
  make_files();
  RUN(gradients_of_a_model_are_what_differences_say);
  RUN(the_callers_memory_is_used);
  RUN(rows_too_many_add_nothing);
  RUN(what_cannot_be_is_said);
  return test_done();
}
