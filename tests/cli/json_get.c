/* json_get PATH...: the values at paths such as error.code or groups.0.paths in the one JSON
 * document on standard input, a line each: texts as they are, lists and objects as how many they
 * hold, "none" where there is nothing. Exit status 1 where the input is not one document. */
#include "runtime/base/base.h"

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

static const cJSON *find(const cJSON *at, char *path) {
  for (char *name; at && (name = strsep(&path, "."));) {
    bool is_index = *name && strspn(name, "0123456789") == strlen(name);
    at = is_index ? cJSON_GetArrayItem(at, atoi(name)) : cJSON_GetObjectItemCaseSensitive(at, name);
  }
  return at;
}

static void print(const cJSON *v) {
  if (!v)
    puts("none");
  else if (cJSON_IsString(v))
    puts(v->valuestring);
  else if (cJSON_IsArray(v) || cJSON_IsObject(v))
    printf("%d\n", cJSON_GetArraySize(v));
  else {
    char *text = cJSON_PrintUnformatted(v);
    puts(text);
    cJSON_free(text);
  }
}

int main(int argc, char **argv) {
  vtb_strbuf text = {0};
  char block[4096];
  for (size_t n; (n = fread(block, 1, sizeof block, stdin)) > 0;) vtb_strbuf_write(&text, block, n);
  cJSON *all = cJSON_ParseWithOpts(vtb_strbuf_text(&text), NULL, true);
  if (!all) fprintf(stderr, "not one JSON document:\n%s\n", vtb_strbuf_text(&text));
  for (int i = 1; all && i < argc; i++) print(find(all, argv[i]));
  int status = all ? 0 : 1;
  cJSON_Delete(all);
  vtb_strbuf_free(&text);
  return status;
}
