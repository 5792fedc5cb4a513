/* Optimisers that go by the shapes of tensors, or sum over all of them: against trajectories of
 * PyTorch and of the papers' authors in double (optimizers.txt), on the CPU, the emulated device
 * and in the interpreter; what is loaded, skipped and refused. */
#include "ir/interp.h"
#include "runtime/artefact/safetensors.h"
#include "ir/ir.h"

#include <string.h>

static inline vtb_type type_of(const char *name, int64_t count) {
  static const int64_t a[] = {6, 4}, b[] = {3, 2, 4}, head[] = {4, 3}, row[] = {1, 6};
  return name[0] == 'a'   ? vtb_type_make(VTB_F32, 2, a)
         : name[0] == 'b' ? vtb_type_make(VTB_F32, 3, b)
         : name[0] == 'h' ? vtb_type_make(VTB_F32, 2, head)
         : name[0] == 'p' ? vtb_type_make(VTB_F32, 2, row)
                          : vtb_type_make(VTB_F32, 1, &count);
}
#define STAND_IN_TYPE(p) type_of((p)->name, (p)->count)
#include "tests/whole/stand_in.h"

enum { STEPS = 6, TENSORS = 4 };

static const parameter tensors[TENSORS] = {{"a.weight", 24, true, 1},
                                           {"b.weight", 24, true, 1},
                                           {"head.weight", 12, true, 1},
                                           {"c.bias", 5, true, 1}};

static void begin(stand_in *s) {
  for (int k = 0; k < TENSORS; k++)
    for (int i = 0; i < tensors[k].count; i++) s->value[k][i] = (float)sin(0.7 * i + 1.3 * k);
}

static void set_gradients(stand_in *s, int t) {
  for (int k = 0; k < TENSORS; k++)
    for (int i = 0; i < tensors[k].count; i++)
      s->grad[k][i] = (float)(cos(0.3 * i * i + 0.9 * t + 0.5 * k) * (1 + 0.2 * k));
}

/* "muon(adjust = original)": its settings, in static memory. */
static size_t settings_of(char *text, vtb_override out[8]) {
  char *save = NULL, *open = strchr(text, '(');
  size_t n = 0;
  if (!open) return 0;
  *open = 0;
  for (char *p = strtok_r(open + 1, ",)", &save); p; p = strtok_r(NULL, ",)", &save)) {
    char *eq = strchr(p, '=');
    *eq = 0;
    while (*p == ' ') p++;
    p[strcspn(p, " ")] = 0;
    out[n++] = (vtb_override){.name = p, .value = eq + 1};
  }
  return n;
}

static stand_in opened(make_fn make, const char *what, const vtb_override *o, size_t n,
                       double average) {
  vtb_optim_config c = {.ema_decay = average};
  stand_in s = open_step(make, what, o, n, &c, tensors, TENSORS, 2);
  begin(&s);
  return s;
}

static void follow(make_fn make, const char *text, double lr, const double *want, double within) {
  char name[200];
  vtb_override settings[8];
  snprintf(name, sizeof name, "%s", text);
  size_t n = settings_of(name, settings);
  stand_in s = opened(make, name, settings, n, 0);
  for (int t = 1; t <= STEPS; t++) {
    set_gradients(&s, t);
    CHECK_OK(update(&s, lr, 1, NULL, err));
  }
  for (int k = 0; k < TENSORS; k++)
    for (int i = 0; i < tensors[k].count; i++) {
      double have = (double)s.value[k][i];
      CHECK_MSG(fabs(have - *want) <= within, "%s: %s[%d] is %.9g, not %.9g", text, tensors[k].name,
                i, have, *want);
      want++;
    }
  close_step(&s);
}

TEST(trajectories_of_others_are_followed) {
  size_t n;
  char *all = read_file(VTB_SOURCE_DIR "/tests/whole/optimizers.txt", &n), *save = NULL;
  int cases = 0;
  for (char *head = strtok_r(all, "\n", &save); head; head = strtok_r(NULL, "\n", &save)) {
    char *tab = strchr(head, '\t');
    double want[65];
    int m = 0;
    *tab = 0;
    for (int k = 0; k < TENSORS; k++) {
      char *row = strtok_r(NULL, "\n", &save);
      for (int i = 0; i < tensors[k].count; i++) want[m++] = strtod(row, &row);
    }
    follow(for_cpu, head, strtod(tab + 1, NULL), want, 4e-6);
    follow(for_emulator, head, strtod(tab + 1, NULL), want, 4e-6);
    cases++;
  }
  CHECK(cases == 6);
  free(all);
}

