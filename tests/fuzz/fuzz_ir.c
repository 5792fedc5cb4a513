/* The parser of the IR's text form: any bytes give a module or diagnostics; a module that verifies
 * prints and parses again. */
#include "ir/ir.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  char *text = vtb_xmalloc(n + 1);
  memcpy(text, data, n);
  text[n] = 0;
  vtb_source source = {.path = "<fuzz>", .text = text, .n = n};
  vtb_diags diags = {0};
  vtb_module *m = vtb_module_parse(&source, &diags);
  vtb_error err = {0};
  if (m && !diags.n_errors && vtb_module_verify(m, &err)) {
    vtb_strbuf printed = {0};
    vtb_module_print(m, &(vtb_print_options){0}, &printed);
    vtb_source again = {.path = "<printed>", .text = printed.at ? printed.at : "", .n = printed.n};
    vtb_diags second = {0};
    vtb_module *copy = vtb_module_parse(&again, &second);
    if (!copy || second.n_errors) {
      fprintf(stderr, "printed text does not parse:\n%s\n", printed.at);
      abort();
    }
    vtb_module_free(copy);
    vtb_diags_free(&second);
    vtb_strbuf_free(&printed);
  }
  vtb_strbuf rendered = {0};
  vtb_diags_render(&diags, &rendered, false);
  vtb_strbuf_free(&rendered);
  vtb_module_free(m);
  vtb_diags_free(&diags);
  free(text);
  return 0;
}
