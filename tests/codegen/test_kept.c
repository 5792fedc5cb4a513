/* What is prepared on processors: made by a part of the entry of its own, kept beside the workspace
 * and read by any number of runs, of other batches, too. */
#include "tests/codegen/codegen_check.h"

#include "passes/passes.h"
#include "tests/runtime/support.h"

enum { BATCH = 3, WIDTH = 24, PARAMS = WIDTH * WIDTH };

/* Kept are the exponentials and the concatenation, a view of which a function reads; the sum and
 * what it is made of only prepare others. */
static const char text[] =
    "entry func @f(%x: f32[B, 24], %w: f32[24, 24] param \"w\", %v: f32[24] buffer \"v\") -> "
    "(f32[B, 24], f32[B, 24]) {\n"
    "  %a = call @g(%x, %w, %v) : f32[B, 24]\n"
    "  %b = call @g(%a, %w, %v) : f32[B, 24]\n"
    "  %c = neg %b : f32[B, 24]\n"
    "  return %b, %c\n"
    "}\n"
    "func @g(%x: f32[B, 24], %w: f32[24, 24], %v: f32[24]) -> (f32[B, 24]) {\n"
    "  %n = neg %w : f32[24, 24]\n"
    "  %s = reduce_max %n {axes = [0]} : f32[24]\n"
    "  %t = exp %s : f32[24]\n"
    "  %j = concat %t, %v {axis = 0} : f32[48]\n"
    "  %p = slice %j {axis = 0, start = 12, limit = 36} : f32[24]\n"
    "  %e = tanh %n : f32[24, 24]\n"
    "  %y = einsum %x, %e {spec = \"bi,io->bo\"} : f32[B, 24]\n"
    "  %q = broadcast %p {shape = [3, 24]} : f32[3, 24]\n"
    "  %z = add %y, %q : f32[B, 24]\n"
    "  return %z\n"
    "}\n";

/* For so many rows; `updates`: as if runs changed the parameters. */
static vtb_program *compile(const char *from, int64_t rows, bool updates) {
  char bound[4096], *to = bound;
  for (const char *s = from; *s && to < bound + sizeof bound - 8; s++)
    if (*s == 'B' || (*s == '3' && s[-1] == '['))
      to += snprintf(to, 8, "%d", (int)rows);
    else
      *to++ = *s;
  *to = 0;
  vtb_module *m = parse_ir(bound);
  vtb_diags d = {0};
  vtb_error err = {0};
  vtb_pass_context c = {.module = m, .diags = &d, .batch = rows, .updates = updates};
  c.target = vtb_target_find("cpu");
  const vtb_pipeline_options o = {
      .pipeline = "simplify,cse,dce,fuse,hoist{of inference},prepare{of inference}",
      .verify_each = true};
  vtb_program *p = NULL;
  vtb_status status = vtb_run_pipeline(&c, &o, &err);
  if (status == VTB_OK) status = vtb_jit(m, m->entry, NULL, &p, &err);
  CHECK_MSG(status == VTB_OK, "%s", err.text);
  if (!p) exit(1);
  vtb_diags_free(&d);
  vtb_module_free(m);
  return p;
}

/* A program, memory that it runs in, and what it is given. */
typedef struct machine {
  vtb_program *p;
  vtb_services *s;
  void *workspace, *args[5];
  size_t bytes[2]; /* of results */
} machine;

static machine make(int64_t rows, bool updates) {
  machine m = {.p = compile(text, rows, updates), .s = vtb_services_default(2)};
  unsigned long long seed = 7;
  m.workspace = vtb_aligned_alloc((size_t)m.p->workspace_bytes);
  for (int i = 0; i < 5; i++) {
    int64_t n = vtb_tensor_info_count(&m.p->tensors[i]);
    float *at = m.args[i] = vtb_aligned_alloc((size_t)n * 4);
    for (int64_t k = 0; k < n; k++) at[k] = (float)test_random(&seed);
    if (i > 2) m.bytes[i - 3] = (size_t)n * 4;
  }
  return m;
}

static void drop(machine *m) {
  for (int i = 0; i < 5; i++) free(m->args[i]);
  free(m->workspace);
  vtb_services_free(m->s);
  vtb_program_free(m->p);
}

static void poison(machine *m, int64_t bytes) {
  memset(m->workspace, 0xff, (size_t)bytes);
  for (int r = 0; r < 2; r++) memset(m->args[3 + r], 0xff, m->bytes[r]);
}

