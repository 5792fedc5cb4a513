/* Names and texts that come out of others' files. */
#include "runtime/base/utf8.h"
#include "runtime/weights/checkpoint.h"

#include <string.h>

enum { MOST_NAME = 500 };

void vtb__say(vtb_strbuf *said, const char *fmt, ...) {
  va_list ap;
  if (!said) return;
  va_start(ap, fmt);
  vtb_strbuf_vprintf(said, fmt, ap);
  va_end(ap);
  vtb_strbuf_putc(said, '\n');
}

bool vtb__good_text(const char *at, size_t n) {
  return vtb_utf8_check(at, n) == n && !memchr(at, 0, n);
}

bool vtb__good_name(const char *at, size_t n) {
  for (size_t i = 0; i < n; i++)
    if ((unsigned char)at[i] < ' ' || at[i] == 0x7f) return false;
  return n <= MOST_NAME && vtb__good_text(at, n);
}

/* ---- what wrappers put before names ---------------------------------------------------------- */

/* torch.nn.DataParallel, torch.compile, training loops, detectors */
static const char *const wrappings[] = {"module.", "_orig_mod.", "model.", "backbone."};

/* The count of models that an average is of: torch.optim.swa_utils.AveragedModel */
static bool is_count(const char *name) { return vtb_streq(name, "n_averaged"); }

/* The wrapping that all names have after `skip` characters; NULL: none. */
static const char *common_wrapping(const vtb_weights *w, size_t skip) {
  for (size_t k = 0; k < sizeof wrappings / sizeof *wrappings; k++) {
    size_t n = 0, length = strlen(wrappings[k]);
    for (size_t i = 0; i < w->n; i++) {
      const char *name = w->at[i]->name;
      if (is_count(name)) continue;
      if (strncmp(name + skip, wrappings[k], length) != 0 || !name[skip + length]) break;
      n++;
    }
    size_t counts = vtb_weights_find(w, "n_averaged") != NULL;
    if (n && n + counts == w->n) return wrappings[k];
  }
  return NULL;
}

static void release(void *w) { vtb_weights_free(w); }

/* The same tensors and metadata, their names without the first `skip` characters. */
static vtb_weights *shorten(vtb_weights *w, size_t skip) {
  vtb_weights *to = vtb_weights_new();
  if (!to) return NULL;
  for (size_t i = 0; i < w->n; i++) {
    const vtb_weight *t = w->at[i];
    if (!is_count(t->name))
      (void)vtb_weights_borrow(to, t->name + skip, t->elem, t->rank, t->dim, t->data);
  }
  for (size_t i = 0; i < w->meta.n; i++)
    vtb_weights_set_meta(to, w->meta.at[i].key, w->meta.at[i].value);
  return to;
}

vtb_status vtb__unwrap_names(vtb_weights **w, vtb_strbuf *said, vtb_error *err) {
  const char *format = vtb_weights_meta(*w, "format"), *wrapping;
  size_t skip = 0, counts = vtb_weights_find(*w, "n_averaged") != NULL;
  if (format && vtb_starts_with(format, "vertebra-")) return VTB_OK;
  while ((wrapping = common_wrapping(*w, skip))) {
    vtb__say(said, "took \"%s\" off the names of all %zu tensors%s", wrapping, (*w)->n - counts,
             counts && !skip ? " and left out \"n_averaged\", the count of an average" : "");
    skip += strlen(wrapping);
  }
  if (!skip) return VTB_OK;
  vtb_weights *short_names = shorten(*w, skip);
  if (!short_names) return vtb_no_memory(err, "names of tensors");
  if (!vtb_weights_keep(short_names, *w, release)) *w = NULL;
  vtb_status status = *w ? VTB_OK : VTB_E_MEMORY;
  if (short_names->error.text[0])
    status = vtb_fail(err, short_names->error.status, "%s", short_names->error.text);
  *w = short_names;
  return status;
}
