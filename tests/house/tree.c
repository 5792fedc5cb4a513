#include "tree.h"

#include "rules.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

/* What a character of C text belongs to. */
typedef enum state { CODE, BLOCK_COMMENT, LINE_COMMENT, STRING, CHARACTER } state;

static state begins(const char *p) {
  if (p[0] == '/' && p[1] == '*') return BLOCK_COMMENT;
  if (p[0] == '/' && p[1] == '/') return LINE_COMMENT;
  return p[0] == '"' ? STRING : p[0] == '\'' ? CHARACTER : CODE;
}

static bool ends(state s, const char *p) {
  switch (s) {
  case BLOCK_COMMENT:
    return p[-1] == '*' && p[0] == '/';
  case LINE_COMMENT:
    return p[0] == '\n';
  case STRING:
    return p[0] == '"';
  case CHARACTER:
    return p[0] == '\'';
  default:
    return false;
  }
}

/* Blanks what is no code. The path of an include stays. */
static char *code_of(const char *text) {
  char *code = vtb_xstrdup(text);
  state s = CODE;
  const char *from = text;
  for (const char *p = text; *p; p++) {
    if (s == CODE) {
      s = begins(p);
      from = p;
      if (s == STRING || s == CHARACTER) continue;
      if (s == BLOCK_COMMENT || s == LINE_COMMENT) code[p - text] = ' ';
      continue;
    }
    bool literal = s == STRING || s == CHARACTER;
    if (literal && *p == '\\' && p[1]) {
      code[p - text] = code[p + 1 - text] = ' ';
      p++;
      continue;
    }
    bool over = ends(s, p) && (literal || s == LINE_COMMENT || p - from > 2);
    if (*p != '\n' && !(over && literal)) code[p - text] = ' ';
    if (over) s = CODE;
  }
  return code;
}

static bool is_c(const char *name) {
  return vtb_ends_with(name, ".c") || vtb_ends_with(name, ".h");
}

void tree_add(house_tree *t, const char *path, const char *text) {
  house_file f = {vtb_xstrdup(path), vtb_xstrdup(text), code_of(text)};
  if (is_c(path))
    vtb_vec_push(&t->files, f);
  else
    vtb_vec_push(&t->texts, f);
}

static bool is_text(const char *name) {
  static const char *const ends[] = {".def", ".y",   ".l",  ".cu",   ".cuh", ".py",
                                     ".sh",  ".css", ".js", ".html", ".hpp"};
  for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
    if (vtb_ends_with(name, ends[i])) return true;
  return false;
}

static void read_file(house_tree *t, const char *top, const char *path) {
  vtb_strbuf full = {0};
  vtb_strbuf_printf(&full, "%s/%s", top, path);
  char *text = NULL;
  size_t n = 0;
  vtb_error err = {0};
  if (vtb_file_read(full.at, 1 << 24, &text, &n, &err) != VTB_OK) {
    fprintf(stderr, "%s\n", err.text);
    exit(1);
  }
  tree_add(t, path, text);
  free(text);
  vtb_strbuf_free(&full);
}

static void read_folder(house_tree *t, const char *top, const char *folder) {
  vtb_strbuf full = {0};
  vtb_strbuf_printf(&full, "%s/%s", top, folder);
  struct dirent **names = NULL;
  int n = scandir(full.at, &names, NULL, alphasort);
  vtb_strbuf_free(&full);
  for (int i = 0; i < n; i++) {
    const char *name = names[i]->d_name;
    vtb_strbuf path = {0};
    vtb_strbuf_printf(&path, "%s/%s", folder, name);
    if (name[0] != '.' && !strchr(name, '.'))
      read_folder(t, top, path.at);
    else if (is_c(name) || is_text(name))
      read_file(t, top, path.at);
    vtb_strbuf_free(&path);
    free(names[i]);
  }
  free(names);
}

void tree_read(house_tree *t, const char *top) {
  vtb_map read = {0};
  for (size_t i = 0; i < sizeof rooms / sizeof *rooms; i++) {
    char folder[64];
    snprintf(folder, sizeof folder, "%.*s", (int)strcspn(rooms[i].path, "/"), rooms[i].path);
    if (!vtb_map_has(&read, folder)) read_folder(t, top, folder);
    vtb_map_set(&read, folder, NULL);
  }
  vtb_map_free(&read);
  read_folder(t, top, "tests");
}

static void file_free(house_file *f) {
  free(f->path);
  free(f->text);
  free(f->code);
}

void tree_free(house_tree *t) {
  for (size_t i = 0; i < t->files.n; i++) file_free(&t->files.at[i]);
  for (size_t i = 0; i < t->texts.n; i++) file_free(&t->texts.at[i]);
  vtb_vec_free(&t->files);
  vtb_vec_free(&t->texts);
}

const house_file *tree_find(const house_tree *t, const char *path) {
  for (size_t i = 0; i < t->files.n; i++)
    if (strcmp(t->files.at[i].path, path) == 0) return &t->files.at[i];
  return NULL;
}

bool next_line(const char **at, char *line, size_t size) {
  if (!**at) return false;
  size_t n = strcspn(*at, "\n");
  snprintf(line, size, "%.*s", (int)n, *at);
  *at += n + ((*at)[n] == '\n');
  return true;
}

bool included(const char *line, char *path, size_t size) {
  if (!vtb_starts_with(line, "#include \"")) return false;
  const char *from = line + strlen("#include \"");
  snprintf(path, size, "%.*s", (int)strcspn(from, "\""), from);
  return true;
}

void complain(complaints *c, const char *path, int line, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  vtb_strbuf_printf(&c->text, line ? "%s:%d: " : "%s: ", path, line);
  vtb_strbuf_vprintf(&c->text, fmt, ap);
  vtb_strbuf_putc(&c->text, '\n');
  va_end(ap);
  c->n++;
}

int complaints_end(complaints *c) {
  int n = c->n;
  if (n) fputs(c->text.at, stderr);
  vtb_strbuf_free(&c->text);
  c->n = 0;
  return n;
}
