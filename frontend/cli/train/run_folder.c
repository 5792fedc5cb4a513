/* See run_folder.h. */
#include "frontend/cli/train/run_folder.h"
#include "runtime/base/own_file.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define EVENTS "events.out.tfevents."
static const char *const run_files[] = {"checkpoint.safetensors",
                                        "weights.safetensors",
                                        "best.safetensors",
                                        "log.csv",
                                        "log.jsonl",
                                        "run.yaml",
                                        "curve.svg"};
enum { N_FILES = sizeof run_files / sizeof *run_files };

char *run_file(const char *folder, const char *name) {
  vtb_strbuf s = {0};
  vtb_strbuf_printf(&s, "%s%s%s", folder, vtb_ends_with(folder, "/") ? "" : "/", name);
  return s.at;
}

/* The first file of a run that is in the folder; NULL if there is no run in it. */
static const char *held_file(const char *folder) {
  const char *found = NULL;
  for (int i = 0; i < N_FILES && !found; i++) {
    char *path = run_file(folder, run_files[i]);
    if (vtb_path_exists(path)) found = run_files[i];
    vtb_free(path);
  }
  return found;
}

/* ---- the lock -------------------------------------------------------------------------------- */

static long long read_pid(int fd) {
  char text[32] = "";
  return pread(fd, text, sizeof text - 1, 0) > 0 ? atoll(text) : 0;
}

static vtb_status take_lock(run_folder *f, vtb_error *err) {
  char *path = run_file(f->path, RUN_LOCK_FILE), text[32];
  f->locked_new = !vtb_path_exists(path);
  vtb_status status = vtb_file_open_own(path, 0666, &f->lock, err);
  if (status != VTB_OK) {
    f->lock = -1;
  } else if (flock(f->lock, LOCK_EX | LOCK_NB) != 0) {
    status = errno == EWOULDBLOCK
                 ? vtb_fail(err, VTB_E_INPUT,
                            "process %lld writes into %s: wait until it is done, or give this run "
                            "another --out",
                            read_pid(f->lock), f->path)
                 : vtb_file_fail(err, "lock", path);
    close(f->lock);
    f->lock = -1;
  } else { /* who it is: for messages only */
    int n = snprintf(text, sizeof text, "%lld\n", (long long)getpid());
    if (ftruncate(f->lock, 0) == 0) (void)!pwrite(f->lock, text, (size_t)n, 0);
  }
  vtb_free(path);
  return status;
}

/* ---- what killed writers left ---------------------------------------------------------------- */

/* "checkpoint.safetensors.tmp-0123abcd" */
static bool is_half_written(const char *name) {
  for (int i = 0; i < N_FILES; i++) {
    const char *rest = name + strlen(run_files[i]);
    if (vtb_starts_with(name, run_files[i]) && vtb_starts_with(rest, ".tmp-") &&
        strlen(rest) == 13 && strspn(rest + 5, "0123456789abcdef") == 8)
      return true;
  }
  return false;
}

static void remove_half_written(const run_folder *f) {
  DIR *d = opendir(f->path);
  if (!d) return;
  for (struct dirent *e; (e = readdir(d));) {
    if (!is_half_written(e->d_name)) continue;
    char *path = run_file(f->path, e->d_name);
    if (unlink(path) == 0)
      cli_say("removed %s, which a run that was killed left half written\n", path);
    vtb_free(path);
  }
  closedir(d);
}

/* ---- entering -------------------------------------------------------------------------------- */

/* The last part of a path without its ending, of characters that are fine in a name. */
static void put_name(vtb_strbuf *out, const char *text) {
  size_t n = strlen(text), from;
  while (n > 1 && text[n - 1] == '/') n--;
  for (from = n; from > 0 && text[from - 1] != '/'; from--) {
  }
  if (n - from > 4 && strncmp(text + n - 4, ".vtb", 4) == 0) n -= 4;
  if (n - from > 3 && strncmp(text + n - 3, ".so", 3) == 0) n -= 3;
  for (size_t i = from; i < n; i++)
    vtb_strbuf_putc(out, isalnum((unsigned char)text[i]) || strchr("._-", text[i]) ? text[i] : '-');
}

/* Bytes of the path up to the deepest folder that is there; 0: none. */
static size_t existing_part(const char *path) {
  char *copy = vtb_xstrdup(path);
  size_t n = strlen(copy);
  while (n > 0 && !vtb_path_exists(copy)) {
    while (n > 0 && copy[n - 1] == '/') n--;
    while (n > 0 && copy[n - 1] != '/') n--;
    copy[n] = 0;
  }
  vtb_free(copy);
  return n;
}

