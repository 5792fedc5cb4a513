/* Schedules of models/std against those of timm and PyTorch (schedules.txt holds their rates), the
 * reference cases of the vision papers' cosine, and what a schedule that is wrong is told. */
#include "frontend/compile/driver.h"
#include "runtime/artefact/safetensors.h"
#include "tests/runtime/support.h"

#include <cjson/cJSON.h>

/* What the report has, until the next call. */
static const char *said(vtb_report *r) {
  static char text[4000];
  char *diags = vtb_report_text(r, false);
  snprintf(text, sizeof text, "%s%s", r->error.text, diags ? diags : "");
  free(diags);
  return text;
}

static vtb_schedule_source *opened(const char *text, vtb_report *r) {
  vtb_schedule_source *s = NULL;
  const vtb_compile_options o = {.size = sizeof o};
  CHECK_MSG(vtb_schedule_open(text, &o, &s, r) == VTB_OK, "%s: %s", text, said(r));
  return s;
}

static double rate(vtb_schedule_source *s, const vtb_moment *m, vtb_report *r) {
  vtb_pace pace = {NAN, NAN, NAN};
  CHECK_MSG(vtb_schedule_at(s, m, &pace) == VTB_OK, "%s", said(r));
  return pace.rate;
}

/* ---- rates of other tools ---- */

/* Two lines a case: text, total, updates an epoch, lr, final and warm-up; the rates. */
TEST(rates_of_timm_and_pytorch_are_met) {
  size_t n;
  char *all = read_file(VTB_SOURCE_DIR "/tests/compile/schedules.txt", &n), *save = NULL;
  int cases = 0;
  for (char *head = strtok_r(all, "\n", &save); head; head = strtok_r(NULL, "\n", &save)) {
    char *tab = strchr(head, '\t'), *rates = strtok_r(NULL, "\n", &save);
    long long total, an_epoch, warmup;
    vtb_moment m = {.batch = 8};
    *tab = 0;
    CHECK(sscanf(tab + 1, "%lld %lld %lf %lf %lld", &total, &an_epoch, &m.lr, &m.final, &warmup) ==
          5);
    m.total = total, m.updates_an_epoch = an_epoch, m.warmup = warmup;
    vtb_report *r = vtb_report_new();
    vtb_schedule_source *s = opened(head, r);
    for (m.t = 1; m.t <= total; m.t++) {
      double want = strtod(rates, &rates), have = rate(s, &m, r);
      CHECK_MSG(fabs(have - want) <= 1e-12 * 3e-3, "%s: %.17g at update %lld, not %.17g", head,
                have, (long long)m.t, want);
    }
    vtb_schedule_free(s);
    vtb_report_free(r);
    cases++;
  }
  CHECK(cases == 21);
  free(all);
}

/* ---- the reference cases, where $VTB_GOLDEN names their folder ---- */

static vtb_weights *golden(const char *name, cJSON **config) {
  const char *root = getenv("VTB_GOLDEN");
  char path[512];
  vtb_weights *w = NULL;
  if (!root) return NULL;
  snprintf(path, sizeof path, "%s/heads/%s.safetensors", root, name);
  CHECK_OK(vtb_safetensors_load(path, &w, err));
  if (!w) return NULL;
  *config = cJSON_Parse(vtb_weights_meta(w, "config"));
  return w;
}

static double number(const cJSON *c, const char *key, double otherwise) {
  const cJSON *v = cJSON_GetObjectItem(c, key);
  return cJSON_IsNumber(v) ? v->valuedouble : otherwise;
}

TEST(reference_schedules_are_met) {
  static const char *const names[] = {"opt_cosine_schedule_30ep_warmup5",
                                      "opt_cosine_schedule_30ep_warmup5_prefix",
                                      "opt_cosine_schedule_30ep_nowarmup"};
  for (size_t i = 0; i < 3; i++) {
    cJSON *c = NULL;
    vtb_weights *w = golden(names[i], &c);
    if (!w) continue;
    char text[120];
    bool prefix = cJSON_IsTrue(cJSON_GetObjectItem(c, "warmup_prefix"));
    snprintf(text, sizeof text, "cosine(start = %.17g, prefix = %s)",
             number(c, "warmup_lr_init", 0), prefix ? "true" : "false");
    vtb_moment m = {.lr = number(c, "base_lr", 0),
                    .final = number(c, "lr_min", 0),
                    .warmup = (int64_t)number(c, "warmup_t", 0),
                    .total = (int64_t)number(c, "t_initial", 0),
                    .updates_an_epoch = 1};
    if (prefix) m.total += m.warmup; /* timm's t_initial counts from there on */
    const vtb_weight *t = vtb_weights_find(w, "input/t"),
                     *lr = vtb_weights_find(w, "output/lr_f64");
    int32_t *times = malloc((size_t)t->count * sizeof *times);
    double *want = malloc((size_t)t->count * sizeof *want);
    CHECK_OK(vtb_weight_read_i32(t, times, err));
    vtb_weight_read_f64(lr, want);
    vtb_report *r = vtb_report_new();
    vtb_schedule_source *s = opened(text, r);
    for (int64_t k = 0; k < t->count; k++) {
      m.t = times[k] + 1;
      CHECK_NEAR(rate(s, &m, r), want[k], 1e-15);
    }
    vtb_schedule_free(s);
    vtb_report_free(r);
    free(times), free(want);
    cJSON_Delete(c);
    vtb_weights_free(w);
  }
}

