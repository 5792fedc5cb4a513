/* Losses and metrics from .vtb text to numbers: those of models/std against their formulas in plain
 * C, what becomes of a batch's padding, quotients, and the training step's gradients against
 * differences. */
#include "frontend/lang/lang.h"
#include "ir/interp.h"
#include "passes/passes.h"
#include "tests/test.h"

#include <math.h>

enum { B = 3, C = 4, N = 5 };

static const char head[] = "use std.loss\n"
                           "use std.metric\n"
                           "model m() {\n"
                           "  input z: tensor[4]\n"
                           "  input y: labels\n"
                           "  input t: tensor[4]\n"
                           "  input places: tensor[5, 4]\n"
                           "  input dense: labels[5]\n"
                           "  w = param w: [4] ~ ones\n"
                           "  s = z * w\n"
                           "  d = places * w\n"
                           "  output scores = s\n"
                           "  loss all = mean(0 * s + 0 * t + 0 * mean(d, axis = \"sample\") + 0 * "
                           "one_hot(y, 4), axis = \"sample\")"
                           " + 0 * mean(one_hot(dense, 4), axis = \"sample\")\n  ";

typedef struct model {
  vtb_unit *unit;
  vtb_module *m;
  vtb_func *f; /* args: z, y, t, places, dense, w, valid */
  vtb_tensor args[7];
} model;

static double pseudo(int i) { return sin(12.9898 * i + 0.7) * 1.7; }

static void fill(model *m) {
  static const int y[] = {2, 0, 3}, dense[] = {0, 1, 255, 3, 3, 2, 2, 255, 1, 0, 1, 1, 2, 3, 0};
  for (int a = 0; a < m->f->n_args; a++) {
    vtb_type t = m->f->args[a]->type;
    for (int k = 0; k < t.rank; k++)
      if (t.dim[k].size == VTB_DYN) t.dim[k].size = B;
    m->args[a] = vtb_tensor_new(t);
    for (int64_t i = 0; i < vtb_type_count(&t); i++)
      m->args[a].data[i] = a == 1   ? y[i]
                           : a == 4 ? dense[i]
                           : a == 5 ? 1 + 0.1 * (double)i
                           : a == 6 ? 1
                                    : pseudo((int)i + 100 * a);
  }
}

/* head, then `statement` }, as the step or what measures. */
static model model_new(const char *statement, bool training) {
  model m = {0};
  vtb_strbuf text = {0};
  vtb_diags diags = {0};
  vtb_error err = {0};
  vtb_strbuf_printf(&text, "%s%s\n}\n", head, statement);
  m.unit = vtb_unit_load_text("m.vtb", text.at, text.n, vtb_search_default(), &diags);
  m.m = m.unit ? vtb_instantiate(m.unit, "m", &(vtb_instantiate_options){.objective = true}, &diags)
               : NULL;
  vtb_diags_print(&diags, stderr);
  if (!m.m) exit(1);
  vtb_pass_context c = {.module = m.m, .diags = &diags};
  vtb_status status =
      vtb_run_pipeline(&c, &(vtb_pipeline_options){.pipeline = vtb_pipeline_graph}, &err);
  if (status == VTB_OK)
    status = training
                 ? vtb_build_train_step(m.m, m.m->entry, &(vtb_train_step){0}, &m.f, &diags, &err)
                 : vtb_build_evaluation(m.m, m.m->entry, &m.f, &err);
  CHECK_MSG(status == VTB_OK, "%s", err.text);
  if (status != VTB_OK) exit(1);
  CHECK_MSG(vtb_module_verify(m.m, &err), "%s", err.text);
  CHECK(m.f->n_args == 7);
  fill(&m);
  vtb_strbuf_free(&text);
  vtb_diags_free(&diags);
  return m;
}

static void model_free(model *m) {
  for (int i = 0; i < 7; i++) vtb_tensor_free(&m->args[i]);
  vtb_module_free(m->m);
  vtb_unit_free(m->unit);
}

static vtb_tensor *run(model *m) {
  vtb_tensor *r = vtb_xcalloc((size_t)m->f->n_returns + 1, sizeof *r);
  vtb_error err = {0};
  CHECK_MSG(vtb_interpret(m->f, m->args, r, &(vtb_interp_options){.batch = B}, &err) == VTB_OK,
            "%s", err.text);
  return r;
}

static void results_free(model *m, vtb_tensor *r) {
  for (int i = 0; i < m->f->n_returns; i++) vtb_tensor_free(&r[i]);
  vtb_free(r);
}