/* ---- states ---- */

static int64_t count_of(const stand_in *s, const char *name) {
  int i = vtb_program_find(s->program, name);
  return i < 0 ? -1 : vtb_tensor_info_count(&s->program->tensors[i]);
}

TEST(states_have_their_shapes) {
  stand_in s = opened(for_cpu, "shampoo", NULL, 0, 0);
  CHECK(count_of(&s, "optim/left/a.weight") == 36 && count_of(&s, "optim/right/a.weight") == 16);
  CHECK(count_of(&s, "optim/left/b.weight") == 9 && count_of(&s, "optim/right/b.weight") == 64);
  CHECK(count_of(&s, "optim/v/a.weight") == -1 && count_of(&s, "optim/v/c.bias") == 5);
  CHECK(count_of(&s, "optim/left/c.bias") == -1);
  close_step(&s);
  s = opened(for_cpu, "muon", NULL, 0, 0);
  CHECK(count_of(&s, "optim/m/a.weight") == 24 && count_of(&s, "optim/v/a.weight") == -1);
  CHECK(count_of(&s, "optim/v/head.weight") == 12);
  close_step(&s);
  s = opened(for_cpu, "prodigy", NULL, 0, 0);
  CHECK(count_of(&s, "optim/d/shared") == 1 && count_of(&s, "optim/d/a.weight") == -1);
  close_step(&s);
}

/* Two axes of which one has size 1 are no matrix. */
TEST(a_row_is_a_vector) {
  const parameter row = {"pos", 6, true, 1};
  vtb_optim_config c = {0};
  stand_in s = open_step(for_cpu, "muon", NULL, 0, &c, &row, 1, 1);
  CHECK(count_of(&s, "optim/v/pos") == 6);
  close_step(&s);
}

/* Saved behind step 3 and loaded into another: to the bit what goes on. */
static void interrupted(make_fn make, const char *what) {
  stand_in s = opened(make, what, NULL, 0, 0.9), other = opened(make, what, NULL, 0, 0.9);
  vtb_optim_begin_averages(s.optim);
  for (int t = 1; t <= STEPS; t++) {
    set_gradients(&s, t);
    CHECK_OK(update(&s, 0.1, 1, NULL, err));
    if (t == 3) {
      vtb_weights *w = vtb_weights_new();
      vtb_optim_save(s.optim, w);
      CHECK_OK(vtb_safetensors_save(temp_path("states.safetensors"), w, err));
      vtb_weights_free(w);
      CHECK_OK(vtb_safetensors_load(temp_path("states.safetensors"), &w, err));
      CHECK_OK(vtb_optim_load(other.optim, w, err));
      vtb_weights_free(w);
      for (int k = 0; k < TENSORS; k++)
        memcpy(other.value[k], s.value[k], (size_t)tensors[k].count * 4);
    } else if (t > 3) {
      set_gradients(&other, t);
      CHECK_OK(update(&other, 0.1, 1, NULL, err));
    }
  }
  for (int k = 0; k < TENSORS; k++) {
    CHECK_MSG(memcmp(s.value[k], other.value[k], (size_t)tensors[k].count * 4) == 0, "%s: %s", what,
              tensors[k].name);
    CHECK(memcmp(average(&s, k), average(&other, k), (size_t)tensors[k].count * 4) == 0);
    CHECK(memcmp(average(&s, k), s.value[k], (size_t)tensors[k].count * 4) != 0);
  }
  close_step(&s);
  close_step(&other);
}

TEST(interrupted_runs_go_on_to_the_bit) {
  static const char *const all[] = {"muon", "prodigy", "shampoo", "adafactor"};
  for (size_t i = 0; i < 4; i++) {
    interrupted(for_cpu, all[i]);
    if (i < 2) interrupted(for_emulator, all[i]);
  }
}

