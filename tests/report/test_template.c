/* Texts with places in braces: what is written, how often, and what becomes of ends of lines. */
#include "frontend/report/template.h"
#include "tests/test.h"

#include <math.h>

static bool in_brackets(const void *user, const char *name, int number, const cJSON *value,
                        vtb_strbuf *out) {
  (void)user;
  if (strcmp(name, "brackets") != 0) return false;
  vtb_strbuf_printf(out, "[%d:%s]", number, value ? "there" : "absent");
  return true;
}

static void check(const char *text, const char *want) {
  static const char tree[] =
      "{\"name\": \"a<b\", \"n\": 3, \"half\": 0.5, \"none\": [], \"off\": false, \"zero\": 0,"
      "\"o\": {\"x\": {\"y\": \"deep\"}}, \"list\": [{\"v\": 1}, {\"v\": 2}, {\"v\": 3}],"
      "\"words\": [\"p\", \"q\"], \"nothing\": null}";
  cJSON *json = cJSON_Parse(tree);
  vtb_strbuf out = {0};
  tp_fill(text, json, in_brackets, NULL, &out);
  CHECK_MSG(strcmp(vtb_strbuf_text(&out), want) == 0, "%s gives '%s', not '%s'", text,
            vtb_strbuf_text(&out), want);
  vtb_strbuf_free(&out);
  cJSON_Delete(json);
}

TEST(members_are_written_as_text_of_xml) {
  check("{name} {n} {half} {o.x.y} {absent}{o}{list}.", "a&lt;b 3 0.5 deep .");
  check("{n|brackets 12}{absent|brackets}", "[12:there][0:absent]");
  check("a { b } {# a remark}{1}", "a { b } {1}");
}

TEST(conditions_choose) {
  check("{if n}yes{else}no{end}", "yes");
  check("{if zero}a{else if off}b{else if none}c{else if nothing}d{else if absent}e{else}f{end}",
        "f");
  check("{if n == 3 and name == \"a<b\"}both{end}{if n > 3 or half < 1}one{end}", "bothone");
  check("{if not n or not absent}right{end}{if n != 3}wrong{end}", "right");
  check("{if absent != 3}wrong{end}{if absent == 0}wrong{end}{if absent < 1}wrong{end}.", ".");
  check("{if n >= 3}{if off}wrong{else}inner{end}{else}{if n}wrong{end}{end}", "inner");
  check("{if off}{each i in list}{i.v}{end}wrong{else if n <= 3}right{end}", "right");
}

TEST(lists_repeat_and_names_are_known_within) {
  check("{each i in list \", \"}{i.v}/{i.nth}{end}", "1/1, 2/2, 3/3");
  check("{each w in words}{each i in list}{w}{i.v} {end}{end}", "p1 p2 p3 q1 q2 q3 ");
  check("{each one in o.x}{one.y}{end}{each i in none}wrong{end}{each i in off}wrong{end}", "deep");
  check("{define twice}{w}{w}{end}{each w in words}{use twice}{end}", "ppqq");
}

TEST(ends_of_lines_are_blanks_in_sentences_alone) {
  check("one\n  two {n}\n three", "one two 3 three");
  check("<p>\n<b>x</b>\n{if n}\n y{end}\n</p>\n", "<p>\n<b>x</b>y</p>\n");
  check("<td>\n{n}</td>\n<td>", "<td>3</td>\n<td>");
  check("{if n} a{end}\n, b", " a, b");
}

int main(void) {
  RUN(members_are_written_as_text_of_xml);
  RUN(conditions_choose);
  RUN(lists_repeat_and_names_are_known_within);
  RUN(ends_of_lines_are_blanks_in_sentences_alone);
  return test_done();
}
