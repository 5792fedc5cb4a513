/* The foundation: arena, strings, map, suggestions, files. */
#include "runtime/base/base.h"
#include "tests/test.h"

#include <math.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

TEST(arena_is_zeroed_and_aligned) {
  vtb_arena a;
  vtb_arena_init(&a);
  for (size_t n = 1; n < 200000; n = n * 3 + 1) {
    unsigned char *p = vtb_arena_alloc(&a, n);
    CHECK(((uintptr_t)p & 15) == 0);
    for (size_t i = 0; i < n; i++) CHECK(p[i] == 0);
    memset(p, 0xff, n);
  }
  CHECK_STR(vtb_arena_printf(&a, "%s-%d", "x", 7), "x-7");
  vtb_arena_free(&a);
}

TEST(map_keeps_insertion_order_and_replaces) {
  vtb_map m = {0};
  char key[16];
  for (int i = 0; i < 1000; i++) {
    snprintf(key, sizeof key, "k%d", i);
    vtb_map_set(&m, key, (void *)(uintptr_t)(i + 1));
  }
  vtb_map_set(&m, "k500", (void *)(uintptr_t)7);
  CHECK(m.n == 1000);
  CHECK_STR(m.at[999].key, "k999");
  CHECK((uintptr_t)vtb_map_get(&m, "k500") == 7);
  CHECK(vtb_map_get(&m, "absent") == NULL && !vtb_map_has(&m, "absent"));
  vtb_map_free(&m);
}

/* What is not there is not found, however full the table is. */
TEST(maps_know_what_they_lack) {
  vtb_map m = {0};
  char key[16], absent[16];
  for (int i = 0; i < 600; i++) {
    snprintf(key, sizeof key, "k%d", i);
    snprintf(absent, sizeof absent, "a%d", i);
    CHECK(!vtb_map_has(&m, key));
    vtb_map_set(&m, key, &m);
    CHECK(vtb_map_has(&m, key) && !vtb_map_has(&m, absent) && m.n == (size_t)i + 1);
    CHECK(2 * m.n <= m.n_slots); /* free slots end a search */
  }
  vtb_map_free(&m);
}

TEST(texts_are_escaped_for_what_reads_them) {
  vtb_strbuf s = {0};
  vtb_strbuf_xml(&s, "a<b> & \"c\" 'd'");
  CHECK_STR(s.at, "a&lt;b&gt; &amp; &quot;c&quot; &#39;d&#39;");
  s.n = 0;
  vtb_strbuf_csv(&s, "plain");
  vtb_strbuf_putc(&s, ',');
  vtb_strbuf_csv(&s, "two, \"parts\"\non lines");
  CHECK_STR(s.at, "plain,\"two, \"\"parts\"\" on lines\"");
  vtb_strbuf_free(&s);
}

TEST(json_has_no_bare_control_characters) {
  vtb_strbuf s = {0};
  char text[40] = "\"\\/";
  for (int c = 1; c < 32; c++) text[2 + c] = (char)c;
  vtb_strbuf_json(&s, text);
  for (size_t i = 0; i < s.n; i++) CHECK((unsigned char)s.at[i] >= 32);
  CHECK(strstr(s.at, "\\u0001\\u0002") && strstr(s.at, "\\u000e\\u000f\\u0010") &&
        strstr(s.at, "\\u001f\"") && strstr(s.at, "\\b\\t\\n\\u000b\\f\\r"));
  vtb_strbuf_free(&s);
}

TEST(suggestions_are_near_or_none) {
  const char *names[] = {"depth", "dim", "patch", "pool"};
  CHECK_STR(vtb_suggest("dpeth", names, 4), "depth");
  CHECK_STR(vtb_suggest("ptach", names, 4), "patch");
  CHECK(vtb_suggest("zebra", names, 4) == NULL);
  CHECK(vtb_edit_distance("abc", "abc", 2) == 0);
  CHECK(vtb_edit_distance("kitten", "sitting", 5) == 3);
}

static const char *number(double x, bool single) {
  static vtb_strbuf text;
  text.n = 0;
  if (single)
    vtb_strbuf_float(&text, (float)x);
  else
    vtb_strbuf_double(&text, x);
  return text.at;
}

TEST(numbers_print_shortest) {
  CHECK_STR(number(1e-5, false), "1e-5");
  CHECK_STR(number((double)1e-5f, false), "9.999999747378752e-6"); /* no double shorter is it */
  CHECK_STR(number((double)1e-5f, true), "1e-5");
  CHECK_STR(number(100, false), "100");
  CHECK_STR(number(-999999, false), "-999999");
  CHECK_STR(number(1e6, false), "1e6");
  CHECK_STR(number(1e300, false), "1e300");
  CHECK_STR(number(0.015625, true), "0.015625");
  CHECK_STR(number(0.1 + 0.2, false), "0.30000000000000004");
  CHECK_STR(number(-0.0, false), "-0");
  CHECK_STR(number(HUGE_VAL, false), "inf");
  CHECK_STR(number(-NAN, false), "nan");
}

