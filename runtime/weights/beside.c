/* Metadata beside tensors: beside.h.
 *
 * Preprocessing as folders of Hugging Face describe it is preprocessor_config.json of transformers,
 * or "pretrained_cfg" in timm's config.json. Its resizing is one of ours: an edge "shortest_edge"
 * keeps proportions (crop), a height and width or one number do not (squash). The part that is kept
 * is crop_size / size, or crop_pct. */
#include "runtime/base/json.h"
#include "runtime/base/prepare.h"
#include "runtime/weights/beside.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Members that are not there are NULL, and so are theirs. */
static const vtb_json *get(const vtb_json *o, const char *key) {
  return o ? vtb_json_member(o, key) : NULL;
}

static bool is_a(const vtb_json *v, vtb_json_kind kind) { return v && v->kind == kind; }

/* A number, or that of an object's member. */
static double number_of(const vtb_json *v, const char *member) {
  if (is_a(v, VTB_JSON_OBJECT)) v = get(v, member);
  return is_a(v, VTB_JSON_NUMBER) ? v->number : NAN;
}

static bool is_on(const vtb_json *o, const char *key, bool otherwise) {
  const vtb_json *v = get(o, key);
  return is_a(v, VTB_JSON_BOOL) ? v->number != 0 : otherwise;
}

/* Three numbers, or one for all; false: it does not say. */
static bool channels_of(const vtb_json *v, double out[3]) {
  const vtb_json *x = is_a(v, VTB_JSON_ARRAY) ? v->first : v;
  int n = 0;
  for (; is_a(x, VTB_JSON_NUMBER) && n < 3; x = x == v ? NULL : x->next) out[n++] = x->number;
  if (x || (n != 1 && n != 3)) return false;
  if (n == 1) out[1] = out[2] = out[0];
  return true;
}

static void set_channels(const vtb_preparation *p, const double x[3], float out[3]) {
  for (int c = 0; c < 3; c++) out[c] = (float)(p->channels == 1 ? (x[0] + x[1] + x[2]) / 3 : x[c]);
}

static void read_moments(vtb_preparation *p, const vtb_json *mean, const vtb_json *std,
                         double scale) {
  double m[3], s[3];
  if (channels_of(mean, m)) {
    for (int c = 0; c < 3; c++) m[c] /= scale;
    set_channels(p, m, p->mean);
    p->given |= VTB_PREPARE_MEAN;
  }
  if (channels_of(std, s)) {
    for (int c = 0; c < 3; c++) s[c] /= scale;
    set_channels(p, s, p->std);
    p->given |= VTB_PREPARE_STD;
  }
}

/* The share of `size` that `part` is: floor(part / share) is size again. */
static double share_of(double part, double size) {
  double share = part / size;
  for (int i = 0; i < 4 && floor(part / share) < size; i++) share = nextafter(share, 0);
  return share;
}

static void read_resizing(vtb_preparation *p, const vtb_json *o) {
  static const vtb_filter filters[] = {VTB_FILTER_NEAREST, VTB_FILTER_LANCZOS, VTB_FILTER_BILINEAR,
                                       VTB_FILTER_BICUBIC, VTB_FILTER_BOX,     VTB_FILTER_HAMMING};
  const vtb_json *size = get(o, "size"), *resample = get(o, "resample");
  double side = number_of(size, "height"), shortest = number_of(size, "shortest_edge");
  double cut = number_of(get(o, "crop_size"), "height"), share = number_of(get(o, "crop_pct"), "");
  if (is_a(resample, VTB_JSON_NUMBER) && resample->number >= 0 && resample->number < 6) {
    p->filter = filters[(int)resample->number];
    p->given |= VTB_PREPARE_FILTER;
  }
  if (!is_on(o, "do_resize", true)) return;
  bool keeps = is_a(size, VTB_JSON_OBJECT) ? isfinite(shortest) : share > 0;
  if (keeps && is_a(size, VTB_JSON_OBJECT)) side = shortest;
  if (!(side > 0)) return;
  p->resize = keeps ? VTB_RESIZE_CROP : VTB_RESIZE_SQUASH;
  p->crop = 1;
  if (is_on(o, "do_center_crop", isfinite(cut)) && cut > 0 && cut < side)
    p->crop = share_of(cut, side);
  else if (share > 0)
    p->crop = share;
  p->given |= VTB_PREPARE_RESIZE | VTB_PREPARE_CROP;
}

