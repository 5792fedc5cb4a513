/* The batches and image sizes that a built file has programs for. */
#ifndef VTB_CLI_BUILD_LISTS_H
#define VTB_CLI_BUILD_LISTS_H

#include "frontend/cli/cli.h"

typedef struct build_lists {
  const char *batch, *image; /* as they were given; NULL: they were not */
  VTB_VEC(int64_t) batches;  /* falling */
  cli_list images;
  char *text; /* of the images */
} build_lists;

/* "16" is 1, 2, 4, 8 and 16, "=16" and "1,16" are what they say; of images "224,384" likewise. What
 * is given becomes the options' batch, image and lists. alone: one program is wanted, so that "16"
 * is 16. */
VTB_MUST_USE vtb_status build_lists_parse(build_lists *l, bool alone, vtb_compile_options *o);
void build_lists_free(build_lists *l);

#endif
