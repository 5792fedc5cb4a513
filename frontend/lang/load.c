/* Units: reading a file and what it uses, checking that names are declared once, finding a file by
 * what it declares. */
#include "frontend/lang/parse.h"
#include "ir/diag_codes.h"

#include <dirent.h>
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

enum { MAX_FILE_BYTES = 16 << 20, MAX_USE_DEPTH = 64, MAX_FOLDER_DEPTH = 4 };

#ifndef VTB_MODELS_DIR
#define VTB_MODELS_DIR "models"
#endif

/* ---- search folders -------------------------------------------------------------------------- */

/* The default folders, in memory of their own, so that no caller can fail for want of it. */
static struct {
  char text[8192], installed[PATH_MAX + 64];
  const char *dirs[64];
  vtb_search search;
} defaults;

static void add_folder(const char *dir) {
  if (defaults.search.n_dirs < sizeof defaults.dirs / sizeof *defaults.dirs)
    defaults.dirs[defaults.search.n_dirs++] = dir;
}

/* PREFIX/bin/vertebra and PREFIX/lib/libvertebra.so read PREFIX/share/vertebra/models; a loader
 * that says /lib means /usr/lib. */
static bool is_installed(const char *file) {
  char *path = defaults.installed;
  if (!realpath(file, path)) return false;
  for (int up = 0; up < 4; up++) {
    char *slash = strrchr(path, '/');
    if (!slash) return false;
    strcpy(slash, "/share/vertebra/models");
    if (vtb_path_is_dir(path)) return true;
    *slash = '\0';
  }
  return false;
}

static bool find_installed(void) {
  char program[PATH_MAX];
  Dl_info library;
  ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
  program[n > 0 ? n : 0] = '\0';
  const char *started = (const char *)getauxval(AT_EXECFN); /* where /proc is not mounted */
  return is_installed(program) || (n <= 0 && started && is_installed(started)) ||
         (dladdr(&defaults, &library) && library.dli_fname && is_installed(library.dli_fname));
}

static void find_folders(void) {
  const char *env = getenv("VTB_MODELS");
  snprintf(defaults.text, sizeof defaults.text, "%s", env ? env : "");
  for (char *rest = defaults.text, *dir; (dir = strsep(&rest, ":"));)
    if (*dir) add_folder(dir);
  add_folder(find_installed() ? defaults.installed : VTB_MODELS_DIR);
  defaults.search.dirs = defaults.dirs;
}

const vtb_search *vtb_search_default(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, find_folders);
  return &defaults.search;
}

/* ---- one file -------------------------------------------------------------------------------- */

typedef struct loader {
  vtb_unit *unit;
  const vtb_search *search;
  vtb_diags *diags;
} loader;

static bool same_file(const char *a, const char *b) {
  if (vtb_streq(a, b)) return true;
  char *real_a = realpath(a, NULL), *real_b = realpath(b, NULL);
  bool same = real_a && real_b && vtb_streq(real_a, real_b);
  vtb_free(real_a);
  vtb_free(real_b);
  return same;
}

static const vtb_overlay *overlaid(const vtb_search *search, const char *path) {
  for (size_t i = 0; search && i < search->n_overlay; i++)
    if (same_file(search->overlay[i].path, path)) return &search->overlay[i];
  return NULL;
}

/* False if it cannot be read; memory that runs out is not the file's fault. The text is the
 * guard's. */
static bool read_source(const vtb_search *search, const char *path, char **text, size_t *n,
                        vtb_error *err) {
  const vtb_overlay *own = overlaid(search, path);
  if (own) {
    *text = vtb_xmalloc(own->n + 1);
    memcpy(*text, own->text, own->n);
    (*text)[own->n] = '\0';
    *n = own->n;
    return true;
  }
  char *bytes = NULL;
  vtb_status status = vtb_file_read(path, MAX_FILE_BYTES, &bytes, n, err);
  if (status == VTB_E_MEMORY) vtb_out_of_memory(MAX_FILE_BYTES);
  if (status != VTB_OK) return false;
  vtb_defer(free, bytes);
  *text = vtb_xmalloc(*n + 1);
  memcpy(*text, bytes, *n + 1);
  vtb_forget(bytes);
  vtb_free(bytes);
  return true;
}

