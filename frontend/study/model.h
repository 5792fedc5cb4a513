/* The models of a study as the language sees them: names, values, conditions. Inside frontend/study
 * only. */
#ifndef VTB_STUDY_MODEL_H
#define VTB_STUDY_MODEL_H

#include "frontend/lang/lang.h"
#include "frontend/study/study.h"

typedef struct study_models {
  const study *study;
  vtb_map units; /* MODEL -> vtb_unit */
} study_models;
void study_models_free(study_models *m);

/* NULL, with an error, if there is none of the name. */
vtb_unit *study_model_open(study_models *m, const char *model, vtb_error *err);
/* The hyperparameters that the model has in all cells but for `more`, n settings "name=value";
 * *list is in the arena. VTB_E_USAGE with the first message of the language, behind `what`. */
VTB_MUST_USE vtb_status study_model_settings(study_models *m, const char *model,
                                             const char *const *more, size_t n, const char *what,
                                             vtb_arena *arena, vtb_hyperparameter **list,
                                             size_t *n_list, vtb_error *err);
/* True if the condition holds of a cell. */
VTB_MUST_USE vtb_status study_condition(study_models *m, const study_cell *c, const char *condition,
                                        bool *holds, vtb_error *err);

/* The value of a word "--name" among the study's options; NULL: it is not there. */
const char *study_option_value(const study *s, const char *name);

#endif
