/* The results of an entry by itself: what they are called, and that no argument is called so. */
#include "frontend/lang/lang.h"
#include "tests/test.h"

static const char text[] = "fn one(x: tensor, y2: tensor) {\n  return x + y2\n}\n"
                           "fn two(x: tensor, y2: tensor) {\n  return x + y2, x\n}\n"
                           "fn all(y: tensor, result: tensor) {\n  return y + result\n}\n"
                           "fn same(x: tensor) {\n"
                           "  let results = [\"a\", \"a\"]\n"
                           "  return x, x + x\n"
                           "}\n"
                           "block weighted(x: tensor) {\n  return x * param y: [3] ~ ones\n}\n"
                           "recurrence scaled(x: [C]) -> [C] {\n"
                           "  state m: [C]\n"
                           "  m = m * 0.5 + x\n"
                           "  yield m\n"
                           "}\n"
                           "recurrence summed(y: [C]) -> [C] {\n"
                           "  state s: [C]\n"
                           "  s = s + y\n"
                           "  yield s\n"
                           "}\n";

/* `want`: the names of the results, or what is said. Arguments are [2, 5, 3]. */
static void expect(const char *entry, const char *arguments, const char *want, bool sound) {
  vtb_diags diags = {0};
  vtb_shape_binding in[4];
  size_t n = 0;
  char names[64], got[256] = "";
  snprintf(names, sizeof names, "%s", arguments);
  for (char *at = strtok(names, " "); at; at = strtok(NULL, " ")) {
    in[n] = (vtb_shape_binding){at, vtb_type_make(VTB_F32, 3, (int64_t[]){2, 5, 3})};
    if (strcmp(at, "m0") == 0) in[n].type = vtb_type_make(VTB_F32, 2, (int64_t[]){2, 3});
    n++;
  }
  vtb_unit *u = vtb_unit_load_text("names.vtb", text, strlen(text), NULL, &diags);
  vtb_instantiate_options o = {.inputs = in, .n_inputs = n};
  vtb_module *m = vtb_instantiate(u, entry, &o, &diags);
  for (int i = 0; m && i < m->entry->n_returns; i++) {
    if (i) strcat(got, " ");
    strcat(got, m->entry->return_names[i]);
  }
  if (!m && diags.list.n) snprintf(got, sizeof got, "%s", diags.list.at[0].text);
  CHECK_MSG(sound == (m != NULL) && (sound || diags.list.at[0].code == 1509), "%s", entry);
  CHECK_STR(got, want);
  if (m) vtb_module_free(m);
  vtb_unit_free(u);
  vtb_diags_free(&diags);
}

TEST(results_are_called_y_unless_an_argument_is) {
  expect("one", "x y2", "y", true);
  expect("two", "x y2", "result result2", true);
  expect("weighted", "x", "result", true);
}

TEST(a_state_m_keeps_its_name) {
  expect("scaled", "x", "y m_last scale_last", true);
  expect("scaled", "x m0", "y m_last scale_last", true);
}

TEST(names_that_stand_for_two_are_refused) {
  expect("all", "y result", "fn 'all' has an input and a result called 'result'", false);
  expect("same", "x", "fn 'same' has two results called 'a'", false);
  expect("summed", "y", "recurrence 'summed' has an input and a result called 'y'", false);
}

int main(void) {
  RUN(results_are_called_y_unless_an_argument_is);
  RUN(a_state_m_keeps_its_name);
  RUN(names_that_stand_for_two_are_refused);
  return test_done();
}
