/* Preparations as text: the metadata "prepare" of weights and built files. */
#include "runtime/base/json.h"
#include "runtime/image/prepare.h"

#include <stdlib.h>
#include <string.h>

typedef struct reading {
  vtb_preparation p;
  const char *from; /* where the text stood */
  vtb_error *err;
} reading;

static vtb_status bad(const reading *r, const char *key, const char *what) {
  return vtb_fail(r->err, VTB_E_INPUT, "%s: \"%s\" of \"prepare\" is not %s", r->from, key, what);
}

/* One number for all channels, or one each; of gray input the average. */
static vtb_status read_channels(const reading *r, const vtb_json *v, float out[3]) {
  double x[3], sum = 0;
  int n = 0;
  bool list = v->kind == VTB_JSON_ARRAY;
  const vtb_json *at = list ? v->first : v;
  for (; at && n < 3 && at->kind == VTB_JSON_NUMBER; at = list ? at->next : NULL)
    sum += x[n++] = at->number;
  if (at || (n != 1 && n != 3)) return VTB_E_INPUT;
  for (int c = 0; c < 3; c++) out[c] = (float)(n == 1 ? x[0] : r->p.channels == 1 ? sum / 3 : x[c]);
  return VTB_OK;
}

static const struct {
  const char *key;
  unsigned flag;
} fields[] = {{"crop", VTB_PREPARE_CROP},
              {"resize", VTB_PREPARE_RESIZE},
              {"filter", VTB_PREPARE_FILTER},
              {"mean", VTB_PREPARE_MEAN},
              {"std", VTB_PREPARE_STD}};

static unsigned field_flag(const char *key) {
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
    if (vtb_streq(key, fields[i].key)) return fields[i].flag;
  return 0;
}

static vtb_status read_field(reading *r, const vtb_json *v) {
  unsigned flag = field_flag(v->key);
  const char *word = v->kind == VTB_JSON_STRING ? v->text : "";
  switch (flag) {
  case VTB_PREPARE_CROP:
    if (v->kind != VTB_JSON_NUMBER) return bad(r, v->key, "a number");
    r->p.crop = v->number;
    break;
  case VTB_PREPARE_RESIZE:
    if (!vtb_resize_mode_find(word, &r->p.resize)) return bad(r, v->key, "crop, squash or pad");
    break;
  case VTB_PREPARE_FILTER:
    if (!vtb_filter_find(word, &r->p.filter)) return bad(r, v->key, "the name of a filter");
    break;
  case VTB_PREPARE_MEAN:
  case VTB_PREPARE_STD:
    if (read_channels(r, v, flag == VTB_PREPARE_MEAN ? r->p.mean : r->p.std) != VTB_OK)
      return bad(r, v->key, "one number or three");
    break;
  default:
    return vtb_fail(r->err, VTB_E_INPUT, "%s: \"prepare\" has an unknown field \"%s\"", r->from,
                    v->key);
  }
  r->p.given |= flag;
  return VTB_OK;
}

static vtb_status check_reading(const reading *r) {
  vtb_error inner = {0};
  vtb_status status = vtb_preparation_check(&r->p, &inner);
  return status == VTB_OK ? VTB_OK : vtb_fail(r->err, status, "%s: %s", r->from, inner.text);
}

static vtb_status read_object(reading *r, const vtb_json *object) {
  vtb_status status = VTB_OK;
  for (const vtb_json *v = object->first; v && status == VTB_OK; v = v->next)
    status = read_field(r, v);
  return status == VTB_OK ? check_reading(r) : status;
}

vtb_status vtb_preparation_read(vtb_preparation *p, const char *text, const char *from,
                                vtb_error *err) {
  reading r = {.p = *p, .from = from, .err = err};
  vtb_arena arena;
  bool no_memory = false;
  size_t n = strlen(text), at = 0;
  vtb_arena_init(&arena);
  const vtb_json *root = vtb_json_parse(text, n, &arena, &no_memory, &at);
  vtb_status status;
  if (no_memory)
    status = vtb_no_memory(err, from);
  else if (!root || at < n || root->kind != VTB_JSON_OBJECT)
    status = vtb_fail(err, VTB_E_INPUT, "%s: \"prepare\" is no JSON object", from);
  else
    status = read_object(&r, root);
  vtb_arena_free(&arena);
  if (status == VTB_OK) *p = r.p;
  return status;
}

/* ---- older metadata -------------------------------------------------------------------------- */

/* "0.5,0.5,0.5": of gray input only the first counts. */
static vtb_status read_moments(reading *r, const char *key, const char *text, float out[3]) {
  const char *at = text;
  int n = 0;
  for (; n < 3; n++) {
    char *end;
    float x = strtof(at, &end);
    if (end == at || (*end && *end != ',')) break;
    out[n] = x;
    at = *end ? end + 1 : end;
  }
  if (n >= r->p.channels && !*at) return VTB_OK;
  return vtb_fail(r->err, VTB_E_INPUT,
                  "%s: its \"%s\" is '%s', not a number for each of %d channel%s", r->from, key,
                  text, r->p.channels, r->p.channels == 1 ? "" : "s");
}

vtb_status vtb_preparation_read_meta(vtb_preparation *p, const char *prepare, const char *mean,
                                     const char *std, const char *from, vtb_error *err) {
  reading r = {.p = *p, .from = from, .err = err};
  if (prepare) return vtb_preparation_read(p, prepare, from, err);
  if (!mean && !std) return VTB_OK;
  vtb_status status = VTB_OK;
  r.p.crop = 1, r.p.resize = VTB_RESIZE_CROP, r.p.filter = VTB_FILTER_BICUBIC;
  r.p.given |= VTB_PREPARE_CROP | VTB_PREPARE_RESIZE | VTB_PREPARE_FILTER;
  if (mean) status = read_moments(&r, "mean", mean, r.p.mean), r.p.given |= VTB_PREPARE_MEAN;
  if (std && status == VTB_OK)
    status = read_moments(&r, "std", std, r.p.std), r.p.given |= VTB_PREPARE_STD;
  if (status == VTB_OK) status = check_reading(&r);
  if (status == VTB_OK) *p = r.p;
  return status;
}

/* ---- writing --------------------------------------------------------------------------------- */

static void write_channels(const float *x, int n, vtb_strbuf *out) {
  vtb_strbuf_putc(out, '[');
  for (int c = 0; c < n; c++) {
    if (c) vtb_strbuf_puts(out, ", ");
    vtb_strbuf_float(out, x[c]);
  }
  vtb_strbuf_putc(out, ']');
}

void vtb_preparation_write(const vtb_preparation *p, unsigned which, vtb_strbuf *out) {
  const char *before = "";
  vtb_strbuf_putc(out, '{');
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
    if (!(which & fields[i].flag)) continue;
    vtb_strbuf_puts(out, before);
    vtb_strbuf_json(out, fields[i].key);
    vtb_strbuf_puts(out, ": ");
    before = ", ";
    if (fields[i].flag == VTB_PREPARE_CROP)
      vtb_strbuf_double(out, p->crop);
    else if (fields[i].flag == VTB_PREPARE_RESIZE)
      vtb_strbuf_json(out, vtb_resize_mode_name(p->resize));
    else if (fields[i].flag == VTB_PREPARE_FILTER)
      vtb_strbuf_json(out, vtb_filter_name(p->filter));
    else
      write_channels(fields[i].flag == VTB_PREPARE_MEAN ? p->mean : p->std, p->channels, out);
  }
  vtb_strbuf_putc(out, '}');
}