/* The value of the measure declared last, as a mean of quotients. */
static double measured(const char *statement) {
  model m = model_new(statement, false);
  vtb_tensor *r = run(&m), *last = &r[m.f->n_returns - 1];
  int64_t k = last->type.dim[1].size;
  double sum = 0, n = 0;
  CHECK(last->type.rank == 2 && last->type.dim[0].size == 2);
  for (int64_t i = 0; i < k; i++)
    if (last->data[k + i] > 0) sum += last->data[i] / last->data[k + i], n++;
  results_free(&m, r);
  model_free(&m);
  return n ? sum / n : NAN;
}

/* ---- the same in plain C --------------------------------------------------------------------- */

static const int labels[B] = {2, 0, 3},
                 dense_labels[B][N] = {{0, 1, 255, 3, 3}, {2, 2, 255, 1, 0}, {1, 1, 2, 3, 0}};
static double weight(int c) { return 1 + 0.1 * c; }
static double score(int b, int c) { return pseudo(b * C + c) * weight(c); }
static double target(int b, int c) { return pseudo(b * C + c + 200); }
static double place(int b, int n, int c) { return pseudo((b * N + n) * C + c + 300) * weight(c); }

static double logp(const double *z, int c) {
  double sum = 0;
  for (int k = 0; k < C; k++) sum += exp(z[k]);
  return z[c] - log(sum);
}

static void scores_of(int b, int n, double *z) {
  for (int c = 0; c < C; c++) z[c] = n < 0 ? score(b, c) : place(b, n, c);
}

static int largest(const double *z) {
  int best = 0;
  for (int c = 1; c < C; c++)
    if (z[c] > z[best]) best = c;
  return best;
}

TEST(cross_entropy_is_its_formula) {
  double plain = 0, smooth = 0, weighted = 0, z[C];
  for (int b = 0; b < B; b++) {
    scores_of(b, -1, z);
    double all = 0;
    for (int c = 0; c < C; c++) all -= logp(z, c) / C;
    plain -= logp(z, labels[b]) / B;
    smooth += (0.9 * -logp(z, labels[b]) + 0.1 * all) / B;
  }
  for (int b = 0; b < B; b++) {
    double sum = 0, by = 0;
    for (int n = 0; n < N; n++) {
      int y = dense_labels[b][n];
      if (y == 255) continue;
      scores_of(b, n, z);
      sum -= (1 + y) * logp(z, y);
      by += 1 + y;
    }
    weighted += sum / by / B;
  }
  CHECK_NEAR(measured("loss a = cross_entropy(s, y)"), plain, 1e-12);
  CHECK_NEAR(measured("loss a = cross_entropy(s, one_hot(y, 4))"), plain, 1e-12);
  CHECK_NEAR(measured("loss a = cross_entropy(s, y, smoothing = 0.1)"), smooth, 1e-12);
  CHECK_NEAR(measured("loss a = cross_entropy(d, dense, class_weights = vector([1, 2, 3, 4]))"),
             weighted, 1e-12);
}

TEST(other_losses_are_their_formulas) {
  double bce = 0, mse = 0, l1 = 0, smooth = 0, focal = 0, kl = 0, cosine = 0, z[C], q[C];
  for (int b = 0; b < B; b++) {
    double xy = 0, xx = 0, yy = 0;
    scores_of(b, -1, z);
    for (int c = 0; c < C; c++) {
      double d = z[c] - target(b, c), t = target(b, c);
      bce += (log(1 + exp(z[c])) - t * z[c]) / (B * C);
      mse += d * d / (B * C);
      l1 += fabs(d) / (B * C);
      smooth += (fabs(d) < 0.5 ? d * d : fabs(d) - 0.25) / (B * C);
      xy += z[c] * t, xx += z[c] * z[c], yy += t * t;
      z[c] /= 2;
      q[c] = t / 2;
    }
    for (int c = 0; c < C; c++) kl += 4 * exp(logp(q, c)) * (logp(q, c) - logp(z, c)) / B;
    scores_of(b, -1, z);
    double p = exp(logp(z, labels[b]));
    focal -= (1 - p) * (1 - p) * log(p) / B;
    cosine += (1 - xy / sqrt(xx * yy)) / B;
  }
  CHECK_NEAR(measured("loss a = bce(s, t)"), bce, 1e-12);
  CHECK_NEAR(measured("loss a = mse(s, t)"), mse, 1e-12);
  CHECK_NEAR(measured("loss a = l1(s, t)"), l1, 1e-12);
  CHECK_NEAR(measured("loss a = smooth_l1(s, t, beta = 0.5)"), smooth, 1e-12);
  CHECK_NEAR(measured("loss a = focal(s, y)"), focal, 1e-12);
  CHECK_NEAR(measured("loss a = kl(s, t, temperature = 2.0)"), kl, 1e-12);
  CHECK_NEAR(measured("loss a = cosine(s, t)"), cosine, 1e-7);
}

