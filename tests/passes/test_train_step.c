/* The training step: loss in closed form, padding rows, adjoints of the parameters. */
#include "tests/passes/grad_check.h"
#include "ir/ops.h"

#define CLASSES 5

static const char *const classifier =
    "func @net(%x: f32[B, 3], %w: f32[5, 3], %b: f32[5], %t: f32[5]) -> (f32[B, 5], f32[B, 3]) {\n"
    "  %p = einsum %x, %w {spec = \"bd,cd->bc\"} : f32[B, 5]\n"
    "  %q = add %p, %b : f32[B, 5]\n"
    "  %z = add %q, %t : f32[B, 5]\n"
    "  %f = tanh %x : f32[B, 3]\n"
    "  return %z, %f\n}\n";

static vtb_func *load_classifier(vtb_module **m) {
  *m = grad_parse(classifier);
  vtb_func *f = grad_func(*m, "net");
  static const char *const official[] = {"image", "head.weight", "head.bias", "table"};
  static const vtb_role roles[] = {VTB_ROLE_INPUT, VTB_ROLE_PARAM, VTB_ROLE_PARAM, VTB_ROLE_BUFFER};
  for (int i = 0; i < 4; i++) {
    f->arg_info[i].role = roles[i];
    f->arg_info[i].official = vtb_intern(*m, official[i]);
  }
  const char *names[] = {"logits", "features"};
  vtb_func_set_returns(f, f->returns, names, 2);
  return f;
}

static vtb_func *train_of(vtb_module *m, vtb_func *f, double eps) {
  vtb_func *train = NULL;
  vtb_diags diags = {0};
  vtb_error err = {0};
  vtb_status status = vtb_build_train_step(
      m, f, &(vtb_train_step){.logits = "logits", .label_smoothing = eps}, &train, &diags, &err);
  CHECK_MSG(status == VTB_OK, "%s", err.text);
  if (status != VTB_OK) exit(1);
  CHECK_MSG(vtb_module_verify(m, &err), "%s", err.text);
  vtb_diags_free(&diags);
  return train;
}

/* The definition: mean over valid rows of (1-eps) nll + eps mean(-log p). */
static double closed_form(const vtb_tensor *logits, const double *labels, double eps) {
  double total = 0;
  int n = 0;
  for (int64_t b = 0; b < logits->type.dim[0].size; b++) {
    if (labels[b] < 0) continue;
    const double *z = logits->data + b * CLASSES;
    double sum = 0, smooth = 0;
    for (int c = 0; c < CLASSES; c++) sum += exp(z[c]);
    for (int c = 0; c < CLASSES; c++) smooth -= (z[c] - log(sum)) / CLASSES;
    total += (1 - eps) * -(z[(int)labels[b]] - log(sum)) + eps * smooth;
    n++;
  }
  return n ? total / n : 0;
}

typedef struct step {
  vtb_module *m;
  vtb_func *f, *train;
  vtb_tensor args[5], *results;
} step;

static step run_step(const double *labels, int64_t batch, double eps) {
  step s = {0};
  s.f = load_classifier(&s.m);
  s.train = train_of(s.m, s.f, eps);
  unsigned long long seed = 1234567;
  for (int i = 0; i < 5; i++) {
    vtb_type t = s.train->args[i]->type;
    if (t.dim[0].size == VTB_DYN) t.dim[0].size = batch;
    s.args[i] = grad_random(t, -2, 2, &seed);
  }
  for (int64_t b = 0; b < batch; b++) s.args[4].data[b] = labels[b];
  vtb_interp_options o = {.batch = batch};
  vtb_error err = {0};
  s.results = vtb_xcalloc((size_t)s.train->n_returns, sizeof *s.results);
  CHECK_MSG(vtb_interpret(s.train, s.args, s.results, &o, &err) == VTB_OK, "%s", err.text);
  return s;
}

