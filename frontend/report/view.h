/* The tree that the page's template is filled from: the document itself as "doc", and beside it
 * what its numbers say, in words and pictures. Each part adds itself to the tree, or nothing where
 * the results have nothing for it. */
#ifndef VTB_REPORT_VIEW_H
#define VTB_REPORT_VIEW_H

#include "frontend/document/document.h"
#include "frontend/draw/chart.h"
#include "frontend/draw/number.h"
#include "frontend/report/lines.h"

#include <math.h>

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

/* Members are set by doc_put() and doc_item() of frontend/document. A number as rp_format() writes
 * it; NULL if it is none. */
#define SHOWN(r, m, x) (isnan(x) ? NULL : rp_format(r, m, x, (char[32]){0}))
/* A plain number to so many digits. */
#define DIGITS_OF(x, digits) (isnan(x) ? NULL : nr_digits(x, digits, (char[32]){0}))

cJSON *view_object(cJSON *to, const char *name);
cJSON *view_list(cJSON *to, const char *name);
cJSON *view_cell(const rp_cell *c); /* its number and label */
/* The picture, which is freed, as an element of the page of this class; `what` is told to those who
 * do not see it, NULL: it is hidden from them. */
doc_value view_picture(picture *p, const char *class_name, const char *what);
/* The words about lines across numbers: "first", the label of the best, "time" or memory, "level",
 * "shares", and "moves" to others. */
cJSON *view_lines(const rp_report *r, ln_across across, rp_measure m, const ln_lines *lines,
                  const ln_crossings *found, size_t first);

/* ---- signs: which colour and shape stand for a cell, the same in all charts ------------------ */

/* Colours for the values of one axis, shapes and dashes for those of another. */
ch_sign view_sign(const rp_report *r, const rp_cell *c);
bool view_has_signs(const rp_report *r);
/* "signs": a list of axes with their values, each with its key. */
void view_signs(const rp_report *r, cJSON *view);

#endif
