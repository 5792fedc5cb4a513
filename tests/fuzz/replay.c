/* A main for fuzzers without libFuzzer: feeds every file of the folders (or files) given, and
 * mutations of them.
 *
 * Mutations are cuts, flipped bytes and repeated pieces from a fixed seed, so a run is repeatable.
 */
#include "runtime/base/base.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static unsigned long long state = 88172645463325252ull;
static size_t below(size_t n) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return n ? (size_t)(state % n) : 0;
}

static void mutate(const char *data, size_t n) {
  for (int round = 0; round < 200; round++) {
    size_t m = below(4) ? n : below(n + 1);
    char *copy = vtb_xmalloc(m + 64);
    memcpy(copy, data, m);
    for (size_t k = below(6); k-- && m;) copy[below(m)] = (char)below(256);
    if (m > 8 && below(3) == 0) {
      size_t from = below(m), len = below(m - from < 32 ? m - from : 32);
      memmove(copy + m, copy + from, len);
      m += len;
    }
    LLVMFuzzerTestOneInput((const uint8_t *)copy, m);
    free(copy);
  }
}

static int run_file(const char *path) {
  char *data;
  size_t n;
  vtb_error err = {0};
  if (vtb_file_read(path, 64u << 20, &data, &n, &err) != VTB_OK) {
    fprintf(stderr, "%s\n", err.text);
    return 1;
  }
  LLVMFuzzerTestOneInput((const uint8_t *)data, n);
  mutate(data, n < 65536 ? n : 65536);
  free(data);
  return 0;
}

static int run_folder(const char *path, int *files) {
  DIR *d = opendir(path);
  if (!d) return 1;
  int status = 0;
  for (struct dirent *e; (e = readdir(d));) {
    if (e->d_name[0] == '.') continue;
    vtb_strbuf file = {0};
    vtb_strbuf_printf(&file, "%s/%s", path, e->d_name);
    status |= run_file(file.at);
    ++*files;
    vtb_strbuf_free(&file);
  }
  closedir(d);
  return status;
}

int main(int argc, char **argv) {
  int status = 0, files = 0;
  LLVMFuzzerTestOneInput((const uint8_t *)"", 0);
  for (int i = 1; i < argc; i++) {
    if (vtb_path_is_dir(argv[i]))
      status |= run_folder(argv[i], &files);
    else
      status |= run_file(argv[i]), files++;
  }
  printf("%d files replayed\n", files);
  return status || !files;
}