/* Folder of a path with the slash, "" for the current one. In the arena. */
static const char *folder_of(vtb_arena *a, const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? vtb_arena_strndup(a, path, (size_t)(slash - path) + 1) : "";
}

static void parse_file(vtb_file *f, vtb_diags *diags) {
  vtb_parse p;
  vtb__parse_begin(&p, f->unit, f, f->source, diags);
  vtb__parse_run(&p, false);
  if (!f->unit->has_syntax_errors) vtb__check_comments(&p);
  for (size_t i = 0; i < p.comments.n; i++) vtb_vec_push(&f->comments, p.comments.at[i]);
  vtb__parse_end(&p);
}

/* The part of `path` behind the search folder it lies in; NULL if in none. */
static const char *path_in_folder(const vtb_search *search, const char *path) {
  for (size_t i = 0; search && i < search->n_dirs; i++) {
    size_t n = strlen(search->dirs[i]);
    while (n > 0 && search->dirs[i][n - 1] == '/') n--;
    if (n > 0 && strncmp(path, search->dirs[i], n) == 0 && path[n] == '/') return path + n + 1;
  }
  return NULL;
}

/* Takes `text`, which is malloc'd. */
static vtb_file *add_file(loader *l, const char *path, char *text, size_t n) {
  vtb_unit *u = l->unit;
  vtb_vec_push(&u->texts, text);
  vtb_source *source = VTB_NEW(&u->arena, vtb_source);
  *source = (vtb_source){.path = vtb_arena_strdup(&u->arena, path), .text = text, .n = n};
  source->name = path_in_folder(l->search, source->path);
  source->library = u->files.n > 0 && source->name;
  vtb_file *f = VTB_NEW(&u->arena, vtb_file);
  f->source = source;
  f->unit = u;
  vtb_vec_push(&u->files, f);
  parse_file(f, l->diags);
  return f;
}

static vtb_file *loaded(const vtb_unit *u, const char *path) {
  for (size_t i = 0; i < u->files.n; i++)
    if (same_file(u->files.at[i]->source->path, path)) return u->files.at[i];
  return NULL;
}

bool vtb__is_shipped(const vtb_file *f) {
  const vtb_search *search = vtb_search_default();
  char *file = realpath(f->source->path, NULL);
  bool found = false;
  for (size_t i = 0; i < search->n_dirs && file && !found; i++) {
    char *dir = realpath(search->dirs[i], NULL);
    size_t n = dir ? strlen(dir) : 0;
    found = n > 0 && strncmp(file, dir, n) == 0 && file[n] == '/';
    vtb_free(dir);
  }
  vtb_free(file);
  return found;
}

/* ---- uses ------------------------------------------------------------------------------------ */

static void load_uses(loader *l, vtb_file *f, int depth);

static bool is_file(const vtb_search *search, const char *path) {
  return overlaid(search, path) || (vtb_path_exists(path) && !vtb_path_is_dir(path));
}

/* The used file's path: beside the using file, beside the root, in the search folders. NULL if
 * nowhere. */
static const char *find_used(loader *l, const vtb_file *from, const char *dotted) {
  vtb_arena *a = &l->unit->arena;
  char *relative = vtb_arena_printf(a, "%s.vtb", dotted);
  for (char *c = relative; c < relative + strlen(relative) - 4; c++)
    if (*c == '.') *c = '/';
  const char *beside[] = {folder_of(a, from->source->path),
                          folder_of(a, l->unit->files.at[0]->source->path)};
  for (int i = 0; i < 2; i++) {
    const char *path = vtb_arena_printf(a, "%s%s", beside[i], relative);
    if (is_file(l->search, path)) return path;
  }
  for (size_t i = 0; i < l->search->n_dirs; i++) {
    const char *dir = l->search->dirs[i];
    const char *path =
        vtb_arena_printf(a, "%s%s%s", dir, vtb_ends_with(dir, "/") ? "" : "/", relative);
    if (is_file(l->search, path)) return path;
  }
  return NULL;
}