TEST(dice_is_its_formula) {
  double want = 0, z[C];
  for (int b = 0; b < B; b++)
    for (int c = 0; c < C; c++) {
      double both = 0, p = 0, q = 0;
      for (int n = 0; n < N; n++) {
        int y = dense_labels[b][n];
        if (y == 255) continue;
        scores_of(b, n, z);
        both += (y == c) * exp(logp(z, c));
        p += exp(logp(z, c));
        q += y == c;
      }
      want += (1 - (2 * both + 1) / (p + q + 1)) / (B * C);
    }
  CHECK_NEAR(measured("loss a = dice(d, dense)"), want, 1e-12);
}

TEST(metrics_count_over_the_whole_batch) {
  double hit = 0, hit2 = 0, right = 0, counted = 0, inter[C] = {0}, uni[C] = {0}, iou = 0, z[C];
  int occur = 0;
  for (int b = 0; b < B; b++) {
    int above = 0;
    scores_of(b, -1, z);
    for (int c = 0; c < C; c++) above += z[c] > z[labels[b]];
    hit += above < 1, hit2 += above < 2;
    for (int n = 0; n < N; n++) {
      int y = dense_labels[b][n];
      if (y == 255) continue;
      scores_of(b, n, z);
      int best = largest(z);
      right += best == y, counted++;
      for (int c = 0; c < C; c++) {
        inter[c] += y == c && best == c;
        uni[c] += y == c || best == c;
      }
    }
  }
  for (int c = 0; c < C; c++)
    if (uni[c] > 0) iou += inter[c] / uni[c], occur++;
  CHECK_NEAR(measured("metric a = top1(s, y)"), hit / B, 1e-12);
  CHECK_NEAR(measured("metric a = top_k(s, y, 2)"), hit2 / B, 1e-12);
  CHECK_NEAR(measured("metric a = pixel_accuracy(d, dense)"), right / counted, 1e-12);
  CHECK_NEAR(measured("metric a = mean_iou(d, dense)"), iou / occur, 1e-12);
  CHECK_NEAR(measured("metric a = top1(0 * s, y)"), 1.0 / 3, 1e-12); /* of equal ones the first */
}

/* A row of padding may hold anything; a value a token is averaged over tokens, then samples. */
TEST(padding_does_not_count) {
  model m = model_new("loss a = square(d)", false);
  for (int i = 0; i < N * C; i++) m.args[3].data[N * C + i] = i % 2 ? NAN : 1e300;
  m.args[6].data[1] = 0;
  vtb_tensor *r = run(&m), *last = &r[m.f->n_returns - 1];
  double want = 0;
  for (int b = 0; b < B; b += 2)
    for (int n = 0; n < N; n++)
      for (int c = 0; c < C; c++) want += place(b, n, c) * place(b, n, c) / (N * C);
  CHECK_NEAR(last->data[0], want, 1e-12);
  CHECK_NEAR(last->data[1], 2, 0);
  results_free(&m, r);
  model_free(&m);
}

static void check_gradient(const char *statement);

