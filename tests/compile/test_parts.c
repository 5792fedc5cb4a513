/* Blocks, functions and recurrences as programs, with their gradients in one program or in two:
 * the two give what the one gives, and that is what differences of the outputs say. */
#include "frontend/compile/driver.h"
#include "runtime/launch/threads.h"
#include "tests/test.h"

enum { MOST_TENSORS = 64 };

typedef struct entry {
  const char *name, *model, *text, *entry;
  const char *shapes[12], *defines[4], *wrt[4];
} entry;

static const char own_text[] = "recurrence leaky(x: [C], keep: [C]) -> [C] {\n"
                               "  state s: [C]\n"
                               "  s = sigmoid(keep) * s + tanh(x)\n"
                               "  yield s * x\n"
                               "}\n";

static const entry entries[] = {
    {.name = "mlstm",
     .model = "mlstm",
     .shapes = {"q=Bx2x17x6", "k=Bx2x17x6", "v=Bx2x17x5", "i=Bx2x17", "f=Bx2x17"}},
    {.name = "retention",
     .model = "retention_step",
     .shapes = {"q=Bx3x9x4", "k=Bx3x9x4", "v=Bx3x9x7", "alpha=Bx3x9"}},
    {.name = "selective scan",
     .model = "selective_step",
     .shapes = {"u=Bx13x5", "delta=Bx13x5", "A=5x3", "B=Bx13x3", "C=Bx13x3"}},
    {.name = "gated linear attention",
     .model = "gla",
     .shapes = {"q=Bx2x11x4", "k=Bx2x11x4", "v=Bx2x11x3", "g=Bx2x11x4"}},
    {.name = "delta rule",
     .model = "delta_rule",
     .shapes = {"q=Bx2x11x4", "k=Bx2x11x4", "v=Bx2x11x3", "beta=Bx2x11"}},
    {.name = "a user's recurrence",
     .model = "own.vtb",
     .text = own_text,
     .entry = "leaky",
     .shapes = {"x=Bx10x7", "keep=Bx10x7"}},
    {.name = "a block",
     .model = "vil_block",
     .shapes = {"x=Bx12x16"},
     .defines = {"grid_height=3", "grid_width=4", "directions=[rows~]"}},
    {.name = "a block, by its input and a weight",
     .model = "vil_block",
     .shapes = {"x=Bx12x16"},
     .defines = {"grid_height=3", "grid_width=4"},
     .wrt = {"x", "*norm.weight"}},
};
enum { N_ENTRIES = sizeof entries / sizeof *entries, N_RECURRENCES = 6 };

static size_t count(const char *const *list) {
  size_t n = 0;
  while (list[n]) n++;
  return n;
}

static vtb_compile_options options_of(const entry *e, vtb_compile_part part, const char *target) {
  return (vtb_compile_options){.size = sizeof(vtb_compile_options),
                               .model = e->model,
                               .text = e->text,
                               .entry = e->entry,
                               .shapes = e->shapes,
                               .n_shapes = count(e->shapes),
                               .defines = e->defines,
                               .n_defines = count(e->defines),
                               .wrt = e->wrt[0] ? e->wrt : NULL,
                               .n_wrt = count(e->wrt),
                               .part = part,
                               .batch = 3,
                               .target = target,
                               .no_tuning = true};
}

/* ---- running --------------------------------------------------------------------------------- */

typedef struct running {
  vtb_program *p;
  vtb_services *s;
  void *at[MOST_TENSORS], *workspace;
} running;

static running start(const entry *e, vtb_compile_part part, const char *target) {
  running r = {0};
  vtb_report *report = vtb_report_new();
  vtb_compile_options o = options_of(e, part, target);
  vtb_status status = vtb_compile(&o, &r.p, report);
  char *said = vtb_report_text(report, false);
  CHECK_MSG(status == VTB_OK, "%s: %s%s", e->name, vtb_report_error(report), said);
  free(said);
  vtb_report_free(report);
  if (!r.p) exit(1);
  CHECK(r.p->n_tensors <= MOST_TENSORS);
  CHECK((r.s = vtb_services_default(1)) != NULL);
  for (int i = 0; i < r.p->n_tensors; i++) {
    size_t n = (size_t)vtb_tensor_info_count(&r.p->tensors[i]);
    float *x = r.at[i] = vtb_aligned_alloc(n * 4 + 64);
    for (size_t k = 0; k < n; k++) x[k] = NAN; /* what nobody writes is seen */
  }
  r.workspace = vtb_aligned_alloc((size_t)r.p->workspace_bytes + 64);
  return r;
}

