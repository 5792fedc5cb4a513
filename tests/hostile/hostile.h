/* Readers of files that anybody may give, each with 300 damaged forms of a sound file: a reader
 * ends, with a status and a sentence or with success; it does not crash, hang, take more than a
 * gigabyte, or write.
 *
 * The files are written first, then read by a child process that may not write files and has
 * limits of memory and time; its pipe says which file it is at. A child that dies is told with
 * the number of the file, and the next one goes on behind it.
 */
#ifndef VTB_TEST_HOSTILE_H
#define VTB_TEST_HOSTILE_H

#include "tests/hostile/damage.h"
#include "tests/runtime/support.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

enum { HOSTILE_FILES = 300, HOSTILE_SECONDS = 10 };

/* `path` is the damaged file in a folder of its own, `folder` that folder. */
typedef vtb_status (*hostile_reader)(const char *path, const char *folder, vtb_error *err);

typedef struct hostile_format {
  const char *name, *file; /* file: its name in the folder */
  bytes sound;
  hostile_reader read;
  void (*companions)(const char *folder); /* writes what belongs beside it; NULL: nothing */
  int refused; /* so many at least are refused: a reader that takes everything reads nothing */
} hostile_format;

static inline bytes hostile_sample(const char *path) {
  size_t n;
  char *data = read_file(path, &n);
  return (bytes){(unsigned char *)data, n};
}

/* A sound file is its table's, which frees it. */
static inline bytes hostile_copy(const void *data, size_t n) {
  unsigned char *copy = malloc(n);
  if (!copy) exit(1);
  memcpy(copy, data, n);
  return (bytes){copy, n};
}

static inline int hostile_entries(const char *folder) {
  int n = 0;
  DIR *d = opendir(folder);
  while (d && readdir(d)) n++;
  if (d) closedir(d);
  return n;
}

static inline void hostile_path(char *out, size_t size, const hostile_format *f, int i,
                                const char *file) {
  char name[300];
  snprintf(name, sizeof name, "%s/%03d%s%s", f->name, i, *file ? "/" : "", file);
  snprintf(out, size, "%s", temp_path(name));
}

static inline void hostile_write(const hostile_format *f) {
  char folder[512], path[600];
  vtb_error err = {0};
  for (int i = 0; i <= HOSTILE_FILES; i++) { /* the last one is sound */
    bytes b = i < HOSTILE_FILES ? damage_make(&f->sound, f->name, i) : f->sound;
    hostile_path(folder, sizeof folder, f, i, "");
    if (vtb_make_dirs(folder, &err) != VTB_OK) exit(1);
    if (f->companions) f->companions(folder);
    snprintf(path, sizeof path, "%s/%s", folder, f->file);
    if (vtb_make_dirs(folder, &err) != VTB_OK) exit(1);
    write_file(path, b.at, b.n);
    if (i < HOSTILE_FILES) free(b.at);
  }
}

static inline void hostile_limits(void) {
  struct rlimit none = {0, 0};
  setrlimit(RLIMIT_FSIZE, &none);
  setrlimit(RLIMIT_CORE, &none);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  long pages = 0;
  FILE *f = fopen("/proc/self/statm", "r");
  if (!f || fscanf(f, "%ld", &pages) != 1) _exit(1);
  fclose(f);
  rlim_t most = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + ((rlim_t)1 << 30);
  setrlimit(RLIMIT_AS, &(struct rlimit){most, most});
#endif
}

/* What a child says of a file. */
typedef struct hostile_word {
  int file;
  /* '>': begins; 'o': ok; 'r': refused; 's': without a sentence; 'd': "a defect"; 'm': no memory */
  char kind;
  char text[160];
} hostile_word;

static inline void hostile_child(const hostile_format *f, int from, int to_parent) {
  hostile_limits();
  for (int i = from; i <= HOSTILE_FILES; i++) {
    char folder[512], path[600];
    hostile_path(folder, sizeof folder, f, i, "");
    snprintf(path, sizeof path, "%s/%s", folder, f->file);
    hostile_word w = {.file = i, .kind = '>'};
    if (write(to_parent, &w, sizeof w) != sizeof w) _exit(1);
    alarm(HOSTILE_SECONDS);
    vtb_error err = {0};
    vtb_status status = f->read(path, folder, &err);
    alarm(0);
    w.kind = status == VTB_OK           ? 'o'
             : !err.text[0]             ? 's'
             : status == VTB_E_INTERNAL ? 'd'
             : status == VTB_E_MEMORY   ? 'm'
                                        : 'r';
    snprintf(w.text, sizeof w.text, "%.150s", err.text);
    if (write(to_parent, &w, sizeof w) != sizeof w) _exit(1);
  }
  _exit(0);
}

typedef struct hostile_count {
  int ok, refused, wrong, died; /* wrong: without a sentence, as a defect of ours, for memory */
  bool sound_is_read;
} hostile_count;

static inline int hostile_listen(int from_child, hostile_count *n) {
  hostile_word w;
  int at = -1;
  while (read(from_child, &w, sizeof w) == (ssize_t)sizeof w) {
    at = w.file;
    if (w.kind == '>') continue;
    bool sound = w.file == HOSTILE_FILES, wrong = strchr("sdm", w.kind) != NULL;
    if (sound) n->sound_is_read = w.kind == 'o';
    if (wrong || (sound && w.kind != 'o')) fprintf(stderr, "file %d: \"%s\"\n", w.file, w.text);
    n->ok += w.kind == 'o' && !sound;
    n->refused += w.kind == 'r' && !sound;
    n->wrong += wrong;
  }
  return at;
}

/* All damaged forms of one format. */
static inline void hostile_check(const hostile_format *f) {
  hostile_count n = {0};
  char folder[512];
  hostile_write(f);
  hostile_path(folder, sizeof folder, f, 0, "");
  int entries = hostile_entries(folder);
  for (int from = 0; from <= HOSTILE_FILES;) {
    int pipes[2], status = 0;
    if (pipe(pipes) != 0) exit(1);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
      close(pipes[0]);
      hostile_child(f, from, pipes[1]);
    }
    close(pipes[1]);
    int at = hostile_listen(pipes[0], &n);
    close(pipes[0]);
    waitpid(pid, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) break;
    CHECK_MSG(false, "%s, file %d: the reader ended with %s %d", f->name, at,
              WIFSIGNALED(status) ? "signal" : "status",
              WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    if (++n.died > 5) break;
    from = at + 1;
  }
  for (int i = 0; i <= HOSTILE_FILES; i++) {
    hostile_path(folder, sizeof folder, f, i, "");
    CHECK_MSG(hostile_entries(folder) == entries, "%s, file %d: another file beside it", f->name,
              i);
  }
  CHECK_MSG(n.died == 0 && n.wrong == 0, "%s", f->name);
  CHECK_MSG(n.sound_is_read, "%s: the sound file is refused", f->name);
  CHECK_MSG(n.refused >= f->refused, "%s: only %d of %d are refused", f->name, n.refused,
            HOSTILE_FILES);
  printf("%-16s %3d refused, %3d read\n", f->name, n.refused, n.ok);
  char *root = strdup(temp_path(f->name));
  nftw(root, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
  free(root);
}

#endif
