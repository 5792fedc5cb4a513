/* Values of axes as people type them: "uni, [rows, cols], \"a, b\"". */
#ifndef VTB_STUDY_SPLIT_H
#define VTB_STUDY_SPLIT_H

#include "frontend/study/study.h"

/* The parts of n bytes between separators that stand outside of brackets and quotes, without blanks
 * around them; appended to *out. False if a bracket or quote is left open. */
bool study_split(const char *text, size_t n, char separator, study_texts *out);
/* n bytes without blanks around them. */
char *study_trimmed(const char *text, size_t n);

#endif
