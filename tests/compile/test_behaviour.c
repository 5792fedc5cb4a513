/* One process compiles one model in two ways, whatever its environment says. */
#include "frontend/compile/compile.h"
#include "tests/runtime/support.h"

static const char model[] = "model m() {\n"
                            "  input image: image[3, 32, 32]\n"
                            "  x = patches(image, kernel = 4) * param w: [48] ~ normal(0.1)\n"
                            "  output y = gelu(x)\n"
                            "}\n";

/* A stage's text, for vtb_free(). */
static char *stage_of(const char *name, const char *stage, const vtb_behaviour *how) {
  vtb_compile_options o = {.size = sizeof o, .target = "cuda", .batch = 64, .behaviour = how};
  vtb_report *r = vtb_report_new();
  char *text = NULL;
  o.model = name ? name : "m.vtb";
  o.text = name ? NULL : model;
  if (vtb_streq(stage, "asm")) o.target = "cpu";
  vtb_status status = vtb_compile_stage(&o, stage, NULL, &text, r);
  CHECK_MSG(status == VTB_OK, "%s", vtb_report_error(r));
  vtb_report_free(r);
  return text ? text : vtb_xstrdup("");
}

/* Two behaviours give two texts; again the first gives the first. */
static void compare(const char *name, const char *stage, const vtb_behaviour *a,
                    const vtb_behaviour *b, const char *in_b) {
  char *first = stage_of(name, stage, a), *second = stage_of(name, stage, b);
  char *third = stage_of(name, stage, a);
  CHECK_MSG(strcmp(first, second) != 0, "%s: both behaviours give one text", stage);
  CHECK_MSG(strcmp(first, third) == 0, "%s: the first is not the third", stage);
  if (in_b) CHECK_MSG(strstr(second, in_b) && !strstr(first, in_b), "%s: %s", stage, second);
  free(first);
  free(second);
  free(third);
}

static const vtb_behaviour plain = {.size = sizeof plain, .cublas = VTB_NO};

TEST(fusions_are_a_callers) {
  const vtb_behaviour none = {.size = sizeof none, .cublas = VTB_NO, .fusions = "-products"};
  const vtb_behaviour all = {.size = sizeof all, .cublas = VTB_NO, .fusions = "all"};
  compare("vit_nano", "decisions", &all, &none, NULL);
}

TEST(products_are_a_callers) {
  const vtb_behaviour library = {.size = sizeof library, .cublas = VTB_YES};
  compare("vit_nano", "launches", &plain, &library, "library product");
}

TEST(machines_are_a_callers) {
  const vtb_behaviour other = {.size = sizeof other, .cublas = VTB_NO, .machine = "a100"};
  compare("vit_nano", "launches", &plain, &other, "chosen for a100");
}

TEST(indices_and_optimisation_are_a_callers) {
  const vtb_behaviour wide = {.size = sizeof wide, .cublas = VTB_NO, .wide_index = VTB_YES};
  const vtb_behaviour quick = {.size = sizeof quick, .optimise = VTB_NO};
  compare(NULL, "cuda", &plain, &wide, NULL);
  compare(NULL, "asm", &(vtb_behaviour){.size = sizeof plain, .optimise = VTB_YES}, &quick, NULL);
}

/* Who gives options is not touched by the environment; who gives none has it. */
TEST(the_environment_is_for_who_says_nothing) {
  setenv("VTB_MACHINE", "b200", 1);
  char *mine = stage_of("vit_nano", "launches", &plain),
       *its = stage_of("vit_nano", "launches", NULL);
  CHECK(strstr(mine, "chosen for h200") && strstr(its, "chosen for b200"));
  free(mine);
  free(its);
  unsetenv("VTB_MACHINE");
  vtb_compile_options o = {.size = sizeof o, .model = "m.vtb", .text = model};
  vtb_report *r = vtb_report_new();
  char *text = NULL;
  setenv("VTB_CUBLAS", "perhaps", 1);
  CHECK(vtb_compile_stage(&o, "ir", NULL, &text, r) == VTB_E_USAGE);
  CHECK_STR(vtb_report_error(r), "VTB_CUBLAS=perhaps: 0 or 1 is needed");
  o.behaviour = &plain;
  CHECK(vtb_compile_stage(&o, "ir", NULL, &text, r) == VTB_OK);
  unsetenv("VTB_CUBLAS");
  free(text);
  vtb_report_free(r);
}

int main(void) {
  setenv("VTB_MODELS", VTB_SOURCE_DIR "/models", 1);
  RUN(fusions_are_a_callers);
  RUN(products_are_a_callers);
  RUN(machines_are_a_callers);
  RUN(indices_and_optimisation_are_a_callers);
  RUN(the_environment_is_for_who_says_nothing);
  return test_done();
}
