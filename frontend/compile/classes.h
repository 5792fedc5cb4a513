/* Which hyperparameter of a model says how many class scores it gives. */
#ifndef VTB_COMPILE_CLASSES_H
#define VTB_COMPILE_CLASSES_H

#include "frontend/compile/driver.h"

/* The scores of the first output, 0 if that is not [batch, classes]. */
int vtb_class_scores(const vtb_func *f);
/* Writes "NAME=classes" for a hyperparameter with which the model, compiled with `o` into c, gives
 * that many scores; found by trying those that are ints and that `o` does not set. False, and
 * `define` untouched, if there is none. */
bool vtb_class_setting(const vtb_compile_options *o, const vtb_compilation *c, int classes,
                       char *define, size_t n);
/* Fails with what stands in the way: a setting of `o`, or that no hyperparameter changes it. */
vtb_status vtb_wrong_classes(const vtb_compile_options *o, const vtb_compilation *c, int have,
                             int classes);

#endif
