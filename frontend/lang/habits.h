/* Words of other languages and frameworks, and how the same is said here: the rows of habits.def.
 * Inside frontend/lang only. */
#ifndef VTB_LANG_HABITS_H
#define VTB_LANG_HABITS_H

typedef enum vtb__habit_place {
  VTB__HABIT_NAME,
  VTB__HABIT_PARAMETER,
  VTB__HABIT_MEMBER,
  VTB__HABIT_CALL,
  VTB__HABIT_STATEMENT
} vtb__habit_place;
/* A sentence of help; NULL: the word is no habit there. */
const char *vtb__habit(vtb__habit_place where, const char *word);

#endif
