/* Which fusions a plan has: asked about in order, each beside the decisions before, and only where
 * it forms something; told in lines of 80 columns. */
#include "passes/fuse/choice.h"
#include "tests/test.h"

enum { ALL = (1u << VTB_N_CHOICES) - 1, MOST_CALLS = 2 * VTB_N_CHOICES };

/* A plan that takes 1 s, and as much more as the fusions that are left out save. */
typedef struct plan {
  double saves[VTB_N_CHOICES];
  unsigned formed;
  unsigned needs[VTB_N_CHOICES]; /* forms something only if these are left out */
  unsigned calls[MOST_CALLS];
  int n, fails_at;
} plan;

static vtb_status price(void *user, unsigned declined, unsigned *formed, double *seconds,
                        vtb_error *err) {
  plan *p = user;
  if (p->n == p->fails_at) return vtb_fail(err, VTB_E_INTERNAL, "no such plan");
  if (p->n < MOST_CALLS) p->calls[p->n++] = declined;
  *seconds = 1;
  *formed = 0;
  for (int i = 0; i < VTB_N_CHOICES; i++) {
    bool forms = p->formed >> i & 1 && (p->needs[i] & declined) == p->needs[i];
    if (forms && !(declined >> i & 1)) *formed |= 1u << i;
    if (forms && declined >> i & 1) *seconds += p->saves[i];
  }
  return VTB_OK;
}

TEST(what_costs_more_than_it_saves_is_left_out) {
  plan p = {.fails_at = -1, .formed = ALL & ~(1u << 3), .saves = {0.5, -0.1, 0.5, 0, -0.005, -0.2}};
  vtb_choices c;
  vtb_error err = {0};
  CHECK(vtb_choose(price, &p, &c, &err) == VTB_OK);
  CHECK(c.declined == (1u << 1 | 1u << 5) && c.n == VTB_N_CHOICES - 1 && !c.asked);
  CHECK(p.n == VTB_N_CHOICES); /* once with all, and once without each that forms something */
  CHECK(p.calls[0] == 0 && p.calls[1] == 1u << 0);
  CHECK(p.calls[p.n - 1] == (c.declined | 1u << (VTB_N_CHOICES - 1)));
  for (int i = 0; i < c.n; i++) CHECK(c.at[i].fused == !(c.declined >> c.at[i].pass & 1));
  CHECK(c.at[1].with == 1 && c.at[1].without == 0.9 && c.at[2].with == 0.9);
  /* half a percent is no reason */
  CHECK(c.at[3].pass == 4 && c.at[3].fused && c.at[3].without < c.at[3].with);
}

/* What one fusion had taken in is another's to form when that is left out. */
TEST(what_becomes_free_is_asked_about_too) {
  plan p = {.fails_at = -1, .formed = 1u << 0 | 1u << 6, .saves = {-0.3, 0, 0, 0, 0, 0, -0.3}};
  p.needs[6] = 1u << 0;
  vtb_choices c;
  vtb_error err = {0};
  CHECK(vtb_choose(price, &p, &c, &err) == VTB_OK);
  CHECK(c.n == 2 && c.declined == (1u << 0 | 1u << 6) && c.at[1].pass == 6);
  p = (plan){.fails_at = -1, .formed = 0};
  CHECK(vtb_choose(price, &p, &c, &err) == VTB_OK);
  CHECK(c.n == 0 && c.declined == 0 && p.n == 1);
}

TEST(a_plan_that_cannot_be_made_ends_it) {
  for (int n = 0; n < 4; n++) {
    plan p = {.fails_at = n, .formed = ALL};
    vtb_choices c;
    vtb_error err = {0};
    CHECK(vtb_choose(price, &p, &c, &err) == VTB_E_INTERNAL && p.n == n);
    CHECK_STR(err.text, "no such plan");
  }
}

TEST(choices_can_be_asked_for) {
  vtb_choices c;
  vtb_error err = {0};
  CHECK(vtb_choices_parse("all", &c, &err) == VTB_OK && !c.declined && c.asked);
  CHECK(vtb_choices_parse("-fuse_norms,-fuse_mixer", &c, &err) == VTB_OK);
  CHECK(c.declined == (1u << vtb_choice_find("fuse_norms") | 1u << vtb_choice_find("fuse_mixer")));
  static const char *const wrong[] = {"fuse_norms",   "-fuse",           "-fuse_normss", "-",
                                      "-fuse_norms,", "all,-fuse_norms", ",-fuse_norms", "-dce"};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    err = (vtb_error){0};
    CHECK_MSG(vtb_choices_parse(wrong[i], &c, &err) == VTB_E_USAGE &&
                  strstr(err.text, "names no fusion") && strstr(err.text, "fuse_products"),
              "%s: %s", wrong[i], err.text);
  }
  CHECK(vtb_choice_find("fuse_mixer_grad") >= 0 && vtb_choice_find("fuse") < 0);
}

static size_t widest_line(const char *text) {
  size_t most = 0;
  for (const char *at = text; *at; at += strcspn(at, "\n") + 1) {
    size_t n = strcspn(at, "\n");
    if (n > most) most = n;
    if (!at[n]) break;
  }
  return most;
}

TEST(decisions_are_lines) {
  vtb_choices c = {.n = 2, .declined = 1};
  vtb_strbuf text = {0};
  c.at[0] = (vtb_choice){.pass = 0, .with = 4.5186e-3, .without = 4.2767e-3};
  c.at[1] = (vtb_choice){.pass = 7, .fused = true, .with = 1.23456, .without = 9.99999};
  vtb_choices_print(&c, "h200", &text);
  CHECK_MSG(strstr(text.at, "4.519      4.277     -5.4 %  left out\n"), "%s", text.at);
  CHECK(strstr(text.at, "fused\n") && strstr(text.at, "on h200"));
  CHECK_MSG(widest_line(text.at) <= 80, "%s", text.at);
  text.n = 0;
  c = (vtb_choices){0};
  vtb_choices_print(&c, "a100", &text);
  CHECK(strstr(text.at, "nothing to decide") && widest_line(text.at) <= 80);
  text.n = 0;
  c = (vtb_choices){.asked = true, .declined = 1u << 2};
  vtb_choices_print(&c, "a100", &text);
  CHECK(strstr(text.at, "VTB_FUSIONS decides") && strstr(text.at, vtb_choice_names[2]));
  vtb_strbuf_free(&text);
}

int main(void) {
  RUN(what_costs_more_than_it_saves_is_left_out);
  RUN(what_becomes_free_is_asked_about_too);
  RUN(a_plan_that_cannot_be_made_ends_it);
  RUN(choices_can_be_asked_for);
  RUN(decisions_are_lines);
  return test_done();
}