static void report_not_found(loader *l, const vtb_file *from, const vtb_use *use) {
  l->unit->has_syntax_errors = true;
  vtb_diag_error(l->diags, VTB_DIAG_USE_NOT_FOUND, use->path.span, "no file for '%s'",
                 use->path.text);
  const char *dir = folder_of(&l->unit->arena, from->source->path);
  vtb_diag_note(l->diags, VTB_NO_SPAN, "looked in %s", *dir ? dir : "./");
  for (size_t i = 0; i < l->search->n_dirs; i++)
    vtb_diag_note(l->diags, VTB_NO_SPAN, "looked in %s", l->search->dirs[i]);
}

static void load_use(loader *l, vtb_file *f, vtb_use *use, int depth) {
  const char *path = find_used(l, f, use->path.text);
  if (!path) {
    report_not_found(l, f, use);
    return;
  }
  vtb_file *used = loaded(l->unit, path);
  if (used && used->loading) {
    l->unit->has_syntax_errors = true;
    vtb_diag_error(l->diags, VTB_DIAG_USE_CYCLE, use->path.span,
                   "'%s' is being read already: the files use each other", use->path.text);
    return;
  }
  if (!used) {
    char *text = NULL;
    size_t n = 0;
    vtb_error err = {0};
    if (depth >= MAX_USE_DEPTH || !read_source(l->search, path, &text, &n, &err)) {
      l->unit->has_syntax_errors = true;
      vtb_diag_error(l->diags, VTB_DIAG_FILE_UNREADABLE, use->path.span, "%s",
                     depth >= MAX_USE_DEPTH ? "files use files too deep" : err.text);
      return;
    }
    used = add_file(l, path, text, n);
    load_uses(l, used, depth + 1);
  }
  use->file = used;
}

static void load_uses(loader *l, vtb_file *f, int depth) {
  f->loading = true;
  for (size_t i = 0; i < f->uses.n; i++) load_use(l, f, &f->uses.at[i], depth);
  f->loading = false;
}

/* ---- names are declared once ----------------------------------------------------------------- */

static void claim(loader *l, vtb_map *taken, const vtb_name *name, int code, const char *what) {
  const vtb_name *other = vtb_map_get(taken, name->text);
  if (!other) {
    vtb_map_set(taken, name->text, (void *)name);
    return;
  }
  l->unit->has_syntax_errors = true;
  vtb_diag_error(l->diags, code, name->span, "%s '%s' is declared twice", what, name->text);
  vtb_diag_note(l->diags, other->span, "first here");
}

static void check_choices(loader *l, const vtb_type_expr *t) {
  vtb_map taken = {0};
  while (t->kind == VTB_TYPE_LIST && t->elem != t) t = t->elem;
  for (size_t i = 0; t->kind == VTB_TYPE_CHOICE && i < t->n_choices; i++) {
    claim(l, &taken, &t->choices[i]->name, VTB_DIAG_REPEATED_CHOICE, "choice");
    for (size_t k = 0; k < t->choices[i]->n_aliases; k++)
      claim(l, &taken, &t->choices[i]->aliases[k], VTB_DIAG_REPEATED_CHOICE, "choice");
  }
  vtb_map_free(&taken);
}

static void check_params(loader *l, const vtb_decl *d) {
  vtb_map taken = {0};
  for (size_t i = 0; i < d->params.n; i++) {
    const vtb_param *param = d->params.at[i];
    claim(l, &taken, &param->name, VTB_DIAG_REPEATED_PARAMETER, "parameter");
    for (size_t k = 0; k < param->n_aliases; k++)
      claim(l, &taken, &param->aliases[k], VTB_DIAG_REPEATED_PARAMETER, "parameter");
    check_choices(l, param->type);
  }
  vtb_map_free(&taken);
}