/* All steps, in memory that has nothing. */
static void whole(machine *m, float *out) {
  poison(m, m->p->workspace_bytes);
  CHECK_OK(vtb_program_execute(m->p, m->args, m->workspace, m->s, err));
  memcpy(out, m->args[4], m->bytes[1]);
}

static void part(machine *m, void *kept, vtb_part which) {
  poison(m, m->p->workspace_bytes - m->p->kept_bytes);
  CHECK_OK(vtb_program_execute_part(m->p, m->args, m->workspace, kept, which, m->s, err));
}

static bool gives(const machine *m, const float *want) {
  return memcmp(m->args[4], want, m->bytes[1]) == 0;
}

TEST(what_is_kept_serves_runs_whose_workspace_has_nothing) {
  machine m = make(BATCH, false);
  static float first[BATCH * WIDTH], second[BATCH * WIDTH];
  /* the matrix, and a concatenation of 48 */
  CHECK_MSG(m.p->kept_bytes == PARAMS * 4 + 192, "%lld bytes", (long long)m.p->kept_bytes);
  CHECK(m.p->kept_key && m.p->workspace_bytes > m.p->kept_bytes);
  whole(&m, first);
  char *kept = vtb_aligned_alloc((size_t)m.p->kept_bytes + 64);
  memset(kept, 0xff, (size_t)m.p->kept_bytes + 64);
  part(&m, kept, VTB_PREPARED_STEPS);
  for (int r = 0; r < 2; r++) /* which are alone */
    for (size_t i = 0; i < m.bytes[r]; i++) CHECK(((unsigned char *)m.args[3 + r])[i] == 0xff);
  for (int i = 0; i < 2; i++) {
    part(&m, kept, VTB_OTHER_STEPS);
    CHECK(gives(&m, first));
  }
  ((float *)m.args[0])[5] += 1;
  whole(&m, second);
  CHECK(!gives(&m, first));
  part(&m, kept, VTB_OTHER_STEPS);
  CHECK(gives(&m, second));
  part(&m, kept, VTB_ALL_STEPS);
  CHECK(gives(&m, second));
  for (int i = 0; i < 64; i++) CHECK((unsigned char)kept[m.p->kept_bytes + i] == 0xff);
  free(kept);
  drop(&m);
}

TEST(parameters_that_changed_count_when_they_are_prepared_again) {
  machine m = make(BATCH, false);
  static float before[BATCH * WIDTH], after[BATCH * WIDTH];
  void *kept = vtb_aligned_alloc((size_t)m.p->kept_bytes);
  whole(&m, before);
  part(&m, kept, VTB_PREPARED_STEPS);
  for (int i = 0; i < WIDTH; i++) ((float *)m.args[2])[i] += 1;
  ((float *)m.args[1])[17] -= 2;
  whole(&m, after);
  CHECK(!gives(&m, before));
  part(&m, kept, VTB_OTHER_STEPS);
  CHECK(gives(&m, before));
  part(&m, kept, VTB_PREPARED_STEPS);
  part(&m, kept, VTB_OTHER_STEPS);
  CHECK(gives(&m, after));
  free(kept);
  drop(&m);
}

/* The workspace alone: from the second run on its first bytes are what was prepared. */
TEST(services_that_keep_leave_prepared_steps_out) {
  machine m = make(BATCH, false), other = make(BATCH, false);
  static float want[BATCH * WIDTH], changed[BATCH * WIDTH];
  whole(&m, want);
  vtb_services_keep(m.s, true);
  whole(&m, want);
  ((float *)m.args[1])[3] += 1;
  for (int i = 0; i < 2; i++) {
    CHECK_OK(vtb_program_execute(m.p, m.args, m.workspace, m.s, err));
    CHECK(gives(&m, want)); /* of the parameters before */
  }
  /* another program was in that workspace */
  CHECK_OK(vtb_program_execute(other.p, other.args, m.workspace, m.s, err));
  CHECK_OK(vtb_program_execute(m.p, m.args, m.workspace, m.s, err));
  CHECK(!gives(&m, want));
  memcpy(changed, m.args[4], sizeof changed);
  /* another workspace */
  memset(other.workspace, 0xff, (size_t)other.p->workspace_bytes);
  CHECK_OK(vtb_program_execute(m.p, m.args, other.workspace, m.s, err));
  CHECK(gives(&m, changed));
  ((float *)m.args[1])[3] -= 1;
  vtb_services_keep(m.s, false);
  for (int i = 0; i < 2; i++) {
    whole(&m, want);
    CHECK(!gives(&m, changed));
  }
  ((float *)m.args[1])[3] += 1;
  CHECK_OK(vtb_program_execute(m.p, m.args, m.workspace, m.s, err));
  CHECK(gives(&m, changed));
  drop(&m);
  drop(&other);
}

