/* Preprocessing as folders of Hugging Face describe it: preprocessor_config.json of transformers,
 * "pretrained_cfg" in timm's config.json.
 *
 * Its resizing is one of ours: an edge "shortest_edge" keeps proportions (crop), a height and width
 * or one number do not (squash). The part that is kept is crop_size / size, or crop_pct. */
#include "frontend/compile/weights.h"

#include <cjson/cJSON.h>

#include <math.h>
#include <string.h>

/* A number, or that of an object's member. */
static double number_of(const cJSON *v, const char *member) {
  if (cJSON_IsObject(v)) v = cJSON_GetObjectItemCaseSensitive(v, member);
  return cJSON_IsNumber(v) ? v->valuedouble : NAN;
}

static const cJSON *get(const cJSON *o, const char *key) {
  return cJSON_GetObjectItemCaseSensitive(o, key);
}

static bool is_on(const cJSON *o, const char *key, bool otherwise) {
  const cJSON *v = get(o, key);
  return cJSON_IsBool(v) ? cJSON_IsTrue(v) : otherwise;
}

/* Three numbers, or one for all; false: it does not say. */
static bool channels_of(const cJSON *v, double out[3]) {
  int n = cJSON_IsArray(v) ? cJSON_GetArraySize(v) : cJSON_IsNumber(v) ? 1 : 0;
  for (int c = 0; c < 3; c++) {
    const cJSON *x = cJSON_IsArray(v) ? cJSON_GetArrayItem(v, n == 3 ? c : 0) : v;
    if ((n != 1 && n != 3) || !cJSON_IsNumber(x)) return false;
    out[c] = x->valuedouble;
  }
  return true;
}

static void set_channels(const vtb_preparation *p, const double x[3], float out[3]) {
  for (int c = 0; c < 3; c++) out[c] = (float)(p->channels == 1 ? (x[0] + x[1] + x[2]) / 3 : x[c]);
}

static void read_moments(vtb_preparation *p, const cJSON *mean, const cJSON *std, double scale) {
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

static void read_resizing(vtb_preparation *p, const cJSON *o) {
  static const vtb_filter filters[] = {VTB_FILTER_NEAREST, VTB_FILTER_LANCZOS, VTB_FILTER_BILINEAR,
                                       VTB_FILTER_BICUBIC, VTB_FILTER_BOX,     VTB_FILTER_HAMMING};
  const cJSON *size = get(o, "size"), *resample = get(o, "resample");
  double side = number_of(size, "height"), shortest = number_of(size, "shortest_edge");
  double cut = number_of(get(o, "crop_size"), "height"), share = number_of(get(o, "crop_pct"), "");
  if (cJSON_IsNumber(resample) && resample->valueint >= 0 && resample->valueint < 6) {
    p->filter = filters[resample->valueint];
    p->given |= VTB_PREPARE_FILTER;
  }
  if (!is_on(o, "do_resize", true)) return;
  bool keeps = cJSON_IsObject(size) ? isfinite(shortest) : share > 0;
  if (keeps && cJSON_IsObject(size)) side = shortest;
  if (!(side > 0)) return;
  p->resize = keeps ? VTB_RESIZE_CROP : VTB_RESIZE_SQUASH;
  p->crop = 1;
  if (is_on(o, "do_center_crop", isfinite(cut)) && cut > 0 && cut < side)
    p->crop = share_of(cut, side);
  else if (share > 0)
    p->crop = share;
  p->given |= VTB_PREPARE_RESIZE | VTB_PREPARE_CROP;
}

static void read_preprocessor(vtb_preparation *p, const cJSON *o) {
  static const double zeros[3] = {0, 0, 0}, ones[3] = {1, 1, 1};
  read_resizing(p, o);
  const cJSON *factor = get(o, "rescale_factor");
  double f = cJSON_IsNumber(factor) ? factor->valuedouble : 1.0 / 255;
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

static void read_timm(vtb_preparation *p, const cJSON *o) {
  static const char *const modes[] = {"center", "squash", "border"};
  const cJSON *filter = get(o, "interpolation"), *mode = get(o, "crop_mode"),
              *share = get(o, "crop_pct");
  if (cJSON_IsNumber(share)) p->crop = share->valuedouble, p->given |= VTB_PREPARE_CROP;
  if (cJSON_IsString(filter) && vtb_filter_find(filter->valuestring, &p->filter))
    p->given |= VTB_PREPARE_FILTER;
  for (int m = 0; m < VTB_RESIZE_MODES && cJSON_IsString(mode); m++)
    if (strcmp(mode->valuestring, modes[m]) == 0)
      p->resize = (vtb_resize_mode)m, p->given |= VTB_PREPARE_RESIZE;
  read_moments(p, get(o, "mean"), get(o, "std"), 1);
}

static vtb_status parse(const char *text, const char *name, cJSON **out, vtb_error *err) {
  *out = text ? cJSON_Parse(text) : NULL;
  if (!text || cJSON_IsObject(*out)) return VTB_OK;
  cJSON_Delete(*out);
  *out = NULL;
  return vtb_fail(err, VTB_E_INPUT, "%s beside the weights is no JSON object", name);
}

vtb_status vtb_prepare_hf(vtb_preparation *p, const char *preprocessor, const char *config,
                          vtb_error *err) {
  cJSON *a = NULL, *b = NULL;
  vtb_preparation made = *p;
  vtb_error inner = {0};
  vtb_status status = parse(config, "config.json", &a, err);
  if (status == VTB_OK) status = parse(preprocessor, "preprocessor_config.json", &b, err);
  if (status == VTB_OK && cJSON_IsObject(get(a, "pretrained_cfg")))
    read_timm(&made, get(a, "pretrained_cfg"));
  if (status == VTB_OK && b) read_preprocessor(&made, b);
  if (status == VTB_OK && vtb_preparation_check(&made, &inner) != VTB_OK)
    status = vtb_fail(err, VTB_E_INPUT, "%s beside the weights: %s",
                      b ? "preprocessor_config.json" : "config.json", inner.text);
  cJSON_Delete(a);
  cJSON_Delete(b);
  if (status == VTB_OK) *p = made;
  return status;
}

vtb_status vtb_prepare_keep(vtb_weights *w, int channels, vtb_error *err) {
  const char *beside = vtb_weights_meta(w, "hf.preprocessor"),
             *config = vtb_weights_meta(w, "hf.config");
  if ((!beside && !config) || (channels != 1 && channels != 3)) return VTB_OK;
  vtb_preparation p = vtb_preparation_default(channels, 1, 1);
  vtb_strbuf text = {0};
  vtb_status status = vtb_prepare_hf(&p, beside, config, err);
  if (status == VTB_OK)
    status = vtb_preparation_read_meta(&p, vtb_weights_meta(w, VTB_META_PREPARE),
                                       vtb_weights_meta(w, "mean"), vtb_weights_meta(w, "std"),
                                       "the weights", err);
  vtb_preparation_write(&p, p.given, &text);
  if (status == VTB_OK && p.given) vtb_weights_set_meta(w, VTB_META_PREPARE, text.at);
  vtb_strbuf_free(&text);
  return status;
}