static void check_names(loader *l, const vtb_file *f) {
  vtb_map taken = {0};
  for (size_t i = 0; i < f->decls.n; i++) {
    const vtb_decl *d = f->decls.at[i];
    claim(l, &taken, &d->name, VTB_DIAG_REPEATED_NAME, "name");
    for (size_t k = 0; k < d->n_aliases; k++)
      claim(l, &taken, &d->aliases[k], VTB_DIAG_REPEATED_NAME, "name");
    check_params(l, d);
  }
  /* Names of used files may be hidden by own ones, but not clash with each other. */
  vtb_map used = {0};
  for (size_t i = 0; i < f->uses.n; i++) {
    const vtb_file *other = f->uses.at[i].file;
    for (size_t k = 0; other && k < other->decls.n; k++) {
      const vtb_decl *d = other->decls.at[k], *first = vtb_map_get(&used, d->name.text);
      if (!vtb__is_used(d)) continue;
      if (!first) {
        vtb_map_set(&used, d->name.text, (void *)d);
      } else if (first->file != other && !vtb_map_has(&taken, d->name.text)) {
        l->unit->has_syntax_errors = true;
        vtb_diag_error(l->diags, VTB_DIAG_AMBIGUOUS_NAME, f->uses.at[i].path.span,
                       "'%s' is declared in two of the files used here", d->name.text);
        vtb_diag_note(l->diags, first->name.span, "one of them");
        vtb_diag_note(l->diags, d->name.span, "the other");
      }
    }
  }
  vtb_map_free(&used);
  vtb_map_free(&taken);
}

/* ---- papers and weights ---------------------------------------------------------------------- */

/* "2406.04303", "cs/0112017", with or without a version. */
static bool is_arxiv(const char *s) {
  static const char digits[] = "0123456789";
  size_t archive = strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-"), more = 0;
  bool old = archive && s[archive] == '/';
  if (old) s += archive + 1;
  size_t first = strspn(s, digits);
  s += first;
  if (!old && *s == '.') s += 1 + (more = strspn(s + 1, digits));
  if (old ? first != 7 : first != 4 || (more != 4 && more != 5)) return false;
  size_t version = *s == 'v' ? strspn(s + 1, digits) : 0;
  return !s[version ? version + 1 : 0];
}

static const vtb_note *note_of(const vtb_file *f, int kind, const vtb_decl *d, size_t n) {
  for (size_t i = 0; i < n; i++)
    if ((int)f->notes.at[i].kind == kind && f->notes.at[i].decl == d &&
        (d || !f->notes.at[i].of.text))
      return &f->notes.at[i];
  return NULL;
}

static void check_note(loader *l, const vtb_file *f, size_t i) {
  vtb_note *n = &f->notes.at[i];
  const char *what = n->kind == VTB_NOTE_PAPER ? "paper" : "weights", *name = n->of.text;
  n->decl = name ? vtb__file_own(f, name) : NULL;
  const vtb_note *first = n->decl || !name ? note_of(f, n->kind, n->decl, i) : NULL;
  if (name && (!n->decl || (n->decl->kind != VTB_DECL_MODEL && n->decl->kind != VTB_DECL_PRESET)))
    vtb_diag_error(l->diags, VTB_DIAG_BAD_NOTE, n->of.span,
                   "%s of '%s', which is no model or preset of this file", what, name);
  else if (n->kind == VTB_NOTE_PAPER && !is_arxiv(n->text))
    vtb_diag_error(l->diags, VTB_DIAG_BAD_NOTE, n->span,
                   "a paper is its number at arXiv, such as \"2406.04303\"");
  else if (first)
    vtb_diag_error(l->diags, VTB_DIAG_BAD_NOTE, n->span, "the %s of %s%s%s is declared twice", what,
                   name ? "'" : "", name ? name : "the file", name ? "'" : "");
  else
    return;
  l->unit->has_syntax_errors = true;
  if (first) vtb_diag_note(l->diags, first->span, "first here");
}

static const char *note_text(const vtb_file *f, int kind, const vtb_decl *d) {
  const vtb_note *n = note_of(f, kind, d, f->notes.n);
  return n ? n->text : NULL;
}

/* ---- units ----------------------------------------------------------------------------------- */

