/* Fills a text with places in braces from a tree of JSON:
 *
 *   {a.b}                 a member as text of XML, a number as short as it is, else nothing
 *   {a.b|bytes}           the member as a format of the caller's writes it; {a|fixed 2}
 *   {if E} {else if E} {else} {end}
 *   {each x in a.b} {end}         for each item of a list; once for what is no list; never where
 *                                 there is none
 *   {each x in a.b ", "} {end}    with a text between them
 *   {define name} {end}   nothing here; {use name} writes it, with the names known there
 *   {# a comment}
 *
 * E is `not`, `and`, `or` over members, numbers and "texts" and what ==, !=, <, <=, >, >= say of
 * two of them, from left to right; false is what is absent, empty, false or 0, and any comparison
 * with what is absent. x.nth is the item's place in its list, from 1. A brace before anything but a
 * letter or # is a brace.
 *
 * The end of a line with the blanks around it is nothing beside a brace of `if`, `each`, `end` and
 * their like, a blank in sentences, and stays between two elements. */
#ifndef VTB_REPORT_TEMPLATE_H
#define VTB_REPORT_TEMPLATE_H

#include "runtime/base/base.h"

#include <cjson/cJSON.h>

/* Writes the value, NULL if there is none, in the format; false if it knows no such. */
typedef bool (*tp_format)(const void *user, const char *name, int number, const cJSON *value,
                          vtb_strbuf *out);

/* The text is the program's own: what is wrong in it is a bug. */
void tp_fill(const char *text, const cJSON *tree, tp_format format, const void *user,
             vtb_strbuf *out);

#endif
