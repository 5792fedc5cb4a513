/* See habits.h. */
#include "frontend/lang/habits.h"

#include <stddef.h>
#include <string.h>

static const struct {
  vtb__habit_place where;
  const char *word, *help;
} habits[] = {
#define HABIT(where, word, help) {VTB__HABIT_##where, #word, help},
#include "frontend/lang/habits.def"
#undef HABIT
};

const char *vtb__habit(vtb__habit_place where, const char *word) {
  for (size_t i = 0; i < sizeof habits / sizeof *habits; i++)
    if (habits[i].where == where && strcmp(habits[i].word, word) == 0) return habits[i].help;
  return NULL;
}
