/* Messages: "Content-Length: N", a blank line, N bytes of JSON. */
#include "frontend/lsp/server.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_HEADER = 4096, MOST_MESSAGE = 64 << 20, PIECE = 1 << 16 };

/* More bytes behind those that are there; false if none came in the time, or none will. */
static bool read_more(lsp_wire *w, int wait_ms, bool *waited, vtb_error *err) {
  struct pollfd p = {.fd = w->in, .events = POLLIN};
  int ready = poll(&p, 1, wait_ms);
  if (ready < 0 && errno == EINTR) ready = 0;
  if (ready <= 0) {
    *waited = ready == 0;
    if (ready < 0) vtb_fail(err, VTB_E_INPUT, "cannot wait for the editor: %s", strerror(errno));
    return false;
  }
  if (w->n + PIECE > w->cap) {
    w->cap = (w->n + PIECE) * 2;
    w->bytes = vtb_xrealloc(w->bytes, w->cap, 1);
  }
  ssize_t n = read(w->in, w->bytes + w->n, PIECE);
  if (n < 0 && errno == EINTR) return true;
  if (n < 0) vtb_fail(err, VTB_E_INPUT, "cannot read from the editor: %s", strerror(errno));
  w->closed |= n <= 0;
  w->n += n > 0 ? (size_t)n : 0;
  return n > 0;
}

/* The header's bytes, its blank line included, and the length it says; 0: it is not whole yet. */
static size_t header(const lsp_wire *w, size_t *length, vtb_error *err) {
  const char *end = w->n ? memmem(w->bytes, w->n, "\r\n\r\n", 4) : NULL;
  if (!end) {
    if (w->n > MOST_HEADER)
      vtb_fail(err, VTB_E_INPUT, "what comes in is no message of the language server protocol");
    return 0;
  }
  size_t n = (size_t)(end - w->bytes) + 4;
  char *text = vtb_xmalloc(n + 1), *at;
  memcpy(text, w->bytes, n);
  text[n] = '\0';
  at = strcasestr(text, "content-length:");
  char *digits = at ? at + strlen("content-length:") : NULL, *rest = digits;
  unsigned long long value = digits ? strtoull(digits, &rest, 10) : 0;
  if (!digits || rest == digits || value > MOST_MESSAGE)
    vtb_fail(err, VTB_E_INPUT, "a message has no sound Content-Length (at most %d)", MOST_MESSAGE);
  vtb_free(text);
  *length = (size_t)value;
  return n;
}

vtb_status lsp_read(lsp_wire *w, int wait_ms, bool *waited, cJSON **out, vtb_error *err) {
  *out = NULL;
  *waited = false;
  for (;;) {
    size_t length = 0, begin = header(w, &length, err);
    if (err->status != VTB_OK) return err->status;
    if (begin && w->n >= begin + length) {
      if (w->log) fprintf(w->log, "<- %.*s\n", (int)length, w->bytes + begin), fflush(w->log);
      *out = cJSON_ParseWithLength(w->bytes + begin, length);
      w->n -= begin + length;
      memmove(w->bytes, w->bytes + begin + length, w->n);
      if (!*out) *out = vtb_need(cJSON_CreateNull());
      return VTB_OK;
    }
    if (w->closed) return VTB_OK;
    if (!read_more(w, w->n ? -1 : wait_ms, waited, err) && (*waited || err->status != VTB_OK))
      return err->status;
  }
}

static vtb_status write_all(int fd, const char *bytes, size_t n, vtb_error *err) {
  while (n > 0) {
    ssize_t k = write(fd, bytes, n);
    if (k < 0 && errno == EINTR) continue;
    if (k <= 0)
      return vtb_fail(err, VTB_E_INPUT, "cannot write to the editor: %s", strerror(errno));
    bytes += k;
    n -= (size_t)k;
  }
  return VTB_OK;
}

vtb_status lsp_write(lsp_wire *w, cJSON *message, vtb_error *err) {
  char *text = vtb_need(cJSON_PrintUnformatted(message)), head[64];
  size_t n = strlen(text);
  cJSON_Delete(message);
  if (w->log) fprintf(w->log, "-> %s\n", text), fflush(w->log);
  snprintf(head, sizeof head, "Content-Length: %zu\r\n\r\n", n);
  vtb_status status = write_all(w->out, head, strlen(head), err);
  if (status == VTB_OK) status = write_all(w->out, text, n, err);
  cJSON_free(text);
  return status;
}
