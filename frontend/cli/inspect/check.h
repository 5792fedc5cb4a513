/* The state that files of `vertebra check` share. */
#ifndef VTB_CLI_CHECK_H
#define VTB_CLI_CHECK_H

#include "frontend/cli/cli.h"
#include "frontend/compile/outline.h"

/* A checked model. */
typedef struct check_facts {
  const vtb_compilation *model;
  const vtb_func *modes; /* its entry, bound to `batch`, with the form of every recurrence chosen */
  const vtb_pass_context *context; /* that chose them */
  const vtb_target *target;
  int64_t batch, params;
  int threads;
  char image[32];       /* "224x224"; "": it takes none */
  char text_hash[33];   /* of the files that it is made of */
  vtb_outline run;      /* of the model */
  bool trained;         /* --train: */
  vtb_outline training; /* of a step, with its update */
} check_facts;

/* True of the parameters, trained or not. */
bool check_is_param(const vtb_arg_info *info);
/* Its layers, with what repeats said once: for people. */
void check_add_structure(const check_facts *c, doc *d);
/* True of a file that declares schedules or optimizers and nothing that can be built: they are
 * told, or `diags`, what is wrong with the file. */
bool check_rules(const char *what, vtb_unit *unit, const vtb_diags *diags, vtb_status *status);
/* All of it; objective: the model with what it is trained for. */
doc *check_document(const check_facts *c, const vtb_func *objective, bool list_params);

#endif
