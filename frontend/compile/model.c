/* Compiled models as applications run them. */
#include "frontend/compile/driver.h"
#include "runtime/model.h"

#include <string.h>

vtb_status vtb_compile_model(const vtb_compile_options *o, vtb_model **model, vtb_report *r) {
  vtb_program *program;
  vtb_weights *taken;
  vtb_error none = {0};
  const char *weights = o->size > offsetof(vtb_compile_options, weights) ? o->weights : NULL;
  vtb_compile_options of_session = {0};
  memcpy(&of_session, o, o->size < sizeof of_session ? o->size : sizeof of_session);
  if (o->size >= offsetof(vtb_compile_options, entry)) of_session.size = sizeof of_session;
  of_session.numbers_rows = true;
  VTB_TRY(vtb__compile_loaded(&of_session, &program, &taken, r));
  return vtb__model_of_program(program, weights, taken, model, r ? &r->error : &none);
}