TEST(programs_of_all_batches_share_what_is_kept) {
  machine one = make(1, false), three = make(BATCH, false);
  static float want[BATCH * WIDTH];
  CHECK(one.p->kept_key == three.p->kept_key && one.p->kept_bytes == three.p->kept_bytes);
  for (int i = 1; i < 3; i++) {
    size_t n = (size_t)vtb_tensor_info_count(&one.p->tensors[i]) * 4;
    memcpy(three.args[i], one.args[i], n);
  }
  whole(&three, want);
  void *kept = vtb_aligned_alloc((size_t)one.p->kept_bytes);
  part(&one, kept, VTB_PREPARED_STEPS);
  part(&three, kept, VTB_OTHER_STEPS);
  CHECK(gives(&three, want));
  free(kept);
  drop(&one);
  drop(&three);
}

/* Of another parameter, or of another op. */
TEST(other_preparations_have_other_keys) {
  const char *const changes[][2] = {
      {"param \"w\"", "param \"u\""}, {"tanh", "sqrt"}, {"reduce_max", "reduce_sum"}};
  vtb_program *p = compile(text, 1, false);
  for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
    const char *at = strstr(text, changes[i][0]);
    char other[sizeof text + 64];
    snprintf(other, sizeof other, "%.*s%s%s", (int)(at - text), text, changes[i][1],
             at + strlen(changes[i][0]));
    vtb_program *q = compile(other, 1, false);
    CHECK_MSG(q->kept_bytes == p->kept_bytes && q->kept_key != p->kept_key, "%s", changes[i][1]);
    vtb_program_free(q);
  }
  vtb_program_free(p);
}

TEST(programs_that_change_their_parameters_keep_nothing) {
  machine m = make(BATCH, true), kept = make(BATCH, false);
  static float a[BATCH * WIDTH], b[BATCH * WIDTH];
  CHECK(m.p->kept_bytes == 0 && m.p->kept_key == 0);
  whole(&m, a);
  whole(&kept, b);
  CHECK(memcmp(a, b, sizeof a) == 0);
  drop(&m);
  drop(&kept);
}

/* ---- weights in panels ----------------------------------------------------------------------- */

static vtb_program *compile_for(vtb_module *m, const char *cpu, bool packed) {
  vtb_diags d = {0};
  vtb_error err = {0};
  vtb_pass_context c = {.module = m, .diags = &d, .batch = 1, .target = vtb_target_find("cpu")};
  const vtb_pipeline_options o = {
      .pipeline = packed ? "fuse,pack,hoist,prepare" : "fuse,hoist,prepare", .verify_each = true};
  vtb_program *p = NULL;
  vtb_status status = vtb_run_pipeline(&c, &o, &err);
  if (status == VTB_OK) status = vtb_jit(m, m->entry, &(vtb_codegen_options){.cpu = cpu}, &p, &err);
  CHECK_MSG(status == VTB_OK || status == VTB_E_DEVICE, "%s", err.text);
  vtb_diags_free(&d);
  return p;
}

/* The result of one run of the text's entry, on one thread or three; kept: how many bytes. */
static float *run_of(const char *from, const char *cpu, bool packed, int threads, int64_t *kept) {
  vtb_module *m = parse_ir(from);
  vtb_program *p = compile_for(m, cpu, packed);
  float *result = NULL;
  if (p) {
    unsigned long long seed = 7;
    void **args = vtb_xcalloc((size_t)p->n_tensors, sizeof *args);
    for (int i = 0; i < m->entry->n_args; i++) {
      int64_t n = vtb_tensor_info_count(&p->tensors[i]);
      float *at = args[i] = vtb_aligned_alloc((size_t)n * 4);
      for (int64_t k = 0; k < n; k++) at[k] = (float)test_random(&seed);
    }
    void **all = run_program(p, m->entry->n_args, args, threads);
    result = all[m->entry->n_args];
    *kept = p->kept_bytes;
    for (int i = 0; i < m->entry->n_args; i++) free(args[i]);
    vtb_free(args);
    free(all);
    vtb_program_free(p);
  }
  vtb_module_free(m);
  return result;
}