/* A folder that did not exist. */
static vtb_status make_new(run_folder *f, const char *model, const char *data, vtb_error *err) {
  vtb_strbuf name = {0};
  char date[32];
  time_t now = time(NULL);
  struct tm tm;
  int i = 1;
  strftime(date, sizeof date, "%Y%m%d-%H%M%S", localtime_r(&now, &tm));
  f->old = existing_part("runs");
  if (f->old) f->old = strlen("runs/");
  vtb_status status = vtb_make_dirs("runs", err);
  for (bool made = false; status == VTB_OK && !made; i++) {
    name.n = 0;
    vtb_strbuf_puts(&name, "runs/");
    put_name(&name, model);
    vtb_strbuf_putc(&name, '-');
    put_name(&name, data);
    vtb_strbuf_printf(&name, "-%s", date);
    if (i > 1) vtb_strbuf_printf(&name, "-%d", i);
    made = mkdir(name.at, 0777) == 0;
    if (!made && errno != EEXIST) status = vtb_file_fail(err, "make the folder", name.at);
  }
  f->path = name.at;
  f->is_new = status == VTB_OK;
  return status;
}

static vtb_status refuse_second(const run_folder *f, run_entry entry, vtb_error *err) {
  const char *held = held_file(f->path);
  if (!held || entry != RUN_NEW) return VTB_OK;
  return vtb_fail(err, VTB_E_INPUT,
                  "%s holds a run (%s): --resume goes on with it, --overwrite replaces it, another "
                  "--out leaves it alone",
                  f->path, held);
}

static void name_files(run_folder *f) {
  f->checkpoint = run_file(f->path, "checkpoint.safetensors");
  f->weights = run_file(f->path, "weights.safetensors");
  f->best = run_file(f->path, "best.safetensors");
  f->log = run_file(f->path, "log");
  f->curve = run_file(f->path, "curve.svg");
  f->record = run_file(f->path, "run.yaml");
  f->sources = run_file(f->path, "model");
  f->tensorboard = run_file(f->path, "tensorboard");
}

void run_folder_follow(run_folder *f, const char *path) {
  *f = (run_folder){.lock = -1, .path = vtb_xstrdup(path)};
  name_files(f);
}

vtb_status run_folder_enter(run_folder *f, const char *path, const char *model, const char *data,
                            run_entry entry, vtb_error *err) {
  *f = (run_folder){.lock = -1};
  vtb_status status = VTB_OK;
  if (path) {
    f->path = vtb_xstrdup(path);
    f->old = existing_part(path);
    f->is_new = f->old < strlen(path);
    status = vtb_make_dirs(path, err);
  } else {
    status = make_new(f, model, data, err);
  }
  if (status == VTB_OK) status = take_lock(f, err);
  if (status == VTB_OK) status = refuse_second(f, entry, err);
  if (status != VTB_OK) return status;
  remove_half_written(f);
  name_files(f);
  return VTB_OK;
}

/* The lock's file and the folders that were made for it, as far as they are empty. */
static void take_away(const run_folder *f) {
  char *path = run_file(f->path, RUN_LOCK_FILE);
  size_t n = strlen(path);
  bool gone = unlink(path) == 0;
  while (gone) {
    while (n > 0 && path[n - 1] != '/') n--;
    while (n > 0 && path[n - 1] == '/') n--;
    path[n] = 0;
    gone = n > f->old && rmdir(path) == 0;
  }
  vtb_free(path);
}

void run_folder_leave(run_folder *f, bool written) {
  if (f->path && f->lock >= 0 && f->locked_new && !written && !held_file(f->path)) take_away(f);
  if (f->path && f->lock >= 0) close(f->lock);
  char *const paths[] = {f->path,  f->checkpoint, f->weights, f->best,       f->log,
                         f->curve, f->record,     f->sources, f->tensorboard};
  for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) vtb_free(paths[i]);
  *f = (run_folder){.lock = -1};
}

/* ---- clearing -------------------------------------------------------------------------------- */

/* Files below a folder that a run has written there: sources and event files; then the folder, if
 * nothing else is in it. */
static void clear_below(const char *folder, int depth) {
  DIR *d = depth < 8 ? opendir(folder) : NULL;
  if (!d) return;
  for (struct dirent *e; (e = readdir(d));) {
    if (e->d_name[0] == '.') continue;
    char *path = run_file(folder, e->d_name);
    if (vtb_path_is_dir(path))
      clear_below(path, depth + 1);
    else if (vtb_ends_with(path, ".vtb") || vtb_starts_with(e->d_name, EVENTS))
      unlink(path);
    vtb_free(path);
  }
  closedir(d);
  rmdir(folder);
}

vtb_status run_folder_clear(const run_folder *f, vtb_error *err) {
  vtb_status status = VTB_OK;
  for (int i = 0; i < N_FILES; i++) {
    char *path = run_file(f->path, run_files[i]);
    if (unlink(path) != 0 && errno != ENOENT && status == VTB_OK)
      status = vtb_file_fail(err, "remove", path);
    vtb_free(path);
  }
  clear_below(f->sources, 0);
  clear_below(f->tensorboard, 0);
  return status;
}
