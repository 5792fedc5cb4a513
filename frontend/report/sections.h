/* The sections of the page. Each appends itself, or nothing where the results have nothing for
 * it, and then returns false. */
#ifndef VTB_REPORT_SECTIONS_H
#define VTB_REPORT_SECTIONS_H

#include "frontend/report/results.h"

void sec_findings(const rp_report *r, vtb_strbuf *out);
bool sec_table(const rp_report *r, vtb_strbuf *out);
bool sec_scatter(const rp_report *r, vtb_strbuf *out);
bool sec_effects(const rp_report *r, vtb_strbuf *out);
bool sec_scaling(const rp_report *r, vtb_strbuf *out);
bool sec_curves(const rp_report *r, vtb_strbuf *out);
bool sec_paths(const rp_report *r, vtb_strbuf *out);
bool sec_compiler(const rp_report *r, vtb_strbuf *out);
bool sec_against(const rp_report *r, vtb_strbuf *out);
bool sec_cells(const rp_report *r, vtb_strbuf *out);
bool sec_machine(const rp_report *r, vtb_strbuf *out);

#endif
