/* Which of cublasLt's candidates is fastest here: timed once, and kept in a file a product in the
 * cache folder's `cublaslt`, so that later runs take the same one and sum in the same order.
 *
 *   vertebra-cublaslt-1
 *   NVIDIA H200 9.0 13000 130100 cublasLt: 25216 x 768 x 3072 ...     device, versions, product
 *   0000000000000012 0000000000000000 ...                             the algorithm
 *
 * A file counts only if its algorithm is one of those that the library offers now.
 */
#include "runtime/cuda/device.h"

#include <string.h>

enum { WORDS = sizeof(vtb_lt_algorithm) / 8, REPEATS = 3, LONGEST_FILE = 4096 };
static const char *const first_line = "vertebra-cublaslt-1\n";

/* ---- the cache ------------------------------------------------------------------------------- */

/* NULL where there can be none. */
static char *path_of(const char *key) {
  vtb_strbuf path = VTB_CHECKED_STRBUF;
  char *folder = NULL;
  if (vtb_cache_make("cublaslt", &folder, NULL) != VTB_OK) return NULL;
  vtb_strbuf_printf(&path, "%s/%016llx.txt", folder,
                    (unsigned long long)vtb_hash_str(VTB_HASH_INIT, key));
  vtb_free(folder);
  return path.at;
}

/* The algorithm of a file of this key; false if it is of another or damaged. */
static bool parse(const char *text, const char *key, vtb_lt_algorithm *out) {
  size_t head = strlen(first_line), n = strlen(key);
  if (strncmp(text, first_line, head) != 0 || strncmp(text + head, key, n) != 0 ||
      text[head + n] != '\n')
    return false;
  const char *at = text + head + n + 1;
  for (int i = 0; i < WORDS; i++) {
    char *end;
    out->data[i] = strtoull(at, &end, 16);
    if (end != at + 16 || *end != (i + 1 < WORDS ? ' ' : '\n')) return false;
    at = end + 1;
  }
  return *at == 0;
}

static int find_algorithm(const vtb_lt_choice *choices, int n, const vtb_lt_algorithm *a) {
  for (int i = 0; i < n; i++)
    if (memcmp(&choices[i].algorithm, a, sizeof *a) == 0) return i;
  return -1;
}

/* -1: nothing is kept that can be used. */
static int recall(const char *path, const char *key, const vtb_lt_choice *choices, int n,
                  char note[VTB__LT_NOTE]) {
  char *text = NULL;
  size_t bytes;
  vtb_lt_algorithm kept;
  if (!vtb_path_exists(path) || vtb_file_read(path, LONGEST_FILE, &text, &bytes, NULL) != VTB_OK)
    return -1;
  bool sound = parse(text, key, &kept);
  int at = sound ? find_algorithm(choices, n, &kept) : -1;
  free(text);
  if (at < 0)
    snprintf(note, VTB__LT_NOTE, "%s is ignored: %s; the product is timed again", path,
             sound ? "cublasLt offers that algorithm no more" : "damaged, or of another product");
  return at;
}

static void keep(const char *path, const char *key, const vtb_lt_algorithm *a) {
  vtb_strbuf text = VTB_CHECKED_STRBUF;
  vtb_strbuf_printf(&text, "%s%s\n", first_line, key);
  for (int i = 0; i < WORDS; i++)
    vtb_strbuf_printf(&text, "%016llx%c", (unsigned long long)a->data[i],
                      i + 1 < WORDS ? ' ' : '\n');
  vtb_status kept = text.at ? vtb_file_write_atomic(path, text.at, text.n, NULL) : VTB_E_MEMORY;
  (void)kept; /* without it the next process times again */
  vtb_strbuf_free(&text);
}

/* ---- the clock ------------------------------------------------------------------------------- */

/* Milliseconds of one candidate; negative: it cannot run after all. */
static float time_one(vtb_cuda_device *d, void *const events[2], const vtb_lt_algorithm *a,
                      vtb__trial_fn trial, void *user) {
  vtb_error why = {0};
  float milliseconds = -1;
  vtb_status status = trial(user, a, &why); /* once before it counts */
  if (status == VTB_OK) status = VTB_CU_CALL(d, cuEventRecord, (events[0], d->stream), &why);
  for (int i = 0; i < REPEATS && status == VTB_OK; i++) status = trial(user, a, &why);
  if (status == VTB_OK) status = VTB_CU_CALL(d, cuEventRecord, (events[1], d->stream), &why);
  if (status == VTB_OK) status = VTB_CU_CALL(d, cuEventSynchronize, (events[1]), &why);
  if (status == VTB_OK)
    status = VTB_CU_CALL(d, cuEventElapsedTime, (&milliseconds, events[0], events[1]), &why);
  return status == VTB_OK ? milliseconds : -1;
}

/* The first of the fastest; -1: none could be timed. */
static int time_all(vtb_cuda_device *d, const vtb_lt_choice *choices, int n, vtb__trial_fn trial,
                    void *user) {
  void *events[2] = {NULL, NULL};
  vtb_error why = {0};
  float best = -1;
  int at = -1;
  vtb_status status = VTB_OK;
  for (int i = 0; i < 2 && status == VTB_OK; i++)
    status = VTB_CU_CALL(d, cuEventCreate, (&events[i], VTB__CU_EVENT_DEFAULT), &why);
  for (int i = 0; i < n && status == VTB_OK; i++) {
    float t = time_one(d, events, &choices[i].algorithm, trial, user);
    if (t < 0 || (at >= 0 && t >= best)) continue;
    best = t;
    at = i;
  }
  for (int i = 0; i < 2; i++)
    if (events[i]) (void)d->api.cuEventDestroy_v2(events[i]);
  return at;
}

int vtb__fastest(vtb_cuda_device *d, const char *key, const vtb_lt_choice *choices, int n,
                 vtb__trial_fn trial, void *user, char note[VTB__LT_NOTE]) {
  char *path = path_of(key);
  int at = path ? recall(path, key, choices, n, note) : -1;
  if (at < 0) {
    at = time_all(d, choices, n, trial, user);
    if (at >= 0 && path) keep(path, key, &choices[at].algorithm);
  }
  vtb_free(path);
  return at < 0 ? 0 : at;
}
