/* Messages send people to commands that exist: every `vertebra WORD` in the sources and in the
 * catalogue of codes is a row of frontend/cli/commands.def. */
#include <ctype.h>

#include "rules.h"
#include "tests/test.h"
#include "tree.h"

static const char *const commands[] = {
#define X(name, usage, summary) #name,
#include "frontend/cli/commands.def"
#undef X
};

static bool is_command(const char *word, size_t n) {
  for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
    if (strlen(commands[i]) == n && strncmp(commands[i], word, n) == 0) return true;
  return false;
}

/* "vertebra cuda image" begins the files of cached kernels. */
static bool is_other(const char *word, size_t n) { return n == 4 && strncmp(word, "cuda", 4) == 0; }

/* Where the text says `vertebra WORD`, in lower case and behind nothing that makes it a path. */
static void check_text(const char *path, const char *text, complaints *c) {
  static const char program[] = "vertebra ";
  for (const char *at = text; (at = strstr(at, program)); at++) {
    bool word_before = at > text && (isalnum((unsigned char)at[-1]) || strchr("_/.-", at[-1]));
    const char *word = at + sizeof program - 1;
    size_t n = 0;
    while (islower((unsigned char)word[n])) n++;
    bool ends = !isalnum((unsigned char)word[n]) && word[n] != '_';
    if (word_before || n == 0 || !ends || is_command(word, n) || is_other(word, n)) continue;
    int line = 1;
    for (const char *p = text; p < at; p++) line += *p == '\n';
    complain(c, path, line, "there is no command 'vertebra %.*s'", (int)n, word);
  }
}

TEST(messages_name_commands_that_exist) {
  house_tree t = {0};
  complaints c = {0};
  tree_read(&t, VTB_SOURCE_DIR);
  for (size_t i = 0; i < t.files.n; i++)
    if (!vtb_starts_with(t.files.at[i].path, "tests/"))
      check_text(t.files.at[i].path, t.files.at[i].text, &c);
  tree_free(&t);
  char *codes = NULL;
  size_t n = 0;
  vtb_error err = {0};
  CHECK(vtb_file_read(VTB_SOURCE_DIR "/ir/diag_codes.def", 1 << 22, &codes, &n, &err) == VTB_OK);
  if (codes) check_text("ir/diag_codes.def", codes, &c);
  free(codes);
  CHECK_MSG(complaints_end(&c) == 0, "a command that does not exist");
}

TEST(a_command_that_does_not_exist_is_found) {
  complaints c = {0};
  check_text("planted", "try: vertebra list\nvertebra check, ./vertebra nothing, vertebra %s", &c);
  CHECK(c.n == 1);
  vtb_strbuf_free(&c.text);
}

int main(void) {
  RUN(messages_name_commands_that_exist);
  RUN(a_command_that_does_not_exist_is_found);
  return test_done();
}
