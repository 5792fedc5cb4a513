/* What the page's template is filled from: the document itself as "doc", and beside it what its
 * numbers say, in words and pictures. Each part adds itself to the tree, or nothing where the
 * results have nothing for it. */
#ifndef VTB_REPORT_VIEW_H
#define VTB_REPORT_VIEW_H

#include "frontend/draw/chart.h"
#include "frontend/report/lines.h"

void view_cells(const rp_report *r, cJSON *view);
void view_findings(const rp_report *r, cJSON *view);
void view_front(const rp_report *r, cJSON *view);
void view_effects(const rp_report *r, cJSON *view);
void view_scaling(const rp_report *r, cJSON *view);
void view_curves(const rp_report *r, cJSON *view);
void view_paths(const rp_report *r, cJSON *view);
void view_compiler(const rp_report *r, cJSON *view);
void view_against(const rp_report *r, cJSON *view);

/* ---- the tree -------------------------------------------------------------------------------- */

cJSON *view_object(cJSON *to, const char *name);
cJSON *view_list(cJSON *to, const char *name);
cJSON *view_item(cJSON *list); /* a further object */
/* Nothing where the text is "", the number is NAN, the flag does not hold. */
void view_text(cJSON *to, const char *name, const char *text);
void view_number(cJSON *to, const char *name, double x);
void view_flag(cJSON *to, const char *name, bool holds);
/* As rp_format() writes it, a plain number to so many digits. */
void view_measure(cJSON *to, const char *name, const rp_report *r, rp_measure m, double x);
void view_digits(cJSON *to, const char *name, double x, int digits);
/* Its number and label; NULL: nothing. */
void view_cell(cJSON *to, const char *name, const rp_cell *c);
/* Takes the picture, as an element of the page of this class. what: view.h's picture.h. */
void view_picture(cJSON *to, const char *name, picture *p, const char *class_name,
                  const char *what);
/* What is said of lines across numbers: "first", the label of the best, "time" or memory, "level",
 * "shares", and "moves" to others. */
void view_lines(cJSON *to, const rp_report *r, ln_across across, rp_measure m,
                const ln_lines *lines, const ln_crossings *found, size_t first);

/* ---- signs: which colour and shape stand for a cell, the same in all charts ------------------ */

/* Colours for the values of one axis, shapes and dashes for those of another. */
ch_sign view_sign(const rp_report *r, const rp_cell *c);
bool view_has_signs(const rp_report *r);
/* "signs": a list of axes with their values, each with its key. */
void view_signs(const rp_report *r, cJSON *view);

#endif