TEST(first_error_is_kept) {
  vtb_error err = {0};
  CHECK(vtb_fail(&err, VTB_E_INPUT, "first %d", 1) == VTB_E_INPUT);
  CHECK(vtb_fail(&err, VTB_E_MEMORY, "second") == VTB_E_MEMORY);
  CHECK_STR(err.text, "first 1");
  CHECK(err.status == VTB_E_INPUT);
}

TEST(atomic_files_appear_whole_or_not_at_all) {
  char folder[] = "/tmp/vtb-test-XXXXXX";
  CHECK(mkdtemp(folder) != NULL);
  char path[64];
  snprintf(path, sizeof path, "%s/a/b", folder);
  vtb_error err = {0};
  CHECK(vtb_make_dirs(path, &err) == VTB_OK);
  snprintf(path, sizeof path, "%s/a/b/f", folder);
  CHECK(vtb_file_write_atomic(path, "one", 3, &err) == VTB_OK);
  vtb_atomic_file f;
  CHECK(vtb_atomic_begin(&f, path, &err) == VTB_OK);
  fputs("two, unfinished", f.file);
  vtb_atomic_abort(&f);
  char *data;
  size_t n;
  CHECK(vtb_file_read(path, 100, &data, &n, &err) == VTB_OK);
  CHECK(n == 3 && memcmp(data, "one", 3) == 0);
  free(data);
  CHECK(vtb_file_read(path, 2, &data, &n, &err) == VTB_E_INPUT);
  vtb_mapped_file map;
  err = (vtb_error){0};
  CHECK(vtb_map_file(path, &map, &err) == VTB_OK && map.n == 3);
  vtb_unmap_file(&map);
  CHECK(vtb_map_file(folder, &map, &err) == VTB_E_INPUT);
  unlink(path);
  snprintf(path, sizeof path, "%s/a/b", folder);
  CHECK(rmdir(path) == 0); /* no temporary file is left behind */
}

/* Twenty pieces into a file that may have one page, by a writer that looks at nothing. */
static int write_too_much(const char *path) {
  struct rlimit page = {4096, 4096};
  vtb_atomic_file f;
  vtb_error err = {0};
  signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &page);
  if (vtb_atomic_begin(&f, path, &err) != VTB_OK) return 2;
  static char piece[1000];
  for (int i = 0; i < 20; i++) (void)!fwrite(piece, 1, sizeof piece, f.file);
  return vtb_atomic_commit(&f, &err) != VTB_OK && strstr(err.text, path) ? 0 : 1;
}

TEST(what_did_not_fit_replaces_nothing) {
  char folder[] = "/tmp/vtb-test-XXXXXX", path[64], *data;
  size_t n;
  int status = -1;
  vtb_error err = {0};
  CHECK(mkdtemp(folder) != NULL);
  snprintf(path, sizeof path, "%s/f", folder);
  CHECK(vtb_file_write_atomic(path, "one", 3, &err) == VTB_OK);
  pid_t pid = fork();
  if (pid == 0) _exit(write_too_much(path));
  waitpid(pid, &status, 0);
  CHECK_MSG(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %x", (unsigned)status);
  CHECK(vtb_file_read(path, 100, &data, &n, &err) == VTB_OK && n == 3);
  free(data);
  unlink(path);
  CHECK(rmdir(folder) == 0); /* no temporary file is left behind */
}

TEST(hashes_of_contents_are_xxh3) {
  char text[33];
  vtb_hash128("", 0, text);
  CHECK(vtb_hash64("", 0) == UINT64_C(0x2d06800538d394c2));
  CHECK_STR(text, "99aa06d3014798d86001c324468d497f");
  CHECK(vtb_hash64("ab", 2) != vtb_hash64("ac", 2) && vtb_hash64("ab", 2) != vtb_hash64("ab", 1));
}

int main(void) {
  RUN(hashes_of_contents_are_xxh3);
  RUN(arena_is_zeroed_and_aligned);
  RUN(map_keeps_insertion_order_and_replaces);
  RUN(maps_know_what_they_lack);
  RUN(texts_are_escaped_for_what_reads_them);
  RUN(json_has_no_bare_control_characters);
  RUN(suggestions_are_near_or_none);
  RUN(numbers_print_shortest);
  RUN(first_error_is_kept);
  RUN(atomic_files_appear_whole_or_not_at_all);
  RUN(what_did_not_fit_replaces_nothing);
  return test_done();
}
