/* A host that opens the library itself, uses it and unloads it has neither threads nor files nor
 * the library left, however often. */
#include "runtime/vertebra.h"
#include "tests/runtime/sample_file.h"

#include <dirent.h>
#include <dlfcn.h>

static int count_entries(const char *folder) {
  DIR *d = opendir(folder);
  int n = 0;
  while (d && readdir(d)) n++;
  if (d) closedir(d);
  return n;
}

static bool is_mapped(const char *name) {
  char line[1024];
  bool found = false;
  FILE *f = fopen("/proc/self/maps", "r");
  while (f && fgets(line, sizeof line, f)) found |= strstr(line, name) != NULL;
  if (f) fclose(f);
  return found;
}

#define FIND(name) __typeof__(&name) my_##name = (__typeof__(&name))dlsym(library, #name)

static void use_once(const char *built) {
  void *library = dlopen(VTB_SHARED_RUNTIME, RTLD_NOW | RTLD_LOCAL);
  CHECK_MSG(library != NULL, "%s", dlerror());
  if (!library) return;
  FIND(vtb_model_open);
  FIND(vtb_model_release);
  FIND(vtb_session_open);
  FIND(vtb_session_run);
  FIND(vtb_session_close);
  vtb_model *m = NULL;
  vtb_session *s = NULL;
  vtb_session_options o = {.size = sizeof o, .threads = 3};
  CHECK_OK(my_vtb_model_open(built, NULL, &m, err));
  CHECK_OK(my_vtb_session_open(m, &o, &s, err));
  CHECK_OK(my_vtb_session_run(s, 1, err));
  my_vtb_session_close(s);
  my_vtb_model_release(m);
  CHECK(dlclose(library) == 0);
}

TEST(nothing_is_left_of_an_unloaded_library) {
  const char *built = temp_path("built.so");
  sample *file = make();
  CHECK_OK(write_sample(file, built, err));
  free(file);
  int threads = count_entries("/proc/self/task"), files = count_entries("/proc/self/fd");
  for (int round = 0; round < 5; round++) {
    use_once(built);
    CHECK(!is_mapped("libvertebra_rt") && !is_mapped("built.so"));
    CHECK(count_entries("/proc/self/task") == threads && count_entries("/proc/self/fd") == files);
  }
}

int main(void) {
  RUN(nothing_is_left_of_an_unloaded_library);
  return test_done();
}