/* Every number is the same sum in the same order. */
TEST(panels_give_the_bits_of_rows) {
  static const struct {
    int rows, sum, columns;
    bool turned, adds;
  } cases[] = {{8, 16, 48, true, false},    {9, 64, 96, true, true},    {197, 192, 576, true, true},
               {13, 100, 144, false, true}, {31, 769, 96, true, false}, {50, 1600, 48, false, true},
               {8, 24, 240, true, true},    {70, 48, 192, false, false}};
  static const char *const cpus[] = {"x86-64", "x86-64-v3", "x86-64-v4"};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char from[1024], w[64];
    int m = cases[i].rows, k = cases[i].sum, n = cases[i].columns;
    bool t = cases[i].turned;
    snprintf(w, sizeof w, "f32[%d, %d]", t ? n : k, t ? k : n);
    snprintf(from, sizeof from,
             "entry func @f(%%x: f32[1, %d, %d], %%w: %s param \"w\", %%c: f32[%d] param \"c\") -> "
             "(f32[1, %d, %d]) {\n"
             "  %%y = einsum %%x, %%w%s {spec = \"bnd,%s->bne\"} : f32[1, %d, %d]\n"
             "  %%z = tanh %%y : f32[1, %d, %d]\n"
             "  return %%z\n}\n",
             m, k, w, n, m, n, cases[i].adds ? ", %c" : "", t ? "ed" : "de", m, n, m, n);
    for (size_t v = 0; v < sizeof cpus / sizeof *cpus; v++) {
      int64_t kept = 0, none = 0;
      float *rows = run_of(from, cpus[v], false, 1, &none);
      float *panels = run_of(from, cpus[v], true, 3, &kept);
      if (!rows || !panels) continue; /* this machine has not that level */
      CHECK(none == 0 && kept == (int64_t)k * n * 4);
      CHECK_MSG(memcmp(rows, panels, (size_t)m * (size_t)n * 4) == 0,
                "%d x %d x %d on %s: other bits", m, k, n, cpus[v]);
      free(rows);
      free(panels);
    }
  }
}

static void *(*scratch_of)(const vtb_services *s, int64_t bytes);
static int laid_out;
static void *count_scratch(const vtb_services *s, int64_t bytes) {
  laid_out++;
  return scratch_of(s, bytes);
}

/* Panels are read where they lie; rows are laid out by each task, in its scratch memory. */
TEST(products_of_panels_lay_nothing_out) {
  static const char product[] =
      "entry func @f(%x: f32[1, 196, 64], %w: f32[96, 64] param \"w\") -> (f32[1, 196, 96]) {\n"
      "  %y = einsum %x, %w {spec = \"bnd,ed->bne\"} : f32[1, 196, 96]\n"
      "  return %y\n}\n";
  for (int packed = 0; packed < 2; packed++) {
    vtb_module *m = parse_ir(product);
    vtb_program *p = compile_for(m, NULL, packed);
    vtb_services *s = vtb_services_default(1);
    void *args[3], *workspace = vtb_aligned_alloc((size_t)p->workspace_bytes);
    for (int i = 0; i < 3; i++) {
      size_t bytes = (size_t)vtb_tensor_info_count(&p->tensors[i]) * 4;
      args[i] = memset(vtb_aligned_alloc(bytes), 0, bytes);
    }
    scratch_of = s->scratch;
    s->scratch = count_scratch;
    laid_out = 0;
    CHECK_OK(vtb_program_execute(p, args, workspace, s, err));
    CHECK_MSG((laid_out == 0) == packed, "%d times", laid_out);
    for (int i = 0; i < 3; i++) free(args[i]);
    free(workspace);
    vtb_services_free(s);
    vtb_program_free(p);
    vtb_module_free(m);
  }
}

int main(void) {
  RUN(what_is_kept_serves_runs_whose_workspace_has_nothing);
  RUN(parameters_that_changed_count_when_they_are_prepared_again);
  RUN(services_that_keep_leave_prepared_steps_out);
  RUN(programs_of_all_batches_share_what_is_kept);
  RUN(other_preparations_have_other_keys);
  RUN(programs_that_change_their_parameters_keep_nothing);
  RUN(panels_give_the_bits_of_rows);
  RUN(products_of_panels_lay_nothing_out);
  return test_done();
}
