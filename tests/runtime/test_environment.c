/* What the environment says becomes a vtb_behaviour: every row of the table, values that a variable
 * does not take, and structs of an older header. */
#include "runtime/vertebra.h"
#include "runtime/behaviour.h"
#include "tests/runtime/support.h"

#include <stddef.h>

/* A row, and two values that it takes. */
typedef struct variable {
  const char *name, *first, *second, *wrong; /* wrong NULL: any text is taken */
  const char *needed;
  size_t at, bytes;
} variable;

#define AT(field) offsetof(vtb_behaviour, field), sizeof(((vtb_behaviour *)0)->field)
#define TEXT_OF(x) #x
#define NUMBER_TEXT(x) TEXT_OF(x)
static const variable variables[] = {
#define GROUP(title)
#define FACT(name, values, text)
#define SWITCH(name, field, no, yes, text)                                                         \
  {name, no, yes, "maybe", no " or " yes " is needed", AT(field)},
#define NUMBER(name, field, least, most, text)                                                     \
  {name, NUMBER_TEXT(most), "3", "2x", "a whole number from " #least " to ", AT(field)},
#define DEVICE NUMBER
#define TEXT(name, field, values, text) {name, "one", "two", NULL, NULL, AT(field)},
#include "runtime/environment.def"
};
enum { N = sizeof variables / sizeof *variables };

static vtb_behaviour read_all(void) {
  vtb_behaviour how = {.size = sizeof how};
  CHECK_OK(vtb_options_from_environment(&how, err));
  return how;
}

static void forget_all(void) {
  for (int i = 0; i < N; i++) unsetenv(variables[i].name);
  unsetenv("OMP_NUM_THREADS");
}

TEST(every_row_sets_its_field_and_no_other) {
  const vtb_behaviour nothing = {.size = sizeof nothing};
  CHECK(N > 20);
  for (int i = 0; i < N; i++) {
    const variable *v = &variables[i];
    setenv(v->name, "", 1);
    vtb_behaviour empty = read_all();
    CHECK_MSG(memcmp(&empty, &nothing, sizeof empty) == 0, "%s: empty is something", v->name);
    setenv(v->name, v->first, 1);
    vtb_behaviour a = read_all();
    setenv(v->name, v->second, 1);
    vtb_behaviour b = read_all();
    unsetenv(v->name);
    const char *x = (const char *)&a + v->at, *y = (const char *)&b + v->at;
    CHECK_MSG(memcmp(x, y, v->bytes) != 0, "%s: both values are one", v->name);
    a.has_cuda_device = b.has_cuda_device = false;
    memset((char *)&a + v->at, 0, v->bytes);
    memset((char *)&b + v->at, 0, v->bytes);
    CHECK_MSG(memcmp(&a, &nothing, sizeof a) == 0 && memcmp(&b, &nothing, sizeof b) == 0,
              "%s sets another field", v->name);
  }
}

TEST(values_that_a_variable_does_not_take_are_named) {
  for (int i = 0; i < N; i++) {
    const variable *v = &variables[i];
    vtb_behaviour how = {.size = sizeof how, .threads = 7};
    vtb_error err = {0};
    if (!v->wrong) continue;
    setenv(v->name, v->wrong, 1);
    CHECK(vtb_options_from_environment(&how, &err) == VTB_E_USAGE && how.threads == 7);
    CHECK_MSG(strstr(err.text, v->name) && strstr(err.text, v->wrong) &&
                  strstr(err.text, v->needed),
              "%s", err.text);
    unsetenv(v->name);
  }
  static const char *const devices[] = {"-1", "cuda:0", "65536", "99999999999999999999"};
  for (int i = 0; i < 4; i++) {
    vtb_behaviour how = {.size = sizeof how};
    setenv("VTB_CUDA_DEVICE", devices[i], 1);
    CHECK_REFUSED(vtb_options_from_environment(&how, err), "from 0 to 65535");
  }
  setenv("VTB_CUDA_DEVICE", "0", 1);
  vtb_behaviour first = read_all();
  CHECK(first.has_cuda_device && first.cuda_device == 0);
  unsetenv("VTB_CUDA_DEVICE");
}

TEST(threads_are_ours_else_openmps) {
  setenv("OMP_NUM_THREADS", "3,2", 1);
  CHECK(read_all().threads == 3);
  setenv("VTB_THREADS", "5", 1);
  CHECK(read_all().threads == 5);
  unsetenv("VTB_THREADS");
  setenv("OMP_NUM_THREADS", "many", 1);
  CHECK(read_all().threads == 0);
  unsetenv("OMP_NUM_THREADS");
}

TEST(who_says_nothing_gets_the_environment) {
  vtb_behaviour how, given = {.size = sizeof given, .cuda_graph = VTB_YES};
  setenv("VTB_CUDA_SYNC", "1", 1);
  CHECK_OK(vtb_behaviour_of(NULL, &how, err));
  CHECK(how.cuda_sync == VTB_YES && how.cuda_graph == VTB_UNSAID);
  CHECK_OK(vtb_behaviour_of(&given, &how, err));
  CHECK(how.cuda_sync == VTB_UNSAID && how.cuda_graph == VTB_YES);
  unsetenv("VTB_CUDA_SYNC");
}

TEST(an_older_headers_struct_is_filled_as_far_as_it_goes) {
  vtb_behaviour how = {.size = offsetof(vtb_behaviour, machine), .fusions = "mine"};
  setenv("VTB_FUSIONS", "all", 1);
  setenv("VTB_CUDA_GRAPH", "0", 1);
  CHECK_OK(vtb_options_from_environment(&how, err));
  CHECK(how.cuda_graph == VTB_NO && vtb_streq(how.fusions, "mine"));
  CHECK(how.size == offsetof(vtb_behaviour, machine));
  how.size = 0;
  CHECK_REFUSED(vtb_options_from_environment(&how, err), "sizeof(vtb_behaviour)");
  forget_all();
}

int main(void) {
  forget_all();
  RUN(every_row_sets_its_field_and_no_other);
  RUN(values_that_a_variable_does_not_take_are_named);
  RUN(threads_are_ours_else_openmps);
  RUN(who_says_nothing_gets_the_environment);
  RUN(an_older_headers_struct_is_filled_as_far_as_it_goes);
  return test_done();
}