static void finish(running *r) {
  for (int i = 0; i < r->p->n_tensors; i++) free(r->at[i]);
  free(r->workspace);
  vtb_services_free(r->s);
  vtb_program_free(r->p);
}

static void run(running *r) {
  vtb_error err = {0};
  vtb_status status = vtb_program_execute(r->p, r->at, r->workspace, r->s, &err);
  CHECK_MSG(status == VTB_OK, "%s", err.text);
}

static float *tensor(running *r, const char *name, int64_t *n) {
  int i = vtb_program_find(r->p, name);
  *n = i < 0 ? 0 : vtb_tensor_info_count(&r->p->tensors[i]);
  return i < 0 ? NULL : r->at[i];
}

static bool is_given(vtb_io io) {
  return io == VTB_IO_INPUT || io == VTB_IO_PARAM || io == VTB_IO_GRAD_IN;
}

/* The same numbers for a name in every program. */
static void fill(running *r) {
  for (int i = 0; i < r->p->n_tensors; i++) {
    const vtb_tensor_info *t = &r->p->tensors[i];
    unsigned long long seed = vtb_hash_str(VTB_HASH_INIT, t->name) | 1;
    float *x = r->at[i];
    for (int64_t k = 0; is_given(t->io) && k < vtb_tensor_info_count(t); k++)
      x[k] = (float)(0.7 * test_random(&seed));
  }
}

/* Of names that both have. */
static void give(running *from, running *to) {
  for (int i = 0; i < to->p->n_tensors; i++) {
    int64_t n;
    const vtb_tensor_info *t = &to->p->tensors[i];
    bool saved = vtb_starts_with(t->name, "saved.") || vtb_starts_with(t->name, "result.");
    const float *x = tensor(from, vtb_starts_with(t->name, "result.") ? t->name + 7 : t->name, &n);
    if (!saved || !is_given(t->io)) continue;
    CHECK_MSG(x && n == vtb_tensor_info_count(t), "%s was not saved", t->name);
    if (x) memcpy(to->at[i], x, (size_t)n * 4);
  }
}

static void alike(const entry *e, running *a, running *b, const char *name, double within) {
  int64_t n, m;
  const float *x = tensor(a, name, &n), *y = tensor(b, name, &m);
  CHECK_MSG(x && y && n == m, "%s: %s is missing", e->name, name);
  double most = 0, scale = 1e-3;
  for (int64_t k = 0; x && y && k < n; k++) {
    most = fabs((double)x[k] - y[k]) > most ? fabs((double)x[k] - y[k]) : most;
    scale = fabs((double)x[k]) > scale ? fabs((double)x[k]) : scale;
    if (isnan(x[k]) || isnan(y[k])) most = INFINITY;
  }
  CHECK_MSG(most <= within * scale, "%s: %s differs by %g of %g", e->name, name, most, scale);
}

/* ---- the tests ------------------------------------------------------------------------------- */

static void halves_of(const entry *e, const char *target, double within) {
  running whole = start(e, VTB_PART_GRADIENT, target), ahead = start(e, VTB_PART_FORWARD, target),
          back = start(e, VTB_PART_BACKWARD, target);
  int n_gradients = 0;
  fill(&whole), fill(&ahead), fill(&back);
  run(&whole);
  run(&ahead);
  give(&ahead, &back);
  run(&back);
  for (int i = 0; i < whole.p->n_tensors; i++) {
    const vtb_tensor_info *t = &whole.p->tensors[i];
    if (t->io == VTB_IO_OUTPUT) alike(e, &whole, &ahead, t->name, within);
    if (t->io == VTB_IO_GRAD_OUT) alike(e, &whole, &back, t->name, within), n_gradients++;
  }
  CHECK_MSG(n_gradients > 0, "%s has no gradients", e->name);
  finish(&whole), finish(&ahead), finish(&back);
}

TEST(two_halves_give_what_the_whole_gives) {
  for (int i = 0; i < N_ENTRIES; i++) halves_of(&entries[i], "cpu", 2e-5);
}

TEST(two_halves_give_what_the_whole_gives_on_cuda) {
  halves_of(&entries[0], "cuda-emulated", 2e-4);
  halves_of(&entries[2], "cuda-emulated", 2e-4);
}

