/* Lines of a measure against a number that cells have: tokens, the size of a chunk. A line holds
 * the cells that agree in all other axes. */
#ifndef VTB_REPORT_LINES_H
#define VTB_REPORT_LINES_H

#include "frontend/report/results.h"

typedef enum ln_across { LN_TOKENS, LN_CHUNK } ln_across;

typedef struct ln_line {
  char *label;                    /* the values that its cells share */
  bool chooses;                   /* ln_is_auto() */
  VTB_VEC(const rp_cell *) cells; /* by x, ascending; cells without it have a line of their own */
} ln_line;
typedef VTB_VEC(ln_line) ln_lines;

/* Where the best line changes: from `from` to `to` between the two cells of `to`, at x. */
typedef struct ln_crossing {
  size_t from, to;
  double x, y;
} ln_crossing;
typedef VTB_VEC(ln_crossing) ln_crossings;

double ln_x(const rp_cell *c, ln_across across);
/* Lines of two or more cells; none where fewer than two values of x occur. */
void ln_collect(const rp_report *r, ln_across across, rp_measure m, ln_lines *lines);
void ln_free(ln_lines *lines);
/* Its mode is "auto": it is one of the others. */
bool ln_is_auto(const rp_report *r, const rp_cell *c);

/* At each x the line that was best before stays the best until another beats it by more than the
 * spread. The first best line is *first; false if there are not two lines to compare. */
bool ln_cross(const rp_report *r, ln_across across, rp_measure m, const ln_lines *lines,
              ln_crossings *found, size_t *first);

/* How a line stands that is best at each x: ahead of all others at each, ahead of some, or of
 * none. */
typedef enum ln_lead { LN_LEVEL, LN_SHARES, LN_LEADS } ln_lead;
ln_lead ln_lead_of(const rp_report *r, ln_across across, rp_measure m, const ln_lines *lines,
                   size_t best);

#endif
