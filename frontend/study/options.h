/* Options of the commands that steps are, by name: which steps take them. What the commands
 * themselves say of them is not known here; tests/cli holds the table to their help. */
#ifndef VTB_STUDY_OPTIONS_H
#define VTB_STUDY_OPTIONS_H

#include "frontend/study/study.h"

enum {
  STUDY_IN_CHECK = 1 << STUDY_CHECK,
  STUDY_IN_TRAIN = 1 << STUDY_TRAIN,
  STUDY_IN_EVAL = 1 << STUDY_EVAL,
  STUDY_IN_BENCH = 1 << STUDY_BENCH,
  STUDY_EVERYWHERE = STUDY_IN_CHECK | STUDY_IN_TRAIN | STUDY_IN_EVAL | STUDY_IN_BENCH
};

/* The kinds of values of options. */
typedef enum study_value_kind {
  STUDY_VALUE_TEXT,
  STUDY_VALUE_FLAG,  /* true or false */
  STUDY_VALUE_COUNT, /* a whole number from 1 on */
  STUDY_VALUE_NUMBER /* at least 0 */
} study_value_kind;

/* The option that no command has: --image of eval, where train keeps its own. */
#define STUDY_TEST_IMAGE "test-image"

typedef struct study_option {
  const char *word; /* "--lr"; its name as an axis is behind the dashes */
  int steps;        /* STUDY_IN_... */
  study_value_kind kind;
  const char *metavar, *help;
} study_option;
/* *n rows. */
const study_option *study_option_table(size_t *n);
/* NULL: no option that can be varied. */
const study_option *study_option_find(const char *name);

#endif