static double loss_of(const step *s) {
  vtb_tensor *r = vtb_xcalloc((size_t)s->train->n_returns, sizeof *r);
  vtb_interp_options o = {.batch = s->args[4].type.dim[0].size};
  vtb_error err = {0};
  CHECK(vtb_interpret(s->train, s->args, r, &o, &err) == VTB_OK);
  double loss = r[0].data[0];
  grad_free(r, s->train->n_returns);
  return loss;
}

static void step_free(step *s) {
  grad_free(s->results, s->train->n_returns);
  for (int i = 0; i < 5; i++) vtb_tensor_free(&s->args[i]);
  vtb_module_free(s->m);
}

TEST(signature) {
  vtb_module *m;
  vtb_func *f = load_classifier(&m);
  vtb_func *t = train_of(m, f, 0.1);
  CHECK_STR(t->name, "train");
  CHECK(t->n_args == 5);
  CHECK_STR(t->arg_info[4].official, "labels");
  CHECK(t->arg_info[4].role == VTB_ROLE_INPUT && t->args[4]->type.dtype == VTB_I32);
  CHECK(t->arg_info[1].role == VTB_ROLE_PARAM);
  static const char *const names[] = {"loss", "logits", "d:head.weight", "d:head.bias"};
  CHECK(t->n_returns == 4);
  for (int i = 0; i < 4; i++) CHECK_STR(t->return_names[i], names[i]);
  CHECK(t->returns[0]->type.rank == 0);
  CHECK(grad_count_ops(t, VTB_OP_tanh) == 0 ||
        vtb_module_find(m, "net") == f); /* the model itself is untouched */
  vtb_module_free(m);
}

TEST(loss_is_the_closed_form) {
  const double labels[] = {0, 4, 2};
  const double eps[] = {0, 0.1, 0.5};
  for (int i = 0; i < 3; i++) {
    step s = run_step(labels, 3, eps[i]);
    CHECK_NEAR(s.results[0].data[0], closed_form(&s.results[1], labels, eps[i]), 1e-12);
    step_free(&s);
  }
}

TEST(padding_rows_do_not_count) {
  const double labels[] = {1, -1, 3, -7};
  step s = run_step(labels, 4, 0.1);
  CHECK_NEAR(s.results[0].data[0], closed_form(&s.results[1], labels, 0.1), 1e-12);
  double before = s.results[0].data[0];
  for (int i = 0; i < 3; i++) s.args[0].data[3 + i] = 1e30; /* row 1 holds rubbish */
  CHECK_NEAR(loss_of(&s), before, 1e-12);
  step_free(&s);
}

TEST(batch_of_padding_has_zero_loss) {
  const double labels[] = {-1, -1};
  step s = run_step(labels, 2, 0.1);
  CHECK_NEAR(s.results[0].data[0], 0, 0);
  for (int r = 2; r < 4; r++)
    for (int64_t e = 0; e < vtb_type_count(&s.results[r].type); e++)
      CHECK_NEAR(s.results[r].data[e], 0, 0);
  step_free(&s);
}

TEST(adjoints_match_differences) {
  const double labels[] = {1, -1, 3};
  step s = run_step(labels, 3, 0.1);
  for (int p = 1; p <= 2; p++)
    for (int64_t e = 0; e < vtb_type_count(&s.args[p].type); e++) {
      double old = s.args[p].data[e], h = 1e-5;
      s.args[p].data[e] = old + h;
      double up = loss_of(&s);
      s.args[p].data[e] = old - h;
      double down = loss_of(&s);
      s.args[p].data[e] = old;
      CHECK_NEAR(s.results[p + 1].data[e], (up - down) / (2 * h), 1e-8);
    }
  step_free(&s);
}

