/* A small strict parser of XML, for tests: whether a page is well formed. */
#ifndef VTB_TEST_XML_H
#define VTB_TEST_XML_H

#include <stdbool.h>
#include <stddef.h>

/* NULL if n bytes are a doctype and one element; otherwise what is wrong, with *at its place. */
const char *xml_check(const char *text, size_t n, size_t *at);

#endif