static void add_notes(const vtb_file *f, const vtb_decl *d, vtb_decl_info *info) {
  bool calls = d->kind == VTB_DECL_PRESET && d->value->kind == VTB_EXPR_CALL;
  info->model = calls                       ? d->value->u.call.callee.text
                : d->kind == VTB_DECL_MODEL ? info->name
                                            : NULL;
  info->weights = note_text(f, VTB_NOTE_WEIGHTS, d);
  info->paper = note_text(f, VTB_NOTE_PAPER, d);
  for (int depth = 0; !info->paper && d && d->kind == VTB_DECL_PRESET && depth < 32; depth++) {
    d = d->value->kind == VTB_EXPR_CALL ? vtb__file_own(f, d->value->u.call.callee.text) : NULL;
    info->paper = d ? note_text(f, VTB_NOTE_PAPER, d) : NULL;
  }
  if (!info->paper) info->paper = note_text(f, VTB_NOTE_PAPER, NULL);
}

static void collect_infos(vtb_unit *u) {
  const vtb_file *f = u->files.at[0];
  for (size_t i = 0; i < f->decls.n; i++) {
    const vtb_decl *d = f->decls.at[i];
    vtb_decl_info info = {.kind = d->kind,
                          .name = d->name.text,
                          .alias = d->n_aliases ? d->aliases[0].text : NULL,
                          .doc = d->doc,
                          .span = d->name.span};
    if (d->kind == VTB_DECL_MODEL || d->kind == VTB_DECL_PRESET) add_notes(f, d, &info);
    vtb_vec_push(&u->infos, info);
  }
}

static vtb_unit *load_text(const char *name, char *text, size_t n, const vtb_search *search,
                           vtb_diags *diags) {
  vtb_unit *u = vtb_xcalloc(1, sizeof *u);
  vtb_arena_init(&u->arena);
  loader l = {u, search ? search : vtb_search_default(), diags};
  vtb_file *root = add_file(&l, name, text, n);
  load_uses(&l, root, 0);
  for (size_t i = 0; i < u->files.n; i++) {
    check_names(&l, u->files.at[i]);
    for (size_t k = 0; k < u->files.at[i]->notes.n; k++) check_note(&l, u->files.at[i], k);
  }
  collect_infos(u);
  return u;
}

vtb_unit *vtb_unit_load(const char *path, const vtb_search *search, vtb_diags *diags) {
  char *text = NULL;
  size_t n = 0;
  vtb_error err = {0};
  if (vtb_path_is_dir(path)) vtb_fail(&err, VTB_E_INPUT, "%s is a folder", path);
  if (err.status != VTB_OK || !read_source(search, path, &text, &n, &err)) {
    vtb_diag_error(diags, VTB_DIAG_FILE_UNREADABLE, VTB_NO_SPAN, "%s", err.text);
    return NULL;
  }
  return load_text(path, text, n, search, diags);
}

vtb_unit *vtb_unit_load_text(const char *name, const char *text, size_t n, const vtb_search *search,
                             vtb_diags *diags) {
  if (n > MAX_FILE_BYTES) {
    vtb_diag_error(diags, VTB_DIAG_FILE_UNREADABLE, VTB_NO_SPAN, "%s is larger than %d bytes", name,
                   MAX_FILE_BYTES);
    return NULL;
  }
  char *copy = vtb_xmalloc(n + 1);
  if (n) memcpy(copy, text, n);
  copy[n] = '\0';
  return load_text(name, copy, n, search, diags);
}

void vtb_unit_free(vtb_unit *u) {
  if (!u) return;
  for (size_t i = 0; i < u->files.n; i++) {
    vtb_vec_free(&u->files.at[i]->decls);
    vtb_vec_free(&u->files.at[i]->notes);
    vtb_vec_free(&u->files.at[i]->uses);
    vtb_vec_free(&u->files.at[i]->comments);
  }
  for (size_t i = 0; i < u->texts.n; i++) vtb_free(u->texts.at[i]);
  vtb_vec_free(&u->files);
  vtb_vec_free(&u->texts);
  vtb_vec_free(&u->infos);
  vtb_arena_free(&u->arena);
  vtb_free(u);
}