TEST(a_step_that_does_not_count_changes_nothing) {
  static const char *const all[] = {"muon", "prodigy", "shampoo"};
  for (size_t i = 0; i < 3; i++) {
    stand_in s = opened(for_cpu, all[i], NULL, 0, 0);
    set_gradients(&s, 1);
    CHECK_OK(update(&s, 0.1, 1, NULL, err));
    float before = s.value[0][1];
    int state = vtb_program_find(s.program, i == 1 ? "optim/d/shared" : "optim/m/a.weight");
    float kept = *(float *)s.args[state];
    set_gradients(&s, 2);
    s.grad[1][3] = NAN;
    CHECK_REFUSED(update(&s, 0.1, 1, NULL, err), "gradient of b.weight is not finite");
    CHECK(s.value[0][1] == before && *(float *)s.args[state] == kept && kept != 0);
    close_step(&s);
  }
}

/* Gradients that are clipped, scaled and of other rates: what the rule has is what these have. */
TEST(factors_reach_the_equations) {
  vtb_optim_config c = {.clip_norm = 0.5};
  stand_in s[2];
  for (int k = 0; k < 2; k++) {
    const char *text = k ? "optimizer o(decay: float = 0.1) {\n  state m\n  d = rows_of(matrix)\n"
                           "  m = 0.9 * m + g\n  w = w - lr * (m + decay * w) * d\n}\n"
                           "fn rows_of(m: bool) { 1.0 }\n"
                         : "optimizer o(decay: float = 0.1) {\n  state m\n  m = 0.9 * m + g\n"
                           "  w = w - lr * (m + decay * w)\n}\n";
    const char *path = temp_path(k ? "shaped.vtb" : "plain.vtb");
    write_file(path, text, strlen(text));
    s[k] = open_step(for_cpu, path, NULL, 0, &c, tensors, TENSORS, 2);
    begin(&s[k]);
    vtb_optim_set_rate(s[k].optim, 1, 0.25);
  }
  for (int t = 1; t <= STEPS; t++)
    for (int k = 0; k < 2; k++) {
      set_gradients(&s[k], t);
      for (int i = 0; i < TENSORS; i++)
        for (int j = 0; j < tensors[i].count; j++) s[k].grad[i][j] *= 64;
      CHECK_OK(update(&s[k], 0.05, 64, NULL, err));
    }
  for (int i = 0; i < TENSORS; i++)
    for (int j = 0; j < tensors[i].count; j++)
      CHECK_NEAR((double)s[0].value[i][j], (double)s[1].value[i][j], 3e-7);
  close_step(&s[0]);
  close_step(&s[1]);
}

/* One update that has not been lowered, in double, beside the CPU's. */
static void interpret(const char *name) {
  stand_in s = opened(for_cpu, name, NULL, 0, 0.5);
  vtb_module *m = updating(name, NULL, 0, true, tensors, TENSORS);
  vtb_func *f = m->entry;
  vtb_tensor *in = vtb_xcalloc((size_t)f->n_args, sizeof *in),
             *out = vtb_xcalloc((size_t)f->n_returns, sizeof *out);
  set_gradients(&s, 1);
  vtb_optim_prepare(s.optim, 0.1, 1);
  for (int a = 0; a < f->n_args; a++) {
    in[a] = vtb_tensor_new(f->args[a]->type);
    bool is_int = f->args[a]->type.dtype == VTB_I32;
    for (int64_t k = 0; k < vtb_type_count(&f->args[a]->type); k++)
      in[a].data[k] = is_int ? 0 : (double)((float *)s.args[a])[k];
  }
  CHECK_OK(vtb_interpret(f, in, out, NULL, err));
  CHECK_OK(vtb_program_execute(s.program, s.args, s.workspace, s.services, err));
  for (int r = 0; r < f->n_returns; r++)
    for (int64_t k = 0; k < vtb_type_count(&f->returns[r]->type); k++)
      CHECK_NEAR((double)((float *)s.args[f->n_args + r])[k], out[r].data[k],
                 1e-5 * fmax(1, fabs(out[r].data[k])));
  for (int a = 0; a < f->n_args; a++) vtb_tensor_free(&in[a]);
  for (int r = 0; r < f->n_returns; r++) vtb_tensor_free(&out[r]);
  free(in), free(out);
  vtb_module_free(m);
  close_step(&s);
}

