/* The GPU that code is chosen for: a row of the table in passes/cost/gpu.c, by name, or a file that
 * `vertebra bench --calibrate` wrote:
 *
 *   {"vertebra_gpu": 1, "name": "mine", "what": "...", "processors": 132, ...}
 *
 * All numbers of vtb_gpu are there, under their names; tensor rates are a list of four. "arch" may
 * name the architecture whose own plans the GPU runs. */
#include "frontend/compile/driver.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BYTES = 1 << 16 };

typedef struct field {
  const char *name;
  double *value;
} field;
enum { N_FIELDS = 15 };

static void fields_of(vtb_gpu *g, field out[N_FIELDS]) {
  const field all[N_FIELDS] = {{"processors", &g->processors}, {"clock", &g->clock},
                               {"warps", &g->warps},           {"blocks", &g->blocks},
                               {"registers", &g->registers},   {"shared_bytes", &g->shared_bytes},
                               {"issue", &g->issue},           {"special", &g->special},
                               {"wavefronts", &g->wavefronts}, {"bytes", &g->bytes},
                               {"l2_bytes", &g->l2_bytes},     {"l2_size", &g->l2_size},
                               {"launch", &g->launch},         {"latency", &g->latency},
                               {"tensor", g->tensor}};
  memcpy(out, all, sizeof all);
}

/* ---- files ----------------------------------------------------------------------------------- */

char *vtb_gpu_write(const vtb_gpu *g) {
  vtb_gpu copy = *g;
  field fields[N_FIELDS];
  fields_of(&copy, fields);
  cJSON *out = cJSON_CreateObject();
  cJSON_AddNumberToObject(out, "vertebra_gpu", 1);
  cJSON_AddStringToObject(out, "name", g->name);
  cJSON_AddStringToObject(out, "what", g->what);
  if (*g->arch) cJSON_AddStringToObject(out, "arch", g->arch);
  for (int i = 0; i < N_FIELDS; i++) {
    bool list = fields[i].value == copy.tensor;
    cJSON_AddItemToObject(out, fields[i].name,
                          list ? cJSON_CreateDoubleArray(copy.tensor, VTB_N_TENSOR_UNITS)
                               : cJSON_CreateNumber(*fields[i].value));
  }
  char *text = cJSON_Print(out), *owned = text ? vtb_xstrdup(text) : NULL;
  cJSON_free(text);
  cJSON_Delete(out);
  return owned;
}

static bool take_name(const cJSON *in, const char *key, char *out, size_t size) {
  const cJSON *item = cJSON_GetObjectItemCaseSensitive(in, key);
  if (!cJSON_IsString(item) || !item->valuestring[0] || strlen(item->valuestring) >= size)
    return false;
  snprintf(out, size, "%s", item->valuestring);
  return true;
}

static bool take_number(const cJSON *item, bool zero, double *out) {
  if (!cJSON_IsNumber(item) || !isfinite(item->valuedouble)) return false;
  *out = item->valuedouble;
  return *out > 0 || (zero && *out == 0);
}

/* Tensor rates, of which the large operations' may be 0: there are none. */
static bool take_rates(const cJSON *list, double out[VTB_N_TENSOR_UNITS]) {
  if (!cJSON_IsArray(list) || cJSON_GetArraySize(list) != VTB_N_TENSOR_UNITS) return false;
  for (int u = 0; u < VTB_N_TENSOR_UNITS; u++)
    if (!take_number(cJSON_GetArrayItem(list, u), u >= VTB_TENSOR_WIDE_16, &out[u])) return false;
  return true;
}

/* The fault of a description; NULL: nothing. */
static const char *take_gpu(const cJSON *in, vtb_gpu *g) {
  const cJSON *version = cJSON_GetObjectItemCaseSensitive(in, "vertebra_gpu");
  field fields[N_FIELDS];
  fields_of(g, fields);
  if (!cJSON_IsNumber(version)) return "vertebra_gpu";
  if (version->valuedouble != 1) return "vertebra_gpu, which this program reads as 1,";
  if (!take_name(in, "name", g->name, sizeof g->name)) return "name";
  if (!take_name(in, "what", g->what, sizeof g->what)) return "what";
  if (cJSON_HasObjectItem(in, "arch") && !take_name(in, "arch", g->arch, sizeof g->arch))
    return "arch";
  for (int i = 0; i < N_FIELDS; i++) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(in, fields[i].name);
    bool rates = fields[i].value == g->tensor;
    if (!(rates ? take_rates(item, g->tensor) : take_number(item, false, fields[i].value)))
      return fields[i].name;
  }
  return NULL;
}

static vtb_status read_gpu(const char *path, vtb_gpu *out, vtb_error *err) {
  char *text;
  size_t n;
  *out = (vtb_gpu){0};
  vtb_status status = vtb_file_read(path, MOST_BYTES, &text, &n, err);
  if (status != VTB_OK) return status;
  cJSON *in = cJSON_ParseWithLength(text, n);
  const char *wrong = in ? take_gpu(in, out) : NULL;
  if (!in)
    status = vtb_fail(err, VTB_E_INPUT,
                      "%s is no JSON; `vertebra bench --calibrate -o FILE` writes a GPU's numbers",
                      path);
  else if (wrong)
    status = vtb_fail(err, VTB_E_INPUT,
                      "%s describes no GPU: %s is missing or out of range; `vertebra bench "
                      "--calibrate -o FILE` writes such files",
                      path, wrong);
  cJSON_Delete(in);
  vtb_free(text);
  return status;
}

/* ---- by name --------------------------------------------------------------------------------- */

static void list_gpus(vtb_strbuf *out) {
  size_t n;
  const vtb_gpu *table = vtb_gpus(&n);
  for (size_t i = 0; i < n; i++)
    vtb_strbuf_printf(out, "%s%s", !i ? "" : i + 1 == n ? " and " : ", ", table[i].name);
}

vtb_status vtb_compile_gpu(const char *machine, const vtb_behaviour *how, vtb_gpu *out,
                           vtb_error *err) {
  const char *wanted = machine ? machine : how->machine;
  const vtb_gpu *known = wanted ? vtb_gpu_find(wanted) : vtb_gpu_default();
  if (known) {
    *out = *known;
    return VTB_OK;
  }
  if (strpbrk(wanted, "./")) return read_gpu(wanted, out, err);
  vtb_strbuf names = {0};
  list_gpus(&names);
  vtb_fail(err, VTB_E_USAGE, "no GPU is named '%s'%s: there are %s, and files", wanted,
           machine ? "" : " (VTB_MACHINE)", names.at);
  vtb_strbuf_free(&names);
  return VTB_E_USAGE;
}
