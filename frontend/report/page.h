/* The page of a report: one HTML file that needs nothing else, from the document that
 * docs/studies.md describes under results.json. */
#ifndef VTB_REPORT_PAGE_H
#define VTB_REPORT_PAGE_H

#include "runtime/base/base.h"

#include <cjson/cJSON.h>

/* Appends the page. Members that the document lacks are left out of it; whatever the document
 * holds, the result is well formed. VTB_E_INPUT if it is no document of results. */
VTB_MUST_USE vtb_status report_page(const cJSON *results, vtb_strbuf *out, vtb_error *err);

#endif
