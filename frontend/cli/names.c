/* Texts of options: what a file is called says what is in it. */
#include "frontend/cli/names.h"

#include <string.h>

static const char *base_of(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

/* The place of the name's own ending; its length where it has none. */
static int stem_length(const char *path) {
  const char *base = base_of(path), *dot = strrchr(base, '.');
  return (int)(dot && dot != base ? (size_t)(dot - path) : strlen(path));
}

static bool has_ending(const char *base, const char *ending) {
  return vtb_ends_with(base, ending) && strlen(base) > strlen(ending);
}

/* The words of "a|b|c" as a sentence lists them; *fits: the text is one of them, or ends in one
 * that is an ending. */
static void put_words(const char *words, const char *text, vtb_strbuf *out, bool *fits) {
  *fits = false;
  for (const char *at = words; *at;) {
    char word[32];
    size_t n = strcspn(at, "|");
    snprintf(word, sizeof word, "%.*s", (int)n, at);
    vtb_strbuf_printf(out, "%s%s", at == words ? "" : at[n] ? ", " : " or ", word);
    *fits |= *word == '.' ? has_ending(base_of(text), word) : strcmp(text, word) == 0;
    at += n + (at[n] != 0);
  }
}

vtb_status cli_check_name(const char *command, const char *option, const char *path,
                          const char *endings) {
  if (!path) return VTB_OK;
  vtb_strbuf list = {0};
  bool fits;
  put_words(endings, path, &list, &fits);
  vtb_status status = VTB_OK;
  if (vtb_path_is_dir(path))
    status = cli_usage_error(command, "%s names a file, and '%s' is a folder", option, path);
  else if (!*base_of(path))
    status = cli_usage_error(command, "%s names a file, which '%s' does not", option, path);
  else if (!fits)
    status = cli_usage_error(command, "%s writes %s, which '%s' is not: call it %.*s%.*s", option,
                             list.at, path, stem_length(path), path, (int)strcspn(endings, "|"),
                             endings);
  vtb_free(list.at);
  return status;
}

static vtb_status check_folder(const char *command, const char *option, const char *path) {
  static const char *const files[] = {".html", ".csv", ".json", ".yaml", ".safetensors",
                                      ".pth",  ".pt",  ".svg",  ".png",  ".so"};
  for (size_t i = 0; i < sizeof files / sizeof *files && !vtb_path_is_dir(path); i++)
    if (has_ending(base_of(path), files[i]))
      return cli_usage_error(command, "%s names a folder, and '%s' a file: call it %.*s", option,
                             path, stem_length(path), path);
  return VTB_OK;
}

static vtb_status check_choice(const char *command, const cli_opt *o, const char *text) {
  vtb_strbuf list = {0};
  bool fits;
  put_words(o->metavar, text, &list, &fits);
  vtb_status status =
      fits ? VTB_OK : cli_usage_error(command, "%s is %s, not '%s'", o->name, list.at, text);
  vtb_strbuf_free(&list);
  return status;
}

vtb_status cli_check_text(const char *command, const cli_opt *o, const char *text) {
  if (o->kind == CLI_CHOICE) return check_choice(command, o, text);
  if (o->kind == CLI_FOLDER) return check_folder(command, o->name, text);
  return o->kind == CLI_FILE ? cli_check_name(command, o->name, text, strchr(o->metavar, '.'))
                             : VTB_OK;
}