TEST(the_interpreter_makes_the_same_update) {
  interpret("muon");
  interpret("prodigy");
  interpret("adafactor");
}

/* Tensors whose equations leave w alone stay as they are, without states. */
static void only_the_head(make_fn make, const char *otherwise) {
  char text[200];
  snprintf(text, sizeof text,
           "optimizer o() {\n  state m\n"
           "  if matches(name, \"head*\") {\n    m = 0.9 * m + g\n    w = w - lr * m\n  }%s\n}\n",
           otherwise);
  const char *path = temp_path("head.vtb");
  write_file(path, text, strlen(text));
  stand_in s = opened(make, path, NULL, 0, 0.5), untouched = opened(make, path, NULL, 0, 0.5);
  for (int t = 1; t <= 2; t++) {
    set_gradients(&s, t);
    CHECK_OK(update(&s, 0.1, 1, NULL, err));
  }
  for (int k = 0; k < TENSORS; k++) {
    size_t n = (size_t)tensors[k].count * sizeof(float);
    bool stays = memcmp(s.value[k], untouched.value[k], n) == 0;
    CHECK_MSG(stays == (tensors[k].name[0] != 'h'), "%s", tensors[k].name);
  }
  CHECK(count_of(&s, "optim/m/head.weight") == 12 && count_of(&s, "optim/m/a.weight") == -1);
  close_step(&s);
  close_step(&untouched);
}

TEST(a_part_of_the_tensors_may_stay) {
  only_the_head(for_cpu, "");
  only_the_head(for_cpu, " else {\n    w = w\n  }");
  only_the_head(for_emulator, "");
}

/* ---- what is wrong ---- */

static const char *attach_error(const char *text, int ranks) {
  static char said[1100];
  const char *path = temp_path("wrong.vtb");
  write_file(path, text, strlen(text));
  vtb_diags diags = {0};
  vtb_error err = {0};
  vtb_unit *u = vtb_unit_load(path, NULL, &diags);
  attached shapes = {.unit = u};
  vtb_module *rule = vtb_instantiate(u, NULL, &shapes.options, &diags);
  vtb_module *m = step_module(tensors, TENSORS);
  vtb_update_options o = {
      .rule = rule ? rule->entry : NULL, .of_tensor = attached_equations, .user = &shapes};
  o.ranks = ranks;
  said[0] = 0;
  if (!rule || vtb_attach_update(m, m->entry, &o, &err) != VTB_OK)
    snprintf(said, sizeof said, "%s", err.text);
  for (size_t i = 0; i < shapes.modules.n; i++) vtb_module_free(shapes.modules.at[i]);
  vtb_vec_free(&shapes.modules);
  vtb_module_free(m);
  vtb_module_free(rule);
  vtb_unit_free(u);
  vtb_diags_free(&diags);
  return said;
}

TEST(totals_are_of_all_tensors) {
  const char *part = "optimizer o() {\n  x = 1.0\n  if matrix { x = total(g * g) }\n"
                     "  w = w - lr * x * g\n}\n";
  const char *all = "optimizer o() {\n  w = w - lr * total(g * g) * g\n}\n";
  CHECK_MSG(strstr(attach_error(part, 0), "has 1 totals for a.weight and 0 for c.bias"), "%s",
            attach_error(part, 0));
  CHECK_STR(attach_error(all, 0), "");
  CHECK_MSG(strstr(attach_error(all, 2), "leave out --shard-optimizer"), "%s",
            attach_error(all, 2));
}

int main(void) {
  RUN(trajectories_of_others_are_followed);
  RUN(states_have_their_shapes);
  RUN(a_row_is_a_vector);
  RUN(interrupted_runs_go_on_to_the_bit);
  RUN(a_step_that_does_not_count_changes_nothing);
  RUN(factors_reach_the_equations);
  RUN(the_interpreter_makes_the_same_update);
  RUN(a_part_of_the_tensors_may_stay);
  RUN(totals_are_of_all_tensors);
  return test_done();
}
