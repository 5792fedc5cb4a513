/* The declarations of a source as JSON. */
#include "frontend/compile/driver.h"
#include "frontend/lang/symbols.h"

#include <cjson/cJSON.h>

static cJSON *parameter_json(const vtb_lang_symbol *p) {
  cJSON *row = cJSON_CreateObject();
  cJSON_AddStringToObject(row, "name", p->name);
  cJSON_AddStringToObject(row, "text", p->signature);
  cJSON_AddBoolToObject(row, "tensor", p->is_tensor);
  cJSON_AddBoolToObject(row, "required", p->required);
  cJSON *choices = p->n_words ? cJSON_AddArrayToObject(row, "choices") : NULL;
  for (size_t i = 0; i < p->n_words; i++)
    cJSON_AddItemToArray(choices, cJSON_CreateString(p->words[i]));
  return row;
}

static cJSON *entry_json(const vtb_lang_symbol *d) {
  static const char *const kinds[] = {
      [VTB_DECL_MODEL] = "model",           [VTB_DECL_PRESET] = "preset",
      [VTB_DECL_BLOCK] = "block",           [VTB_DECL_FN] = "fn",
      [VTB_DECL_RECURRENCE] = "recurrence", [VTB_DECL_CONST] = "const",
      [VTB_DECL_OPTIMIZER] = "optimizer",   [VTB_DECL_SCHEDULE] = "schedule"};
  cJSON *row = cJSON_CreateObject();
  cJSON_AddStringToObject(row, "kind", kinds[d->decl_kind]);
  cJSON_AddStringToObject(row, "name", d->name);
  cJSON_AddStringToObject(row, "doc", d->doc);
  cJSON_AddStringToObject(row, "signature", d->signature);
  if (d->n_results) cJSON_AddNumberToObject(row, "results", (double)d->n_results);
  cJSON *list = cJSON_AddArrayToObject(row, "parameters");
  for (size_t i = 0; i < d->n_parameters; i++)
    cJSON_AddItemToArray(list, parameter_json(d->parameters[i]));
  return row;
}

vtb_status vtb__entries_text(const vtb_compile_options *o, vtb_strbuf *out, vtb_report *r) {
  vtb_diags diags = {0};
  vtb_unit *u = vtb__compile_unit(o, &diags);
  bool sound = u && !diags.n_errors;
  vtb__report_take(r, &diags);
  if (u) vtb_vec_push(&r->units, u); /* what was said points into it */
  if (!sound) return vtb_fail(&r->error, VTB_E_INPUT, "the source has errors");
  const vtb_lang_symbol **decls;
  vtb_symbols *symbols = vtb_symbols_new(u);
  size_t n = vtb_symbols_decls(symbols, &decls);
  cJSON *list = cJSON_CreateArray();
  for (size_t i = 0; i < n; i++) cJSON_AddItemToArray(list, entry_json(decls[i]));
  char *json = vtb_need(cJSON_PrintUnformatted(list));
  vtb_strbuf_puts(out, json);
  cJSON_free(json);
  cJSON_Delete(list);
  vtb_free(decls);
  vtb_symbols_free(symbols);
  return VTB_OK;
}