/* What is summed over the batch: [1, 4] or [4] where nothing else is said, made one number. */
#define PAIRS "einsum(\"ic,jc->ij\", s, t)"
static const char *const over_batch[] = {
    "mean(sum(square(s), axis = \"B\"))",
    "mean(mean(s, axis = \"B\"))",
    "mean(amax(s, axis = \"B\"))",
    "sum(einsum(\"bc,bc->c\", s, t))",
    "mean(mean(square(s - mean(s, axis = \"B\")), axis = \"B\"))",
    "log(sum(exp(" PAIRS ")))",
    "square(" PAIRS ")",
    "mean(" PAIRS ", axis = \"sample\")",
    "amax(" PAIRS ", axis = \"sample\")",
    "sum(sum(square(" PAIRS "), axis = \"sample\"), axis = \"B\")",
    "log(sum(exp(transpose(" PAIRS ", [1, 0])))) - mean(" PAIRS ")",
    "square(roll(s, 1, axis = \"B\") + 0.5 * t)",
    "square(reverse(s, axis = \"B\") - 2 * s)",
    "square(cumsum(s, axis = \"B\"))",
    "square(cumsum(s, axis = \"B\", reverse = true))",
    "square(gather(s, argsort(t[:, 0]), axis = \"B\"))",
    "square((range(batch) == across(range(batch))) * " PAIRS ")",
    "square(concat(s, 2 * t, axis = \"B\"))",
    "mean(square(sum(concat(s, t, axis = \"B\"), axis = \"B\")))",
    "9 * mean(square(mean(concat(s, t, axis = \"B\"), axis = \"B\")))",
    "log(sum(exp(einsum(\"ic,jc->ij\", concat(s, t, axis = \"B\"), concat(t, s, axis = \"B\")))))",
    "square(split(concat(s, t, 2 * s, axis = \"B\"), [1, 2], axis = \"B\")[1])",
    "normed(s)\n}\nblock inner(v: tensor) { return mean(v, axis = \"B\") }\n"
    "block normed(v: tensor) {\n  return square(v - inner(v)) * inner(square(v))",
    "meets(s)\n}\nblock meets(v: tensor) {\n"
    "  iterate 3 { v = sin(2 * v - mean(v, axis = \"B\")) }\n  return square(v)",
    "smaller(s)\n}\nblock smaller(v: tensor) {\n"
    "  iterate while sum(sum(square(v), axis = \"sample\"), axis = \"B\") > 0.1, most = 4 { v *= "
    "0.7 }\n"
    "  return square(v)"};

/* With another row of padding, or with none, the loss and its gradient are the same numbers. */
TEST(padding_is_in_no_sum_over_the_batch) {
  for (size_t i = 0; i < sizeof over_batch / sizeof *over_batch; i++) {
    char text[400];
    double loss[2], grad[2][C];
    snprintf(text, sizeof text, "loss a = %s", over_batch[i]);
    for (int k = 0; k < 2; k++) {
      model m = model_new(text, true);
      m.args[6].data[1] = 0;
      for (int a = 0; a < 3; a += 2)
        for (int c = 0; c < C; c++) m.args[a].data[C + c] = k ? 3.5 - c : 0;
      vtb_tensor *r = run(&m);
      loss[k] = r[0].data[0];
      memcpy(grad[k], r[m.f->n_returns - 1].data, sizeof grad[k]);
      results_free(&m, r);
      model_free(&m);
    }
    CHECK_MSG(fabs(loss[0] - loss[1]) < 1e-12 && fabs(loss[0]) > 1e-3, "%s: %g and %g", text,
              loss[0], loss[1]);
    for (int c = 0; c < C; c++)
      CHECK_MSG(fabs(grad[0][c] - grad[1][c]) < 1e-12, "%s: gradient %g and %g", text, grad[0][c],
                grad[1][c]);
    check_gradient(text);
  }
  model m = model_new("loss a = sum(0 * mean(t, axis = \"sample\") + 1, axis = \"B\")\n"
                      "  loss b = mean(0 * " PAIRS " + 1, axis = \"sample\")\n"
                      "  loss c = sum(0 * " PAIRS " + 1, axis = \"sample\")",
                      false);
  m.args[6].data[1] = 0;
  vtb_tensor *r = run(&m);
  for (int k = 0; k < 3; k++) {
    const double *rows = r[m.f->n_returns - 3 + k].data;
    CHECK_NEAR(rows[0] / rows[1], k == 1 ? 1 : 2, 1e-12);
  }
  results_free(&m, r);
  model_free(&m);
}

/* One number stands for all samples; a quotient is divided once. */
TEST(numbers_and_quotients) {
  double mean = 0, above = 0, below = 0;
  for (int b = 0; b < B; b++)
    for (int c = 0; c < C; c++) {
      mean += score(b, c) / (B * C);
      above += score(b, c);
      below += 2 + target(b, c) * target(b, c);
    }
  CHECK_NEAR(measured("loss a = mean(mean(s, axis = \"B\"))"), mean, 1e-12);
  CHECK_NEAR(measured("loss a = sum(s, axis = \"sample\"), sum(2 + square(t), axis = \"sample\")"),
             above / below, 1e-12);
}

static double loss_at(model *m) {
  vtb_tensor *r = run(m);
  double loss = r[0].data[0];
  results_free(m, r);
  return loss;
}