/* d loss / d bias = mean over valid rows of softmax - target. */
TEST(bias_gradient_is_softmax_minus_target) {
  const double labels[] = {1, -1, 3}, eps = 0.1;
  step s = run_step(labels, 3, eps);
  for (int c = 0; c < CLASSES; c++) {
    double want = 0;
    for (int b = 0; b < 3; b += 2) {
      const double *z = s.results[1].data + b * CLASSES;
      double sum = 0;
      for (int k = 0; k < CLASSES; k++) sum += exp(z[k]);
      want += (exp(z[c]) / sum - (1 - eps) * (labels[b] == c) - eps / CLASSES) / 2;
    }
    CHECK_NEAR(s.results[3].data[c], want, 1e-12);
  }
  step_free(&s);
}

/* The factor is one more input; the loss is what it was, the adjoints are multiplied. */
TEST(adjoints_are_scaled_by_an_input) {
  const double labels[] = {1, -1, 3};
  step s = run_step(labels, 3, 0.1);
  vtb_func *scaled = NULL;
  vtb_diags diags = {0};
  vtb_error err = {0};
  vtb_train_step o = {.logits = "logits", .label_smoothing = 0.1, .loss_scale = true};
  CHECK_MSG(vtb_build_train_step(s.m, s.f, &o, &scaled, &diags, &err) == VTB_OK, "%s", err.text);
  vtb_diags_free(&diags);
  if (!scaled) exit(1);
  CHECK(scaled->n_args == 6 && scaled->arg_info[5].role == VTB_ROLE_INPUT);
  CHECK_STR(scaled->arg_info[5].official, "loss_scale");
  vtb_tensor args[6], *r = vtb_xcalloc((size_t)scaled->n_returns, sizeof *r);
  memcpy(args, s.args, sizeof s.args);
  args[5] = vtb_tensor_new(vtb_type_scalar());
  args[5].data[0] = 3;
  CHECK_MSG(vtb_interpret(scaled, args, r, &(vtb_interp_options){.batch = 3}, &err) == VTB_OK, "%s",
            err.text);
  CHECK_NEAR(r[0].data[0], s.results[0].data[0], 1e-12);
  for (int i = 2; i < 4; i++)
    for (int64_t e = 0; e < vtb_type_count(&r[i].type); e++)
      CHECK_NEAR(r[i].data[e], 3 * s.results[i].data[e], 1e-12);
  grad_free(r, scaled->n_returns);
  vtb_tensor_free(&args[5]);
  step_free(&s);
}

TEST(large_logits_do_not_overflow) {
  const double labels[] = {1, 0};
  step s = run_step(labels, 2, 0);
  for (int c = 0; c < CLASSES; c++) s.args[2].data[c] += 5000;
  CHECK_NEAR(loss_of(&s), s.results[0].data[0], 1e-9);
  step_free(&s);
}

TEST(wrong_requests_are_explained) {
  vtb_module *m;
  vtb_func *f = load_classifier(&m), *train = NULL;
  vtb_diags diags = {0};
  vtb_error err = {0};
  CHECK(vtb_build_train_step(m, f, &(vtb_train_step){.logits = "logit"}, &train, &diags, &err) ==
        VTB_E_INPUT);
  CHECK(strstr(err.text, "logits, features") != NULL);
  err = (vtb_error){0};
  CHECK(vtb_build_train_step(m, f, &(vtb_train_step){.logits = "logits", .label_smoothing = 1.5},
                             &train, &diags, &err) == VTB_E_INPUT);
  CHECK(strstr(err.text, "label smoothing") != NULL);
  CHECK(train == NULL);
  vtb_diags_free(&diags);
  vtb_module_free(m);
}

int main(void) {
  RUN(signature);
  RUN(loss_is_the_closed_form);
  RUN(padding_rows_do_not_count);
  RUN(batch_of_padding_has_zero_loss);
  RUN(adjoints_match_differences);
  RUN(bias_gradient_is_softmax_minus_target);
  RUN(adjoints_are_scaled_by_an_input);
  RUN(large_logits_do_not_overflow);
  RUN(wrong_requests_are_explained);
  return test_done();
}
