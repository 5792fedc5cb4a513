/* Names of what commands write: what a file is called says what is in it. */
#include "frontend/cli/names.h"
#include "frontend/cli/cli.h"

#include <string.h>

static const char *base_of(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

/* Of the name's own ending; its length where it has none. */
static int stem_length(const char *path) {
  const char *base = base_of(path), *dot = strrchr(base, '.');
  return (int)(dot && dot != base ? (size_t)(dot - path) : strlen(path));
}

static bool has_ending(const char *base, const char *ending) {
  return vtb_ends_with(base, ending) && strlen(base) > strlen(ending);
}

vtb_status cli_check_name(const char *command, const char *option, const char *path,
                          const char *endings) {
  if (!path) return VTB_OK;
  vtb_strbuf list = {0};
  char all[64], *at = all, *first = NULL;
  bool fits = false;
  snprintf(all, sizeof all, "%s", endings);
  for (char *ending, *next = strtok_r(all, " ", &at); (ending = next);) {
    next = strtok_r(NULL, " ", &at);
    vtb_strbuf_printf(&list, "%s%s", !first ? "" : next ? ", " : " or ", ending);
    if (!first) first = ending;
    fits |= has_ending(base_of(path), ending);
  }
  vtb_status status = VTB_OK;
  if (vtb_path_is_dir(path))
    status = cli_usage_error(command, "%s names a file, and '%s' is a folder", option, path);
  else if (!*base_of(path))
    status = cli_usage_error(command, "%s names a file, which '%s' does not", option, path);
  else if (!fits)
    status = cli_usage_error(command, "%s writes %s, which '%s' is not: call it %.*s%s", option,
                             list.at, path, stem_length(path), path, first);
  vtb_free(list.at);
  return status;
}

vtb_status cli_check_folder(const char *command, const char *option, const char *path) {
  static const char *const files[] = {".html", ".csv", ".json", ".yaml", ".safetensors",
                                      ".pth",  ".pt",  ".svg",  ".png",  ".so"};
  if (!path || vtb_path_is_dir(path)) return VTB_OK;
  for (size_t i = 0; i < sizeof files / sizeof *files; i++)
    if (has_ending(base_of(path), files[i]))
      return cli_usage_error(command, "%s names a folder, and '%s' a file: call it %.*s", option,
                             path, stem_length(path), path);
  return VTB_OK;
}