static void check_gradient(const char *statement) {
  model m = model_new(statement, true);
  vtb_tensor *r = run(&m);
  int d = m.f->n_returns - 1;
  CHECK_STR(m.f->return_names[0], "loss");
  CHECK_STR(m.f->return_names[d], "d:w");
  for (int c = 0; c < C; c++) {
    double old = m.args[5].data[c], h = 1e-5;
    m.args[5].data[c] = old + h;
    double up = loss_at(&m);
    m.args[5].data[c] = old - h;
    double down = loss_at(&m);
    m.args[5].data[c] = old;
    CHECK_MSG(fabs(r[d].data[c] - (up - down) / (2 * h)) < 1e-7, "%s: %g, not %g", statement,
              r[d].data[c], (up - down) / (2 * h));
  }
  results_free(&m, r);
  model_free(&m);
}

TEST(gradients_match_differences) {
  static const char *const statements[] = {
      "loss a = cross_entropy(s, y, smoothing = 0.1)",
      "loss a = cross_entropy(d, dense, class_weights = vector([1, 2, 3, 4]))",
      "loss a = dice(d, dense)\n  loss b = 0.3 * focal(d, dense)",
      "loss a = bce(s, sigmoid(t))\n  loss b = 2 * smooth_l1(s, t)",
      "loss a = kl(s, t, temperature = 2.0)",
      "loss a = cosine(s, t)",
      "loss a = sum(square(s), axis = \"sample\"), sum(2 + square(s), axis = \"sample\")",
      "loss a = sum(square(d), axis = \"places\"), sum(2 + abs(d), axis = \"places\")",
      "loss a = mean(mean(square(s), axis = \"B\"))",
      "loss a = square(gather(d, argsort(t)))",
      "loss a = square(gather(d, inverse(argsort(t))))",
      "loss a = square(gather(w * vector([1, 2, 3, 4]), y))"};
  for (size_t i = 0; i < sizeof statements / sizeof *statements; i++) check_gradient(statements[i]);
}

/* Of 4 places, as t has them: the second index is 3 ... the order is that of the numbers. */
TEST(orders_are_stable_and_inverse) {
  double z[C];
  model m = model_new("metric o = argsort(t)\n  metric r = ranks(argsort(t) * 1.0)", false);
  model_free(&m);
  for (int b = 0; b < B; b++)
    for (int c = 0; c < C; c++) z[c] = target(b, c);
  CHECK(isfinite(z[0]));
  /* its inverse is the ranks of what was sorted, and undoes it; ranks of an order are the order */
  static const char *const zero[] = {
      "square(inverse(argsort(t)) - ranks(t))",
      "square(ranks(argsort(t)) - argsort(t))",
      "square(inverse(inverse(argsort(t))) - argsort(t))",
      "square(inverse(group(argsort(t), 4)) - ranks(t))",
      "square(gather(gather(group(t, 4), argsort(t)), inverse(argsort(t))) - group(t, 4))",
      "square(gather(gather(group(t, 4), inverse(argsort(t))), argsort(t)) - group(t, 4))"};
  for (size_t i = 0; i < sizeof zero / sizeof *zero; i++) {
    char text[128];
    snprintf(text, sizeof text, "metric a = sum(%s, axis = \"sample\")", zero[i]);
    CHECK_NEAR(measured(text), 0, 0);
  }
  CHECK(measured("metric a = sum(square(argsort(t) - ranks(t)), axis = \"sample\")") > 0);
  CHECK_NEAR(measured("metric a = sum(gather(d, argsort(0 * t)) - gather(d, ranks(0 * t)), "
                      "axis = \"sample\")"),
             0, 0);
  double want = 0;
  for (int b = 0; b < B; b++) {
    int low = 0;
    for (int c = 1; c < C; c++)
      if (target(b, c) < target(b, low)) low = c;
    want += place(b, low, 0) / B;
  }
  CHECK_NEAR(
      measured("first_index, others = split(argsort(t), [1, 3])\n"
               "  picked, rest = split(gather(d, first_index), [1, 3])\n"
               "  metric a = sum(picked, axis = \"sample\") + 0 * sum(rest, axis = \"sample\") "
               "+ 0 * sum(others, axis = \"sample\")"),
      want, 1e-12);
}

int main(void) {
  RUN(cross_entropy_is_its_formula);
  RUN(other_losses_are_their_formulas);
  RUN(dice_is_its_formula);
  RUN(metrics_count_over_the_whole_batch);
  RUN(padding_does_not_count);
  RUN(padding_is_in_no_sum_over_the_batch);
  RUN(numbers_and_quotients);
  RUN(gradients_match_differences);
  RUN(orders_are_stable_and_inverse);
  return test_done();
}
