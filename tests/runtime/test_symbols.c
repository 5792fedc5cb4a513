/* The runtime's library uses nothing that could end its host, print, or change a setting of the
 * process: what its objects leave undefined, as nm lists it, is held against a table. */
#include "runtime/base/base.h"
#include "tests/test.h"

#include <string.h>

/* `names`: functions and variables of other libraries, or beginnings of them with a star. `but`:
 * the objects that may use them, with the reason. */
static const struct {
  const char *names, *but, *why;
} rules[] = {
    {"abort exit _exit _Exit quick_exit raise kill tgkill err errx verr verrx error", "",
     "the host goes on whatever happens: return a vtb_status"},
#ifdef NDEBUG /* builds that look for faults have assertions */
    {"__assert_fail __assert_perror_fail", "", "an assertion ends the host: return a vtb_status"},
#endif
    {"stderr stdout printf vprintf puts putchar perror psignal warn warnx syslog", "",
     "it never prints: sentences go to vtb_error"},
    {"vtb_log vtb_log_verbose vtb_warn", "", "that is the command's: it prints"},
    {"vtb_x* vtb_need vtb_out_of_memory vtb_bug_at vtb__vec_grow vtb_guard", "base.c.o guard.c.o",
     "what never fails needs a guard, which only compilers have: check the allocation"},
    {"vtb_arena_alloc vtb_arena_array vtb_arena_strdup vtb_arena_strndup vtb_arena_printf "
     "vtb_arena_memdup",
     "base.c.o", "they never fail and so need a guard: vtb_arena_try"},
    {"signal sigaction sigprocmask bsd_signal sysv_signal sigaltstack alarm setitimer", "",
     "signals are the host's"},
    {"pthread_sigmask", "communicator.c.o loader.c.o survey.c.o team.c.o",
     "signals are the host's; these start threads that take none, and restore the mask"},
    {"setlocale umask chdir fchdir chroot setenv putenv unsetenv clearenv setrlimit prctl nice", "",
     "settings of the process are the host's"},
    {"fesetround feenableexcept fesetenv sched_setaffinity setpriority mallopt atexit on_exit", "",
     "settings of the process are the host's"},
    {"openblas_* goto_* gotoblas* cblas_* blas_*", "",
     "a BLAS is the host's: products are generated (codegen/cpu/text/product.c)"},
    {"png_* jpeg_* WebP*", "", "they are opened with the first image: runtime/image/codec_*.def"},
    {"omp_* GOMP_*", "", "OpenMP ends the process when it cannot start a thread: team.h"},
    {"fork vfork exec* posix_spawn* system popen", "", "it starts no processes"},
    {"cJSON_Parse* strtok rand srand random srandom setstate", "",
     "they write to variables that all threads of the process share"},
};

static bool listed(const char *list, const char *name) {
  for (const char *p = list; *p; p += strspn(p, " ")) {
    size_t n = strcspn(p, " ");
    bool beginning = n && p[n - 1] == '*';
    if (strncmp(p, name, beginning ? n - 1 : n) == 0 && (beginning || !name[n])) return true;
    p += n;
  }
  return false;
}

/* "__printf_chk" is printf with checks of its arguments, "exit@GLIBC_2.2.5" is exit. */
static void plain_name(char *name) {
  static const char suffix[] = "_chk";
  name[strcspn(name, "@\n")] = '\0';
  if (!vtb_starts_with(name, "__") || !vtb_ends_with(name, suffix)) return;
  name[strlen(name) - strlen(suffix)] = '\0';
  memmove(name, name + 2, strlen(name + 2) + 1);
}

/* Why the object must not use the name; NULL if it may. */
static const char *forbidden(const char *object, const char *name) {
  for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
    if (listed(rules[i].names, name) && !listed(rules[i].but, object)) return rules[i].why;
  return NULL;
}

/* A line of nm -A, "librt.a:base.c.o:                 U getenv". False: it uses nothing. */
static bool read_use(char *line, const char **object, char **name) {
  char *end = strrchr(line, ' '), *colon = strrchr(line, ':');
  if (!end || !colon || colon > end || !strchr("Uwv", end[-1])) return false;
  *name = end + 1;
  *colon = '\0';
  const char *before = strrchr(line, ':');
  *object = before ? before + 1 : line;
  plain_name(*name);
  return true;
}

TEST(planted_uses_are_found) {
  static const struct {
    const char *line;
    bool use, bad;
  } lines[] = {
      {"lib.a:model.c.o:                 U exit\n", true, true},
      {"lib.a:model.c.o:                 U exit@GLIBC_2.2.5\n", true, true},
      {"lib.a:model.c.o:                 w __printf_chk\n", true, true},
      {"lib.a:model.c.o:                 U perror\n", true, true},
      {"lib.a:model.c.o:                 U vtb_xcalloc\n", true, true},
      {"lib.a:base.c.o:                 U vtb_xcalloc\n", true, false},
      {"lib.a:threads.c.o:                 U openblas_set_num_threads\n", true, true},
      {"lib.a:codec_png.c.o:             U png_read_info\n", true, true},
      {"lib.a:model.c.o:                 U omp_get_max_threads\n", true, true},
      {"lib.a:model.c.o:                 U exits\n", true, false},
      {"lib.a:model.c.o:                 U __snprintf_chk\n", true, false},
      {"lib.a:model.c.o:0000000000000010 T exit\n", false, false},
      {"\n", false, false},
  };
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
    char line[128], *name;
    const char *object;
    snprintf(line, sizeof line, "%s", lines[i].line);
    bool use = read_use(line, &object, &name);
    CHECK_MSG(use == lines[i].use, "%s", lines[i].line);
    if (use) CHECK_MSG((forbidden(object, name) != NULL) == lines[i].bad, "%s", lines[i].line);
  }
}

TEST(the_library_uses_nothing_that_is_the_hosts) {
  char line[4096], *name;
  const char *object;
  int n_uses = 0, n_needed = 0;
  FILE *nm = popen("nm -A '" VTB_RT_LIBRARY "' '" VTB_TRAIN_LIBRARY "'", "r");
  while (nm && fgets(line, sizeof line, nm)) {
    if (!read_use(line, &object, &name)) continue;
    const char *why = forbidden(object, name);
    CHECK_MSG(!why, "%s uses %s; %s", object, name, why);
    n_uses++;
    n_needed += vtb_streq(name, "malloc") || vtb_streq(name, "vtb_fail");
  }
  CHECK_MSG(nm && pclose(nm) == 0, "nm failed: is everything built?");
  CHECK_MSG(n_uses > 500 && n_needed > 20, "%d uses read", n_uses); /* nm was understood */
}

int main(void) {
  RUN(planted_uses_are_found);
  RUN(the_library_uses_nothing_that_is_the_hosts);
  return test_done();
}