/* An argument that is called as results are by default is not the result. */
TEST(arguments_may_be_called_y) {
  static const entry e = {.name = "a function of y",
                          .model = "own.vtb",
                          .text = "fn twice(x: tensor, y: tensor) { return x + 2 * y }\n",
                          .entry = "twice",
                          .shapes = {"x=Bx5", "y=Bx5"}};
  running r = start(&e, VTB_PART_GRADIENT, "cpu");
  int64_t n[5];
  fill(&r);
  run(&r);
  const float *x = tensor(&r, "x", &n[0]), *y = tensor(&r, "y", &n[1]),
              *d = tensor(&r, "d:result", &n[2]), *dy = tensor(&r, "d:y", &n[3]),
              *result = tensor(&r, "result", &n[4]);
  for (int i = 0; i < 5; i++) CHECK(n[i] == 15);
  for (int i = 0; i < 15 && x && y && result && d && dy; i++)
    CHECK(result[i] == x[i] + 2 * y[i] && dy[i] == 2 * d[i]);
  finish(&r);
}

/* sum(dy * y) changes along a random direction of each input as its gradient says. */
static void differences_of(const entry *e) {
  running whole = start(e, VTB_PART_GRADIENT, "cpu"), value = start(e, VTB_PART_VALUE, "cpu");
  fill(&whole);
  run(&whole);
  for (int i = 0; i < whole.p->n_tensors; i++) {
    const vtb_tensor_info *t = &whole.p->tensors[i];
    if (t->io != VTB_IO_GRAD_OUT) continue;
    int64_t n, m;
    const float *g = whole.at[i];
    float *x = tensor(&value, t->name + 2, &n);
    double sum[2] = {0}, want = 0, scale = 0, h = 2e-3;
    for (int side = 0; side < 2; side++) {
      unsigned long long seed = 99;
      fill(&value);
      for (int64_t k = 0; k < n; k++) x[k] += (float)((side ? h : -h) * test_random(&seed));
      run(&value);
      for (int a = 0; a < value.p->n_tensors; a++) {
        const vtb_tensor_info *y = &value.p->tensors[a];
        char name[64];
        if (y->io != VTB_IO_OUTPUT) continue;
        snprintf(name, sizeof name, "d:%s", y->name);
        const float *dy = tensor(&whole, name, &m), *at = value.at[a];
        for (int64_t k = 0; dy && k < m; k++) sum[side] += (double)dy[k] * at[k];
      }
    }
    unsigned long long seed = 99;
    for (int64_t k = 0; k < n; k++) {
      double along = test_random(&seed);
      want += along * g[k];
      scale += fabs(along * g[k]);
    }
    double got = (sum[1] - sum[0]) / (2 * h);
    CHECK_MSG(fabs(got - want) <= 2e-2 * scale / sqrt((double)n) + 3e-3 * fabs(want) + 1e-3,
              "%s: %s is %g, differences say %g", e->name, t->name, want, got);
  }
  finish(&whole), finish(&value);
}

/* (A block bends too much for differences in single precision; golden cases have its gradients.) */
TEST(gradients_are_what_differences_say) {
  for (int i = 0; i < N_RECURRENCES; i++) differences_of(&entries[i]);
}

static void refused(entry e, vtb_compile_part part, const char *words) {
  vtb_program *p = NULL;
  vtb_report *r = vtb_report_new();
  vtb_compile_options o = options_of(&e, part, "cpu");
  CHECK(vtb_compile(&o, &p, r) != VTB_OK && !p);
  char *said = vtb_report_text(r, false);
  CHECK_MSG(strstr(vtb_report_error(r), words) || strstr(said, words), "'%s' is not in '%s' %s",
            words, vtb_report_error(r), said);
  free(said);
  vtb_report_free(r);
}

TEST(what_is_asked_wrongly_is_said) {
  entry e = entries[0];
  e.shapes[0] = "q";
  refused(e, VTB_PART_VALUE, "a shape is NAME=SIZES");
  e.shapes[0] = "q=3x0x2";
  refused(e, VTB_PART_VALUE, "a shape is NAME=SIZES");
  e.shapes[0] = "q=2xBx4";
  refused(e, VTB_PART_VALUE, "a shape is NAME=SIZES");
  e.shapes[0] = "k=Bx2x17x6";
  refused(e, VTB_PART_VALUE, "given twice");
  e = entries[0];
  e.shapes[4] = NULL;
  refused(e, VTB_PART_VALUE, "the shape of 'f' is not given");
  e = entries[6];
  e.shapes[1] = "z=Bx3";
  refused(e, VTB_PART_VALUE, "has no tensor 'z'");
  e = entries[0];
  e.wrt[0] = "w*";
  refused(e, VTB_PART_GRADIENT, "no input or parameter 'w*'");
}

int main(void) {
  RUN(two_halves_give_what_the_whole_gives);
  RUN(two_halves_give_what_the_whole_gives_on_cuda);
  RUN(arguments_may_be_called_y);
  RUN(gradients_are_what_differences_say);
  RUN(what_is_asked_wrongly_is_said);
  return test_done();
}