size_t vtb_unit_decls(const vtb_unit *u, const vtb_decl_info **out) {
  *out = u->infos.at;
  return u->infos.n;
}

const char *vtb_unit_file(const vtb_unit *u, size_t i) {
  return i < u->files.n ? u->files.at[i]->source->path : NULL;
}

vtb_expr *vtb__parse_expr_text(vtb_unit *u, const char *origin, const char *text,
                               vtb_diags *diags) {
  vtb_source *source = VTB_NEW(&u->arena, vtb_source);
  *source = (vtb_source){.path = vtb_arena_strdup(&u->arena, origin),
                         .text = vtb_arena_strdup(&u->arena, text),
                         .n = strlen(text)};
  bool before = u->has_syntax_errors;
  u->has_syntax_errors = false;
  vtb_parse p;
  vtb__parse_begin(&p, u, NULL, source, diags);
  vtb__parse_run(&p, true);
  vtb_expr *e = u->has_syntax_errors ? NULL : p.result;
  vtb__parse_end(&p);
  u->has_syntax_errors = before;
  return e;
}

/* ---- finding a file by what it declares ------------------------------------------------------ */

typedef VTB_VEC(char *) path_vec;

static int by_text(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Every .vtb file under a folder, sorted by path. */
static void list_files(const char *dir, int depth, path_vec *out) {
  DIR *d = depth < MAX_FOLDER_DEPTH ? opendir(dir) : NULL;
  if (!d) return;
  size_t first = out->n;
  path_vec folders = {0};
  for (struct dirent *e; (e = readdir(d));) {
    if (e->d_name[0] == '.') continue;
    vtb_strbuf path = {0};
    vtb_strbuf_printf(&path, "%s%s%s", dir, vtb_ends_with(dir, "/") ? "" : "/", e->d_name);
    if (vtb_path_is_dir(path.at))
      vtb_vec_push(&folders, path.at);
    else if (vtb_ends_with(path.at, ".vtb"))
      vtb_vec_push(out, path.at);
    else
      vtb_strbuf_free(&path);
  }
  closedir(d);
  if (out->n > first) qsort(out->at + first, out->n - first, sizeof *out->at, by_text);
  if (folders.n) qsort(folders.at, folders.n, sizeof *folders.at, by_text);
  for (size_t i = 0; i < folders.n; i++) {
    list_files(folders.at[i], depth + 1, out);
    vtb_free(folders.at[i]);
  }
  vtb_vec_free(&folders);
}

char **vtb_search_files(const vtb_search *s, size_t *n) {
  path_vec files = {0};
  for (size_t i = 0; i < s->n_dirs; i++) list_files(s->dirs[i], 0, &files);
  *n = files.n;
  return files.at;
}

static bool text_mentions(const char *path, const char *name) {
  char *text = NULL;
  size_t n = 0;
  if (!read_source(NULL, path, &text, &n, NULL)) return false;
  bool found = memmem(text, n, name, strlen(name)) != NULL;
  vtb_free(text);
  return found;
}

static bool declares(const vtb_file *f, const char *name) {
  const vtb_decl *d = vtb__file_lookup(f, name);
  return d && d->file == f;
}

/* True if the file at `path` declares it. */
static bool file_declares(const char *path, const char *name) {
  if (!text_mentions(path, name)) return false;
  vtb_diags quiet = {0};
  vtb_unit *u = vtb_unit_load(path, NULL, &quiet);
  bool found = u && declares(u->files.at[0], name);
  vtb_unit_free(u);
  vtb_diags_free(&quiet);
  return found;
}

const char *vtb__file_to_use(vtb_unit *u, const char *name) {
  const vtb_search *search = vtb_search_default();
  const char *found = NULL;
  for (size_t i = 0; i < search->n_dirs && !found; i++) {
    path_vec files = {0};
    const char *folder = vtb_arena_printf(&u->arena, "%s/std", search->dirs[i]);
    list_files(folder, 0, &files);
    for (size_t k = 0; k < files.n; k++) {
      if (!found && file_declares(files.at[k], name)) {
        char *dotted = vtb_arena_strdup(&u->arena, files.at[k] + strlen(search->dirs[i]) + 1);
        dotted[strlen(dotted) - 4] = '\0';
        for (char *c = dotted; *c; c++)
          if (*c == '/') *c = '.';
        found = dotted;
      }
      vtb_free(files.at[k]);
    }
    vtb_vec_free(&files);
  }
  return found;
}

static void suggest_entry(const char *name, const path_vec *files, const vtb_search *search,
                          vtb_diags *diags) {
  VTB_VEC(vtb_unit *) units = {0};
  VTB_VEC(const char *) names = {0};
  for (size_t i = 0; i < files->n; i++) {
    vtb_diags quiet = {0};
    vtb_unit *u = vtb_unit_load(files->at[i], search, &quiet);
    vtb_diags_free(&quiet);
    if (!u) continue;
    vtb_vec_push(&units, u);
    for (size_t k = 0; k < u->files.at[0]->decls.n; k++) {
      const vtb_decl *d = u->files.at[0]->decls.at[k];
      if (d->kind != VTB_DECL_PRESET && d->kind != VTB_DECL_MODEL) continue;
      vtb_vec_push(&names, d->name.text);
      for (size_t a = 0; a < d->n_aliases; a++) vtb_vec_push(&names, d->aliases[a].text);
    }
  }
  const char *near = vtb_suggest(name, names.at, names.n);
  if (near) vtb_diag_help(diags, "did you mean '%s'?", near);
  for (size_t i = 0; i < units.n; i++) vtb_unit_free(units.at[i]);
  vtb_vec_free(&units);
  vtb_vec_free(&names);
}

vtb_unit *vtb_unit_find(const char *name, const vtb_search *search, vtb_diags *diags) {
  if (!search) search = vtb_search_default();
  path_vec files = {0};
  for (size_t i = 0; i < search->n_dirs; i++) list_files(search->dirs[i], 0, &files);
  vtb_unit *found = NULL;
  for (size_t i = 0; i < files.n && !found && *name; i++) {
    if (!text_mentions(files.at[i], name)) continue;
    vtb_diags here = {0};
    vtb_unit *u = vtb_unit_load(files.at[i], search, &here);
    if (u && declares(u->files.at[0], name)) found = vtb_unit_load(files.at[i], search, diags);
    vtb_unit_free(u);
    vtb_diags_free(&here);
  }
  if (!found) {
    vtb_diag_error(diags, VTB_DIAG_UNKNOWN_ENTRY, VTB_NO_SPAN,
                   "no model or preset '%s' in the search folders", name);
    char *file = vtb_strprintf("%s.vtb", name);
    if (is_file(search, file))
      vtb_diag_help(diags, "there is a file %s: a file is named with its ending", file);
    else
      suggest_entry(name, &files, search, diags);
    vtb_free(file);
  }
  for (size_t i = 0; i < files.n; i++) vtb_free(files.at[i]);
  vtb_vec_free(&files);
  return found;
}

char *vtb_unit_declaring(const char *name, vtb_decl_kind kind, const vtb_search *search) {
  if (!search) search = vtb_search_default();
  path_vec files = {0};
  char *found = NULL;
  for (size_t i = 0; i < search->n_dirs; i++) list_files(search->dirs[i], 0, &files);
  for (size_t i = 0; i < files.n; i++) {
    vtb_diags quiet = {0};
    bool may = !found && text_mentions(files.at[i], name);
    vtb_unit *u = may ? vtb_unit_load(files.at[i], search, &quiet) : NULL;
    const vtb_decl *d = u ? vtb__file_own(u->files.at[0], name) : NULL;
    if (d && d->kind == kind) found = vtb_xstrdup(files.at[i]);
    vtb_unit_free(u);
    vtb_diags_free(&quiet);
    vtb_free(files.at[i]);
  }
  vtb_vec_free(&files);
  return found;
}
