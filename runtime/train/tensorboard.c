/* Event files of TensorBoard. */
#include "runtime/train/tensorboard.h"

#include "runtime/train/events.pb-c.h"

#include <math.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

struct vtb_board {
  FILE *file;
  char *path;
};

uint32_t vtb_board_checksum(const void *bytes, size_t n) {
  const unsigned char *at = bytes;
  uint32_t crc = 0xffffffffu;
  for (size_t i = 0; i < n; i++) {
    crc ^= at[i];
    for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
  }
  crc = ~crc;
  return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

static void put_little(unsigned char *at, uint64_t v, int n) {
  for (int i = 0; i < n; i++) at[i] = (unsigned char)(v >> 8 * i);
}

static double wall_time(void) {
  struct timeval now;
  gettimeofday(&now, NULL);
  return (double)now.tv_sec + 1e-6 * (double)now.tv_usec;
}

/* A record is written by one call. */
static vtb_status put_event(vtb_board *b, VtbBoard__Event *e, vtb_error *err) {
  e->wall_time = wall_time();
  size_t n = vtb_board__event__get_packed_size(e);
  unsigned char *record = malloc(n + 16);
  if (!record) return vtb_no_memory(err, b->path);
  put_little(record, n, 8);
  put_little(record + 8, vtb_board_checksum(record, 8), 4);
  vtb_board__event__pack(e, record + 12);
  put_little(record + 12 + n, vtb_board_checksum(record + 12, n), 4);
  bool good = fwrite(record, 1, n + 16, b->file) == n + 16 && fflush(b->file) == 0;
  free(record);
  return good ? VTB_OK : vtb_file_fail(err, "write", b->path);
}

static vtb_status begin_board(vtb_board *b, int64_t after_step, vtb_error *err) {
  VtbBoard__Event e = VTB_BOARD__EVENT__INIT;
  e.what_case = VTB_BOARD__EVENT__WHAT_FILE_VERSION;
  e.file_version = "brain.Event:2";
  vtb_status status = put_event(b, &e, err);
  if (status != VTB_OK || after_step < 0) return status;
  VtbBoard__SessionLog log = VTB_BOARD__SESSION_LOG__INIT;
  log.status = 1;
  e.step = after_step + 1;
  e.what_case = VTB_BOARD__EVENT__WHAT_SESSION_LOG;
  e.session_log = &log;
  return put_event(b, &e, err);
}

vtb_status vtb_board_open(const char *folder, int64_t after_step, vtb_board **out, vtb_error *err) {
  vtb_status status = vtb_make_dirs(folder, err);
  if (status != VTB_OK) return status;
  vtb_board *b = calloc(1, sizeof *b);
  if (!b) return vtb_no_memory(err, folder);
  b->path = vtb_strprintf("%s/events.out.tfevents.%010lld.%ld", folder, (long long)wall_time(),
                          (long)getpid());
  if (!b->path)
    status = vtb_no_memory(err, folder);
  else if (!(b->file = fopen(b->path, "abx")))
    status = vtb_file_fail(err, "write", b->path);
  if (status == VTB_OK) status = begin_board(b, after_step, err);
  if (status == VTB_OK)
    *out = b;
  else
    vtb_board_close(b);
  return status;
}

void vtb_board_close(vtb_board *b) {
  if (!b) return;
  if (b->file) fclose(b->file);
  free(b->path);
  free(b);
}

vtb_status vtb_board_put(vtb_board *b, int64_t step, const vtb_board_value *values, size_t n,
                         vtb_error *err) {
  VtbBoard__Value *at = calloc(n + 1, sizeof *at), **list = calloc(n + 1, sizeof *list);
  VtbBoard__Summary summary = VTB_BOARD__SUMMARY__INIT;
  VtbBoard__Event e = VTB_BOARD__EVENT__INIT;
  vtb_status status = at && list ? VTB_OK : vtb_no_memory(err, b->path);
  for (size_t i = 0; status == VTB_OK && i < n; i++) {
    if (!isfinite(values[i].value)) continue;
    VtbBoard__Value *v = list[summary.n_value++] = &at[i];
    vtb_board__value__init(v);
    v->tag = (char *)values[i].tag;
    v->simple_value = (float)values[i].value;
  }
  summary.value = list;
  e.step = step;
  e.what_case = VTB_BOARD__EVENT__WHAT_SUMMARY;
  e.summary = &summary;
  if (status == VTB_OK && summary.n_value) status = put_event(b, &e, err);
  free(at);
  free(list);
  return status;
}
