/* `augment { }` of a model as programs that the loader's threads run. */
#include "frontend/compile/driver.h"
#include "runtime/data/dataset.h"

#include <string.h>

/* The options of the model, but for what is of its training and its device. */
static vtb_compile_options options_of(const vtb_compilation *c) {
  vtb_compile_options o = c->options;
  o.training = o.evaluation = o.average = o.shard = false;
  o.target = o.precision = o.machine = o.optimizer = o.weights = NULL;
  o.parameters = NULL;
  o.freeze = NULL;
  o.n_freeze = 0;
  o.ranks = o.rank = 0;
  o.accumulate = 0;
  o.threads = 1;
  return o;
}

static vtb_status compile_one(const vtb_compilation *model, const char *input, vtb_program **out,
                              vtb_report *r) {
  vtb_compile_options o = options_of(model);
  const vtb_instantiate_options more = {.training = true, .augment = input};
  vtb_compilation c;
  vtb_status status = vtb_compilation_load(&c, &o, &more, r);
  if (status == VTB_OK) status = vtb_compilation_graph(&c);
  if (status == VTB_OK) status = vtb_compilation_program(&c, 1, false, out);
  vtb_compilation_free(&c);
  return status;
}

static bool is_view(const vtb_func *f, int a) {
  const vtb_arg_info *info = &f->arg_info[a];
  return info->role == VTB_ROLE_INPUT && info->init && vtb_starts_with(info->init, "view ");
}

/* The program of an earlier view of that size; NULL: there is none. */
static const vtb_program *shared(const vtb_augments *done, const vtb_func *f, int a) {
  size_t k = 0;
  for (int b = 0; b < a; b++) {
    if (!is_view(f, b)) continue;
    if (vtb_type_equal(&f->args[a]->type, &f->args[b]->type)) return done->at[k].program;
    k++;
  }
  return NULL;
}

vtb_status vtb_compile_augments(const vtb_compilation *loaded, vtb_augments *out, vtb_report *r) {
  const vtb_module *m = loaded->module;
  const vtb_func *f = m->entry;
  vtb_status status = VTB_OK;
  *out = (vtb_augments){0};
  vtb_arena_init(&out->arena);
  out->at = VTB_NEW_ARRAY(&out->arena, vtb_augment, f->n_args + 1);
  for (int a = 0; m->augment && a < f->n_args && status == VTB_OK; a++) {
    if (!is_view(f, a)) continue;
    const char *input = f->arg_info[a].official;
    const vtb_program *program = shared(out, f, a);
    vtb_program *made = NULL;
    if (!program) status = compile_one(loaded, input, &made, r);
    if (made) vtb_vec_push(&out->programs, made);
    out->at[out->n++] = (vtb_augment){.input = vtb_arena_strdup(&out->arena, input),
                                      .program = program ? program : made,
                                      .where = vtb_arena_strdup(&out->arena, m->augment)};
  }
  return status;
}

void vtb_augments_free(vtb_augments *a) {
  for (size_t i = 0; i < a->programs.n; i++) vtb_program_free(a->programs.at[i]);
  vtb_vec_free(&a->programs);
  vtb_arena_free(&a->arena);
  *a = (vtb_augments){0};
}
