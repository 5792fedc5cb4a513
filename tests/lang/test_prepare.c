/* prepare(...): the model's word for what becomes of its images, refined by presets. */
#include "frontend/lang/lang.h"
#include "tests/test.h"

static const char text[] =
    "const half = [0.5, 0.5, 0.5]\n"
    "fn usual() { prepare(resize = pad) }\n"
    "model m(dim: int = 8, cut: float = 0.9, word: string = \"box\") {\n"
    "  input x: image[3, 8, 8]\n"
    "  prepare(crop = cut, filter = word, std = 0.25)\n"
    "  prepare(mean = imagenet)\n"
    "  output y = dim * x\n"
    "}\n"
    "model silent() { input x: image[3, 8, 8]\n output y = x }\n"
    "preset a alias aa = m(dim = 16) prepare(mean = half, resize = squash, filter = \"hamming\")\n"
    "preset b = a(cut = 0.5) prepare(std = imagenet, resize = crop)\n"
    "preset c = b() prepare(crop = 1, mean = data, std = data)\n"
    "preset prepare = c(dim = 4)\n";

/* What the entry's module says; -D cut. */
static const char *said(const char *entry, const char *cut) {
  static char out[512];
  vtb_diags diags = {0};
  vtb_override set = {.name = "cut", .value = cut};
  vtb_instantiate_options o = {.overrides = &set, .n_overrides = cut ? 1 : 0};
  vtb_search none = {0};
  vtb_unit *u = vtb_unit_load_text("a.vtb", text, sizeof text - 1, &none, &diags);
  vtb_module *m = vtb_instantiate(u, entry, &o, &diags);
  vtb_diags_print(&diags, stderr);
  CHECK(m != NULL);
  vtb_module *copy = m ? vtb_module_clone(m) : NULL;
  snprintf(out, sizeof out, "%s", copy && copy->prepare ? copy->prepare : "nothing");
  if (copy) vtb_module_free(copy);
  if (m) vtb_module_free(m);
  vtb_unit_free(u);
  vtb_diags_free(&diags);
  return out;
}

TEST(a_model_says_it_and_presets_refine_it) {
  CHECK_STR(said("m", NULL),
            "{\"crop\": 0.9, \"filter\": \"box\", \"mean\": [0.485, 0.456, 0.406], "
            "\"std\": 0.25}");
  CHECK_STR(said("aa", NULL), "{\"crop\": 0.9, \"resize\": \"squash\", \"filter\": \"hamming\", "
                              "\"mean\": [0.5, 0.5, 0.5], \"std\": 0.25}");
  CHECK_STR(said("b", NULL), "{\"crop\": 0.5, \"resize\": \"crop\", \"filter\": \"hamming\", "
                             "\"mean\": [0.5, 0.5, 0.5], \"std\": [0.229, 0.224, 0.225]}");
}

TEST(settings_reach_it) {
  CHECK_STR(said("m", "0.75"), "{\"crop\": 0.75, \"filter\": \"box\", "
                               "\"mean\": [0.485, 0.456, 0.406], \"std\": 0.25}");
}

TEST(the_data_sets_own_numbers_are_no_word) {
  CHECK_STR(said("c", NULL), "{\"crop\": 1, \"resize\": \"crop\", \"filter\": \"hamming\"}");
  CHECK_STR(said("prepare", NULL), said("c", NULL));
  CHECK_STR(said("silent", NULL), "nothing");
}

int main(void) {
  RUN(a_model_says_it_and_presets_refine_it);
  RUN(settings_reach_it);
  RUN(the_data_sets_own_numbers_are_no_word);
  return test_done();
}
