/* Recipes found by name. */
#include "frontend/cli/recipe_find.h"
#include "frontend/lang/lang.h"

#include <dirent.h>
#include <string.h>

enum { MOST_BYTES = 128 << 10 };
static const char *const endings[] = {"", ".yaml", ".yml"};

static bool is_file(const char *path) { return vtb_path_exists(path) && !vtb_path_is_dir(path); }

/* "FOLDER/NAME" with one of the endings; folder: "" is here. NULL: there is none. */
static char *find_in(const char *folder, const char *name) {
  for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
    char *path = vtb_strprintf("%s%s%s", folder, name, endings[i]);
    if (is_file(path)) return path;
    vtb_free(path);
  }
  return NULL;
}

vtb_status recipe_find(const char *name, char **path) {
  const vtb_search *search = vtb_search_default();
  *path = find_in("", name);
  for (size_t i = 0; !*path && !strchr(name, '/') && i < search->n_dirs; i++) {
    char *folder = vtb_strprintf("%s/recipes/", search->dirs[i]);
    *path = find_in(folder, name);
    vtb_free(folder);
  }
  if (*path) return VTB_OK;
  recipe_list all;
  cli_list names = {0};
  vtb_error err = {0};
  recipe_all(&all);
  for (size_t i = 0; i < all.n; i++) vtb_vec_push(&names, all.at[i].name);
  const char *near = vtb_suggest(name, names.at, names.n);
  vtb_fail(&err, VTB_E_INPUT, "no recipe '%s': neither a file nor a name of one%s%s%s", name,
           near ? "; did you mean '" : "", near ? near : "; `vertebra models --recipes` lists them",
           near ? "'?" : "");
  vtb_vec_free(&names);
  recipe_list_free(&all);
  return cli_error(&err);
}

/* ---- all of them ----------------------------------------------------------------------------- */

/* The lines "# ..." that the file begins with, as one. */
static char *about(const char *path) {
  char *text = NULL;
  size_t n = 0;
  vtb_strbuf out = {0};
  if (vtb_file_read(path, MOST_BYTES, &text, &n, NULL) == VTB_OK)
    for (const char *line = text; *line == '#'; line += strcspn(line, "\n"), line += *line != 0) {
      const char *words = line + strspn(line, "# ");
      vtb_strbuf_printf(&out, "%s%.*s", out.n ? " " : "", (int)strcspn(words, "\n"), words);
    }
  vtb_free(text);
  return out.at ? out.at : vtb_xstrdup("");
}

static bool has(const recipe_list *l, const char *name, size_t n) {
  for (size_t i = 0; i < l->n; i++)
    if (strlen(l->at[i].name) == n && strncmp(l->at[i].name, name, n) == 0) return true;
  return false;
}

static int by_name(const struct dirent **a, const struct dirent **b) {
  return strcmp((*a)->d_name, (*b)->d_name);
}

void recipe_files(const char *below, recipe_list *out) {
  const vtb_search *search = vtb_search_default();
  *out = (recipe_list){0};
  for (size_t i = 0; i < search->n_dirs; i++) {
    struct dirent **entries;
    char *folder = vtb_strprintf("%s/%s", search->dirs[i], below);
    int n = scandir(folder, &entries, NULL, by_name);
    for (int k = 0; k < n; k++) {
      const char *name = entries[k]->d_name, *dot = strrchr(name, '.');
      size_t length = dot ? (size_t)(dot - name) : 0;
      if (length && (!strcmp(dot, ".yaml") || !strcmp(dot, ".yml")) && !has(out, name, length)) {
        recipe_entry e = {.name = vtb_strprintf("%.*s", (int)length, name),
                          .path = vtb_strprintf("%s/%s", folder, name)};
        e.about = about(e.path);
        vtb_vec_push(out, e);
      }
      vtb_free(entries[k]);
    }
    if (n >= 0) vtb_free(entries);
    vtb_free(folder);
  }
}

void recipe_all(recipe_list *out) { recipe_files("recipes", out); }

void recipe_list_free(recipe_list *l) {
  for (size_t i = 0; i < l->n; i++) {
    vtb_free(l->at[i].name);
    vtb_free(l->at[i].path);
    vtb_free(l->at[i].about);
  }
  vtb_vec_free(l);
}
