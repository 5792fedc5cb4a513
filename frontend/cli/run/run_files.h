/* The images that `run` is given: files, folders, lists, standard input. */
#ifndef VTB_CLI_RUN_FILES_H
#define VTB_CLI_RUN_FILES_H

#include "frontend/cli/cli.h"

typedef struct run_files {
  cli_list paths;
  vtb_arena arena; /* of their texts */
  char *bytes;     /* of the image that stands at "-" */
  size_t n_bytes;
} run_files;

/* Each argument is a file; a folder, of which all images are meant, at any depth, in the order of
 * their names; @FILE, a list of such, one a line; or "-", an image or a list on standard input. */
VTB_MUST_USE vtb_status run_files_open(run_files *f, const cli_list *arguments, vtb_error *err);
VTB_MUST_USE vtb_status run_files_image(const run_files *f, size_t i, int channels, vtb_image *out,
                                        vtb_error *err);
void run_files_free(run_files *f);

#endif