static void read_preprocessor(vtb_preparation *p, const vtb_json *o) {
  static const double zeros[3] = {0, 0, 0}, ones[3] = {1, 1, 1};
  read_resizing(p, o);
  const vtb_json *factor = get(o, "rescale_factor");
  double f = is_a(factor, VTB_JSON_NUMBER) ? factor->number : 1.0 / 255;
  if (!is_on(o, "do_rescale", true)) f = 1;
  if (is_on(o, "do_normalize", true)) {
    /* (x * f - mean) / std of x from 0 to 255 is ours of x / 255 with both divided by 255 f; most
     * factors are 1 / 255 in as many digits as there were */
    double scale = 255 * f;
    read_moments(p, get(o, "image_mean"), get(o, "image_std"), fabs(scale - 1) < 1e-6 ? 1 : scale);
    return;
  }
  set_channels(p, zeros, p->mean);
  set_channels(p, ones, p->std);
  for (int c = 0; c < 3; c++) p->std[c] /= (float)(255 * f);
  p->given |= VTB_PREPARE_MEAN | VTB_PREPARE_STD;
}

static void read_timm(vtb_preparation *p, const vtb_json *o) {
  static const char *const modes[] = {"center", "squash", "border"};
  const vtb_json *filter = get(o, "interpolation"), *mode = get(o, "crop_mode"),
                 *share = get(o, "crop_pct");
  if (is_a(share, VTB_JSON_NUMBER)) p->crop = share->number, p->given |= VTB_PREPARE_CROP;
  if (is_a(filter, VTB_JSON_STRING) && vtb_filter_find(filter->text, &p->filter))
    p->given |= VTB_PREPARE_FILTER;
  for (int m = 0; m < VTB_RESIZE_MODES && is_a(mode, VTB_JSON_STRING); m++)
    if (strcmp(mode->text, modes[m]) == 0)
      p->resize = (vtb_resize_mode)m, p->given |= VTB_PREPARE_RESIZE;
  read_moments(p, get(o, "mean"), get(o, "std"), 1);
}

static vtb_status parse(const char *text, const char *name, vtb_arena *arena, const vtb_json **out,
                        vtb_error *err) {
  bool no_memory = false;
  size_t n = text ? strlen(text) : 0, at = 0;
  *out = text ? vtb_json_parse(text, n, arena, &no_memory, &at) : NULL;
  if (no_memory) return vtb_no_memory(err, name);
  if (!text || (is_a(*out, VTB_JSON_OBJECT) && at == n)) return VTB_OK;
  return vtb_fail(err, VTB_E_INPUT, "%s beside the weights is no JSON object", name);
}

vtb_status vtb_prepare_hf(vtb_preparation *p, const char *preprocessor, const char *config,
                          vtb_error *err) {
  const vtb_json *a = NULL, *b = NULL;
  vtb_preparation made = *p;
  vtb_error inner = {0};
  vtb_arena arena;
  vtb_arena_init(&arena);
  vtb_status status = parse(config, "config.json", &arena, &a, err);
  if (status == VTB_OK) status = parse(preprocessor, "preprocessor_config.json", &arena, &b, err);
  if (status == VTB_OK && is_a(get(a, "pretrained_cfg"), VTB_JSON_OBJECT))
    read_timm(&made, get(a, "pretrained_cfg"));
  if (status == VTB_OK && b) read_preprocessor(&made, b);
  if (status == VTB_OK && vtb_preparation_check(&made, &inner) != VTB_OK)
    status = vtb_fail(err, VTB_E_INPUT, "%s beside the weights: %s",
                      b ? "preprocessor_config.json" : "config.json", inner.text);
  vtb_arena_free(&arena);
  if (status == VTB_OK) *p = made;
  return status;
}

vtb_status vtb_prepare_keep(vtb_weights *w, int channels, vtb_error *err) {
  const char *beside = vtb_weights_meta(w, "hf.preprocessor"),
             *config = vtb_weights_meta(w, "hf.config");
  if ((!beside && !config) || (channels != 1 && channels != 3)) return VTB_OK;
  vtb_preparation p = vtb_preparation_default(channels, 1, 1);
  VTB_TRY(vtb_prepare_hf(&p, beside, config, err));
  VTB_TRY(vtb_preparation_read_meta(&p, vtb_weights_meta(w, VTB_META_PREPARE),
                                    vtb_weights_meta(w, "mean"), vtb_weights_meta(w, "std"),
                                    "the weights", err));
  vtb_strbuf text = VTB_CHECKED_STRBUF;
  vtb_preparation_write(&p, p.given, &text);
  vtb_status status = vtb_strbuf_check(&text, err);
  if (status == VTB_OK && p.given) vtb_weights_set_meta(w, VTB_META_PREPARE, text.at);
  vtb_strbuf_free(&text);
  return status == VTB_OK && w->error.text[0] ? vtb_fail(err, w->error.status, "%s", w->error.text)
                                              : status;
}

