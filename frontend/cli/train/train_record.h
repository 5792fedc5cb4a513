/* The record that a run stores of itself, so that it can be continued and repeated: run.yaml, a
 * recipe with every option, and the text of the model. */
#ifndef VTB_CLI_TRAIN_RECORD_H
#define VTB_CLI_TRAIN_RECORD_H

#include "frontend/cli/train/run_folder.h"
#include "frontend/cli/train/train_programs.h"

typedef VTB_VEC(vtb_train_plan) train_plan_list;

/* ---- writing --------------------------------------------------------------------------------- */

/* The options, each with its value, as lines of YAML; paths as absolute ones. */
void train_record_options(const char *what, const train_options *o, vtb_strbuf *out);
/* Words "mode=chunkwise" of the options that make a run another one; without those of `apart`,
 * option names that stand in another text already. */
void train_record_words(const train_options *o, const char *const *apart, size_t n_apart,
                        vtb_strbuf *out);
/* A hash of the text of the model and of the optimizer, or of a built file; "" if it cannot be
 * read. 17 bytes. */
void train_record_model_hash(const char *what, const train_programs *p, char out[20]);

/* Writes run.yaml: `options`, and what the run tells of itself. */
VTB_MUST_USE vtb_status train_record_write(const run_folder *f, const train_options *o,
                                           const char *options, const char *name,
                                           const char *model_hash, const train_plan_list *plan,
                                           vtb_error *err);
/* Copies of the sources below the folder. */
VTB_MUST_USE vtb_status train_record_sources(const run_folder *f, const train_sources *all,
                                             vtb_error *err);

/* ---- reading --------------------------------------------------------------------------------- */

/* Makes the sources that are stored in the run's folder those that are compiled: sets o->source and
 * the search folders, as far as it has them; o->name is what the run called the model. */
void train_record_use_sources(const char *folder, const char *what, train_options *o);
/* The first source whose text is not the one stored in the folder; NULL: all are. */
const char *train_record_changed(const run_folder *f, const train_sources *all);
/* VTB_E_INPUT where what the run in `folder` read is not there any more as it was: data, weights to
 * start from, a built file. */
VTB_MUST_USE vtb_status train_record_check(const char *folder, const char *what,
                                           const train_options *o, vtb_error *err);
/* The schedule of a run for a time: what it followed, from run.yaml; else, from_log, what it came
 * to. Neither: none. */
VTB_MUST_USE vtb_status train_record_plan(const char *folder, bool from_log, train_plan_list *out,
                                          vtb_error *err);

#endif