/* What every release until now computed in C, to the bit. */
TEST(the_default_is_what_it_was) {
  vtb_report *r = vtb_report_new();
  vtb_schedule_source *s = opened("cosine", r);
  vtb_moment m = {.total = 977, .updates_an_epoch = 100, .lr = 1e-3, .final = 1e-6, .warmup = 50};
  for (m.t = 1; m.t <= 990; m.t++) {
    int64_t u = m.t - 1;
    double was = u < 50 ? 0 + (double)u * ((1e-3 - 0) / 50.)
                 : u >= 977
                     ? 1e-6
                     : 1e-6 + 0.5 * (1e-3 - 1e-6) *
                                  (1 + cos(3.14159265358979323846 * (double)u / (double)977));
    CHECK_MSG(rate(s, &m, r) == was, "update %lld", (long long)m.t);
  }
  vtb_schedule_free(s);
  vtb_report_free(r);
}

/* ---- schedules of one's own ---- */

static const char *file_of(const char *body) {
  const char *path = temp_path("own.vtb");
  write_file(path, body, strlen(body));
  return path;
}

TEST(decay_and_averages_follow_too) {
  const char *path =
      file_of("schedule all(k: float = 2) {\n  rate = lr / k\n"
              "  decay = decay * t / total\n  if t > 10 {\n    ema = 1 - 1 / t\n  }\n}\n");
  char text[200];
  vtb_report *r = vtb_report_new();
  snprintf(text, sizeof text, "%s(k = 4)", path);
  vtb_schedule_source *s = opened(text, r);
  vtb_moment m = vtb_moment_example;
  vtb_pace pace;
  m.t = 10;
  CHECK(vtb_schedule_at(s, &m, &pace) == VTB_OK);
  CHECK(pace.rate == 1e-3 / 4 && pace.decay == 0.05 * 10 / 1000 && isnan(pace.ema));
  m.t = 20;
  CHECK(vtb_schedule_at(s, &m, &pace) == VTB_OK && pace.ema == 1 - 1 / 20.);
  CHECK(vtb_schedule_reads(s, "total") && !vtb_schedule_reads(s, "final"));
  for (m.t = 1; m.t < 50000; m.t++) CHECK(vtb_schedule_at(s, &m, &pace) == VTB_OK); /* memory */
  vtb_schedule_free(s);
  vtb_report_free(r);
}

static void refused(const char *text, const char *part) {
  vtb_report *r = vtb_report_new();
  vtb_schedule_source *s = NULL;
  const vtb_compile_options o = {.size = sizeof o};
  vtb_moment m = vtb_moment_example;
  vtb_status status = vtb_schedule_open(text, &o, &s, r);
  if (status == VTB_OK) status = vtb_schedule_try(s, &m);
  CHECK_MSG(status != VTB_OK, "%s is accepted", text);
  const char *what = said(r);
  CHECK_MSG(strstr(what, part), "%s says %s", text, what);
  vtb_schedule_free(s);
  vtb_report_free(r);
}

TEST(what_is_wrong_is_told) {
  refused("sine", "unknown schedule 'sine'; there are ");
  refused("cosine(cycle = 2)", "schedule 'cosine' has no hyperparameter 'cycle'");
  refused("multistep(milestones = [3, 30])", "milestones[1] is beyond the end of the run");
  refused("step(every = 0)", "a step lasts some epochs");
  refused(file_of("schedule s() {\n  rate = lr * (0.5 - t / total)\n}\n"),
          "own.vtb:2:3: error[VTB1418]: rate is ");
  refused(file_of("schedule s() {\n  rate = lr\n  ema = 1\n}\n"), "ema is 1 at update 1 of 1000");
  refused(file_of("schedule s() {\n  if t < 500 {\n    rate = lr\n  }\n}\n"),
          "schedule 's' assigns no rate at update 502 of 1000");
  refused(file_of("schedule s(warmup: int = 3) {\n  rate = lr\n}\n"),
          "'warmup' means something else in a schedule");
  refused(file_of("schedule s() {\n  t = 3\n  rate = lr\n}\n"), "'t' is given to a schedule");
  refused(file_of("optimizer o() {\n  w = w - lr * g\n}\n"), "declares no schedule");
  refused(file_of("schedule s() {\n  rate = \"fast\"\n}\n"), "a number is needed");
}

int main(void) {
  RUN(rates_of_timm_and_pytorch_are_met);
  RUN(reference_schedules_are_met);
  RUN(the_default_is_what_it_was);
  RUN(decay_and_averages_follow_too);
  RUN(what_is_wrong_is_told);
  return test_done();
}