/* ---- classes --------------------------------------------------------------------------------- */

/* {"0": "tench", "1": "goldfish"} as names by their numbers; 0: it is no such thing, or names
 * nothing ("LABEL_0"); -1: no memory. */
static int names_by_number(const vtb_json *id2label, vtb_arena *arena, const char ***out) {
  int n = 0;
  bool named = false;
  if (!is_a(id2label, VTB_JSON_OBJECT)) return 0;
  for (const vtb_json *v = id2label->first; v; v = v->next) n++;
  const char **names = *out = vtb_arena_try(arena, (size_t)n + 1, sizeof *names);
  if (!names) return -1;
  for (const vtb_json *v = id2label->first; v; v = v->next) {
    char *end = NULL;
    long at = strtol(v->key, &end, 10);
    if (at < 0 || at >= n || !*v->key || *end || !is_a(v, VTB_JSON_STRING) || names[at]) return 0;
    names[at] = v->text;
    named |= !vtb_starts_with(v->text, "LABEL_");
  }
  return named ? n : 0;
}

/* A list of texts; 0: it is none; -1: no memory. */
static int names_in_order(const vtb_json *list, vtb_arena *arena, const char ***out) {
  int n = 0;
  if (!is_a(list, VTB_JSON_ARRAY)) return 0;
  for (const vtb_json *v = list->first; v; v = v->next, n++)
    if (!is_a(v, VTB_JSON_STRING)) return 0;
  const char **names = *out = vtb_arena_try(arena, (size_t)n + 1, sizeof *names);
  if (!names) return -1;
  n = 0;
  for (const vtb_json *v = list->first; v; v = v->next) names[n++] = v->text;
  return n;
}

vtb_status vtb_classes_keep(vtb_weights *w, vtb_error *err) {
  const char *text = vtb_weights_meta(w, "classes") ? NULL : vtb_weights_meta(w, "hf.config");
  const vtb_json *config = NULL;
  const char **names = NULL;
  vtb_arena arena;
  if (!text) return VTB_OK;
  vtb_arena_init(&arena);
  vtb_strbuf list = VTB_CHECKED_STRBUF;
  vtb_status status = parse(text, "config.json", &arena, &config, err);
  int n = status == VTB_OK ? names_by_number(get(config, "id2label"), &arena, &names) : 0;
  if (!n && status == VTB_OK) n = names_in_order(get(config, "label_names"), &arena, &names);
  for (int i = 0; i < n; i++) {
    vtb_strbuf_putc(&list, i ? ',' : '[');
    vtb_strbuf_json(&list, names[i]);
  }
  vtb_strbuf_putc(&list, ']');
  if (status == VTB_OK)
    status = n < 0 ? vtb_no_memory(err, "classes") : vtb_strbuf_check(&list, err);
  if (status == VTB_OK && n) vtb_weights_set_meta(w, "classes", list.at);
  vtb_strbuf_free(&list);
  vtb_arena_free(&arena);
  if (status == VTB_E_INPUT) status = VTB_OK; /* who asks for more of the text says what is wrong */
  return status == VTB_OK && w->error.text[0] ? vtb_fail(err, w->error.status, "%s", w->error.text)
                                              : status;
}

/* ---- settings -------------------------------------------------------------------------------- */

bool vtb_image_said(const vtb_weights *w, int *height, int *width) {
  const char *text = vtb_weights_meta(w, "defines");
  bool no_memory = false, found = false;
  size_t at = 0;
  vtb_arena arena;
  vtb_arena_init(&arena);
  const vtb_json *list = text ? vtb_json_parse(text, strlen(text), &arena, &no_memory, &at) : NULL;
  for (const vtb_json *v = is_a(list, VTB_JSON_ARRAY) ? list->first : NULL; v; v = v->next)
    found |= is_a(v, VTB_JSON_STRING) && sscanf(v->text, "image=%dx%d", height, width) == 2;
  vtb_arena_free(&arena);
  return found;
}
