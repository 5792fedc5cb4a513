/* Checkpoints of any tool as the parameters of a model: what vtb_weights_open() reads, under the
 * names that the rules beside the model's files know (runtime/weights), with the settings, class
 * names and preprocessing that stand beside them.
 *
 *   open, take settings, compile, fit
 *
 * The options say which model: `model`, `defines`, `entry`, `image`, `search`. */
#ifndef VTB_COMPILE_WEIGHTS_H
#define VTB_COMPILE_WEIGHTS_H

#include "frontend/compile/driver.h"
#include "runtime/artefact/safetensors.h"
#include "runtime/base/prepare.h"
#include "runtime/weights/beside.h"
#include "runtime/weights/fit.h"
#include "runtime/weights/rename.h"

/* Which weights, and what they may lack. */
typedef struct vtb_load {
  const char *weights; /* any file that vtb_weights_open() takes; NULL: none */
  /* "FILE" or "PREFIX=FILE": vtb_load_given() makes `weights` of the former, and the tensors of the
   * latter go below PREFIX. The caller's. */
  vtb_fit_list given;
  bool of_parts; /* only such: `weights` is the first of them, for messages */
  bool joined;   /* after vtb_load_parts() */
  bool allow_missing, allow_unused, averages;
  bool quiet; /* nothing is said of what was decided */
  bool built; /* the model is a built file's: its settings are what they were */
  const char
      *rules; /* of names, that the built file brings; NULL: those beside the model's files */
  vtb_weights *file; /* after vtb_load_open() */
  /* Listeners, NULL: nobody. A line ends with its end. */
  void (*say)(void *user, const char *line);
  void *user;
  void (*note)(const struct vtb_load *l, const vtb_fit_report *r); /* of fits that failed, too */
} vtb_load;

/* Takes `given` apart; without a prefix the last file counts, as of any option. */
void vtb_load_given(vtb_load *l);
/* "PREFIX=FILE": the FILE, and the length of PREFIX; NULL: `text` is a file by itself. */
const char *vtb_load_part(const char *text, size_t *prefix);
/* Adds the tensors of every part to the opened file, once, under the names of the model that the
 * options describe. VTB_E_INPUT where they do not fit what stands below the prefix. */
VTB_MUST_USE vtb_status vtb_load_parts(const vtb_compile_options *o, vtb_load *l, vtb_error *err);

/* Opens the file, once, and says what it unwrapped. Nothing without one. */
VTB_MUST_USE vtb_status vtb_load_open(vtb_load *l, vtb_error *err);
/* The same for the model that the options describe: settings of a config.json beside the weights
 * join those that they are stored with. With an image size, weights that do not say what size they
 * were made for, and fit at that size as they are, are of it. */
VTB_MUST_USE vtb_status vtb_load_for(const vtb_compile_options *o, vtb_load *l, vtb_error *err);
void vtb_load_free(vtb_load *l);

/* Names of tensors that other tools give to those of the model: a built file's `rules`, else from
 * the files beside the model; what cannot be found has none. */
VTB_MUST_USE vtb_status vtb_load_names(const vtb_compile_options *o, const char *rules,
                                       vtb_names *out, vtb_error *err);
/* The text of these files, appended. VTB_E_INPUT: one of them has a fault. */
VTB_MUST_USE vtb_status vtb_load_rules(const vtb_unit *u, vtb_strbuf *out, vtb_error *err);
/* vtb_fit() with the model's rules; says what it decided. */
VTB_MUST_USE vtb_status vtb_load_fit(const vtb_compile_options *o, const vtb_load *l,
                                     const vtb_fit_options *fit, const vtb_tensor_info *tensors,
                                     int n, void *const *buffers, vtb_error *err);
void vtb_load_say(const vtb_load *l, const char *fmt, ...) VTB_PRINTF(2, 3);
/* The parameters and buffers of a model's function as a program would have them. */
vtb_tensor_info *vtb_load_tensors(const vtb_func *f, vtb_arena *arena, int *n);
/* Says what a fit decided. */
void vtb_load_say_fit(const vtb_load *l, const vtb_fit_report *r);
/* The opened file's tensors under the names of the model, which is not compiled for it. *out is the
 * caller's. */
VTB_MUST_USE vtb_status vtb_load_parameters(const vtb_compile_options *o, const vtb_load *l,
                                            vtb_weights **out, vtb_report *r);

/* The options with the weights that they name: `parameters` are these under the model's names, with
 * `weights` NULL, and *taken owns them; where the file has all of them as they are nothing changes,
 * and *taken is NULL. */
VTB_MUST_USE vtb_status vtb_load_into(vtb_compile_options *o, vtb_weights **taken, vtb_report *r);

/* ---- what stands beside the tensors (weights_config.c) --------------------------------------- */

/* config.json of a folder of Hugging Face, if the opened weights came with one: what the `config`
 * rows of the model's rules call its settings joins the "defines" that the weights are stored with,
 * where it is another number than the model's and the options do not say; a line says so.
 * VTB_E_INPUT if the model has no such setting. */
VTB_MUST_USE vtb_status vtb_load_config(const vtb_compile_options *o, vtb_load *l, vtb_error *err);
/* Holds the rest of it against the model: another activation is VTB_E_INPUT, another number than
 * the options' is said. */
VTB_MUST_USE vtb_status vtb_load_check_config(const vtb_compile_options *o, const vtb_load *l,
                                              const vtb_names *names, vtb_error *err);
/* Says where a checkpoint is of another published model than the options'. */
void vtb_load_say_architecture(const vtb_compile_options *o, const vtb_load *l);

#endif
