/* What stands beside weights in the files of other tools and their tensors do not show. */
#ifndef VTB_CLI_LOAD_CONFIG_H
#define VTB_CLI_LOAD_CONFIG_H

#include "frontend/cli/load/weights.h"
#include "runtime/weights/rename.h"

/* config.json of a folder of Hugging Face, if the opened weights came with one: what the `config`
 * rows of the model's rules call its settings joins the "defines" that the weights are stored with,
 * where it is another number than the model's and -D does not say; a line says so. VTB_E_INPUT if
 * the model has no such setting. */
VTB_MUST_USE vtb_status cli_take_config(const char *what, const cli_model_options *m,
                                        cli_load_options *l, vtb_error *err);
/* Its names of the classes, id2label or label_names, become "classes". */
void cli_take_class_names(vtb_weights *w);
/* Holds the rest of it against the model: another activation is VTB_E_INPUT, another number than
 * -D's is said. */
VTB_MUST_USE vtb_status cli_check_config(const cli_model_options *m, const cli_load_options *l,
                                         const vtb_names *names, vtb_error *err);
/* A line where a checkpoint says that it is of another published model than `what`. */
void cli_say_architecture(const char *what, const cli_load_options *l);

#endif
