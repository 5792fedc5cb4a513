/* The table of tuning of this machine, on disk: $XDG_CACHE_HOME/vertebra/tuning/<hash>.txt, the
 * hash being that of the processor and of the generation of kernels that the times belong to
 * (docs/tuning.md). What auto reads; `vertebra tune` writes it.
 */
#ifndef VTB_COMPILE_TUNING_H
#define VTB_COMPILE_TUNING_H

#include "frontend/compile/driver.h"

/* A table's text (tuning_text.c). VTB_E_INPUT, with the line, if it is none; then *out is empty. */
void vtb_tuning_print(const vtb_tuning *t, vtb_strbuf *out);
VTB_MUST_USE vtb_status vtb_tuning_parse(const char *text, size_t n, vtb_tuning *out,
                                         vtb_error *err);

/* Threads that runs are expected to have; 1 on a device. */
int vtb_tuning_threads(const vtb_compile_options *o, const vtb_target *target);
/* The table's file of the target's processor here, and its name for readers; may be NULL. False if
 * the target has none here. path: vtb_free(). */
bool vtb_tuning_file(const vtb_target *target, const vtb_behaviour *how, char **path,
                     char processor[128]);
/* The measurements on disk; nothing if there is no file. VTB_E_INPUT if it is damaged: then nothing
 * is read. */
VTB_MUST_USE vtb_status vtb_tuning_read(const vtb_target *target, const vtb_behaviour *how,
                                        vtb_tuning *out, vtb_error *err);
/* Rows beside and instead of those on disk; a damaged file is replaced. Others may write at the
 * same time. */
VTB_MUST_USE vtb_status vtb_tuning_store(const vtb_target *target, const vtb_behaviour *how,
                                         const vtb_tuning *rows, vtb_error *err);
/* Files of any processor. */
typedef struct vtb_tuning_entry {
  char name[40], processor[128];
  int64_t bytes, rows; /* rows: -1 of a damaged one */
} vtb_tuning_entry;
VTB_MUST_USE vtb_status vtb_tuning_list(vtb_tuning_entry **out, size_t *n, vtb_error *err);
VTB_MUST_USE vtb_status vtb_tuning_clear(size_t *n_removed, vtb_error *err);
char *vtb_tuning_folder(void); /* for vtb_free() */

#endif
