/* The page of a report: well formed whatever a document holds, and saying what its numbers say. */
#include "frontend/report/effects.h"
#include "frontend/report/page.h"
#include "tests/report/xml.h"
#include "tests/test.h"

#define SAMPLES VTB_SOURCE_DIR "/tests/report/"

/* The page of a document; NULL if there is none. The caller frees it. */
static char *page_of(const char *json, size_t n) {
  vtb_strbuf out = {0};
  vtb_error err = {0};
  cJSON *document = cJSON_ParseWithLength(json, n);
  vtb_status status = report_page(document, &out, &err);
  cJSON_Delete(document);
  if (status == VTB_OK) return out.at;
  vtb_strbuf_free(&out);
  return NULL;
}

static void check_well_formed(const char *what, const char *page) {
  size_t at = 0;
  const char *wrong = page ? xml_check(page, strlen(page), &at) : "no page";
  if (!wrong) return;
  size_t from = at > 60 ? at - 60 : 0;
  CHECK_MSG(false, "%s: %s at byte %zu: %.120s", what, wrong, at, page ? page + from : "");
}

static char *sample(const char *name) {
  char path[512], *text = NULL;
  size_t n = 0;
  vtb_error err = {0};
  snprintf(path, sizeof path, SAMPLES "%s", name);
  CHECK_MSG(vtb_file_read(path, 1 << 24, &text, &n, &err) == VTB_OK, "%s", err.text);
  char *page = text ? page_of(text, n) : NULL;
  vtb_free(text);
  check_well_formed(name, page);
  return page ? page : vtb_xstrdup("");
}

#define HAS(page, text) CHECK_MSG(strstr(page, text) != NULL, "the page lacks: %s", text)
#define LACKS(page, text) CHECK_MSG(strstr(page, text) == NULL, "the page holds: %s", text)

/* ---- what it says ---------------------------------------------------------------------------- */

TEST(a_grid_with_trainings_has_every_section) {
  char *page = sample("grid.json");
  static const char *const ids[] = {"results", "front",    "effects", "scaling", "curves",
                                    "paths",   "compiler", "against", "cells",   "machine"};
  for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
    char section[64];
    snprintf(section, sizeof section, "<section id=\"%s\">", ids[i]);
    HAS(page, section);
  }
  HAS(page, "the two are not told apart");
  HAS(page, "(a cell's own spread: 0.22)");
  HAS(page, "<details id=\"cell-7\" open=\"open\">"); /* the script folds them */
  HAS(page, "data:image/svg+xml;base64,PHN2Zy");
  HAS(page, "Pictures of 1 cell with more tokens are too large");
  HAS(page, "class=\"num better\">+22.0 %");
  HAS(page, "done, was failed");
  vtb_free(page);
}

TEST(a_sweep_says_where_the_best_mode_changes) {
  char *page = sample("sweep.json");
  HAS(page, "<b>parallel</b> is fastest up to about 481 tokens, then <b>chunkwise(64)</b>");
  HAS(page, "<b>recurrent</b> takes least memory at every size");
  HAS(page, "<b>auto</b> is within");
  LACKS(page, "section id=\"against\"");
  LACKS(page, "section id=\"front\""); /* sizes are no rivals */
  vtb_free(page);
}

/* Two modes at two sizes: level at the first, and with the same memory at both. */
static char *two_modes(const char *late_ms) {
  vtb_strbuf text = {0};
  vtb_strbuf_puts(&text, "{\"study\": {\"model\": \"m\", \"axes\": ["
                         "{\"name\": \"image\", \"values\": [\"224\", \"448\"]},"
                         "{\"name\": \"mode\", \"values\": [\"a\", \"b\"]}]}, \"cells\": [");
  const char *ms[] = {"10", "10.05", "40", late_ms};
  for (int i = 0; i < 4; i++)
    vtb_strbuf_printf(&text,
                      "%s{\"id\": \"%d\", \"label\": \"%d\", \"status\": \"done\", \"settings\": "
                      "{\"image\": \"%d\", \"mode\": \"%s\"}, \"model\": {\"tokens\": %d, "
                      "\"workspace_bytes\": %d}, \"bench\": {\"best_ms\": %s, \"spread\": 0.02, "
                      "\"rounds\": [{}, {}]}}",
                      i ? "," : "", i, i, i < 2 ? 224 : 448, i % 2 ? "b" : "a", i < 2 ? 196 : 784,
                      i < 2 ? 1000 : 4000, ms[i]);
  vtb_strbuf_puts(&text, "], \"speed_margin\": 0.02}");
  char *page = page_of(text.at, text.n);
  vtb_strbuf_free(&text);
  return page;
}

TEST(what_is_level_is_not_called_the_best) {
  char *page = two_modes("80");
  HAS(page, "<b>a</b> is fastest, or as fast as any, at every size.");
  HAS(page, "All take the same memory.");
  vtb_free(page);
  page = two_modes("40.1");
  HAS(page, "No line is told from the others in time.");
  vtb_free(page);
}

TEST(of_one_seed_nothing_is_called_certain) {
  vtb_strbuf text = {0};
  vtb_strbuf_puts(&text, "{\"study\": {\"model\": \"m\", \"axes\": ["
                         "{\"name\": \"paths\", \"values\": [\"uni\", \"bi\"]},"
                         "{\"name\": \"chunk\", \"values\": [\"16\", \"49\"]}]}, \"cells\": [");
  for (int i = 0; i < 4; i++)
    vtb_strbuf_printf(&text,
                      "%s{\"id\": \"%d\", \"label\": \"%d\", \"status\": \"done\", \"settings\": "
                      "{\"paths\": \"%s\", \"chunk\": \"%d\"}, \"train\": {\"score\": \"top1\", "
                      "\"mean\": 0.8%d, \"val_mean\": 0.8%d, \"seeds\": [{\"seed\": 0}]}}",
                      i ? "," : "", i, i, i < 2 ? "uni" : "bi", i % 2 ? 49 : 16, i, i);
  vtb_strbuf_puts(&text, "]}");
  char *page = page_of(text.at, text.n);
  vtb_strbuf_free(&text);
  HAS(page, "<code>paths</code> matters most for the score");
  HAS(page, "of one seed no spread is known, and it may be chance.");
  vtb_free(page);
}

/* Two cells, trained once each, one three times as fast as the other; what was measured of them. */
static char *once_trained(const char *more, const char *last) {
  vtb_strbuf s = {0};
  vtb_strbuf_puts(&s, "{\"study\":{\"axes\":[{\"name\":\"a\",\"values\":[\"x\",\"y\"]},"
                      "{\"name\":\"b\",\"values\":[\"p\",\"q\"]}]},\"cells\":[");
  for (int i = 0; i < 4; i++)
    vtb_strbuf_printf(&s,
                      "%s{\"id\":\"%d\",\"label\":\"cell %d\",\"settings\":{\"a\":\"%c\","
                      "\"b\":\"%c\"},\"status\":\"done\",\"model\":{\"gmacs\":%d},\"train\":{"
                      "\"score\":\"top1\",\"mean\":0.8%d,\"images\":1000,\"samples_per_sec\":%d,"
                      "\"seeds\":[{}]}%s}",
                      i ? "," : "", i, i, "xy"[i / 2], "pq"[i % 2], i + 1, i, 1000 + 1000 * i,
                      more);
  vtb_strbuf_printf(&s, "]%s}", last);
  char *page = page_of(s.at, s.n);
  check_well_formed("once trained", page);
  vtb_strbuf_free(&s);
  return page;
}

TEST(of_what_was_not_timed_in_turns_no_speed_is_concluded) {
  char *page = once_trained("", "");
  LACKS(page, "fastest");
  LACKS(page, "matters most for speed");
  HAS(page, "Quality against work"); /* by GMACs, which are exact */
  LACKS(page, "against throughput");
  HAS(page, "are of one training each");
  vtb_free(page);
  page = once_trained(",\"bench\":{\"best_ms\":1,\"samples_per_sec\":1000,\"spread\":0.1,"
                      "\"rounds\":[{}]}",
                      ""); /* of one round */
  LACKS(page, "fastest");
  LACKS(page, "matters most for speed");
  vtb_free(page);
  page = once_trained(",\"bench\":{\"best_ms\":1,\"samples_per_sec\":1000,\"spread\":0.1,"
                      "\"rounds\":[{},{}]}",
                      ",\"speed_margin\":0.3");
  HAS(page, "No cell is told from another in speed: less than 30 % is not.");
  LACKS(page, "matters most for speed");
  HAS(page, "Quality against throughput");
  vtb_free(page);
}

/* Speeds of 100, 104 and 150: the first two are fastest, whichever was ahead. */
TEST(cells_that_are_level_are_fastest_together) {
  vtb_strbuf s = {0};
  static const char *const rates[] = {"150", "100", "146"};
  vtb_strbuf_puts(&s, "{\"study\":{\"axes\":[{\"name\":\"a\",\"values\":[\"x\",\"y\",\"z\"]}]},"
                      "\"speed_margin\":0.1,\"cells\":[");
  for (int i = 0; i < 3; i++)
    vtb_strbuf_printf(&s,
                      "%s{\"id\":\"%d\",\"label\":\"%c\",\"settings\":{\"a\":\"%c\"},\"status\":"
                      "\"done\",\"bench\":{\"samples_per_sec\":%s,\"rounds\":[{},{}]}}",
                      i ? "," : "", i, "xyz"[i], "xyz"[i], rates[i]);
  vtb_strbuf_puts(&s, "]}");
  char *page = page_of(s.at, s.n);
  HAS(page, "<a href=\"#cell-0\"><b>x</b></a>, <a href=\"#cell-2\"><b>z</b></a> are fastest and "
            "not told apart, being within 10 %: up to 1.5 times ");
  vtb_free(page);
  vtb_strbuf_free(&s);
}

TEST(what_did_not_run_is_said_with_its_message) {
  char *page = sample("troubled.json");
  HAS(page, "Of 8 cells, 2 failed, 1 cannot be compiled, 1 left out by a condition, 1 not run yet");
  HAS(page, "out of memory: the workspace needs 21.4 MiB");
  HAS(page, "error[VTB3006]");
  HAS(page, "Of one seed no spread is known");
  vtb_free(page);
}

TEST(a_document_without_anything_is_a_page) {
  char *page = sample("empty.json");
  HAS(page, "The study has no cells.");
  vtb_free(page);
  CHECK(page_of("[]", 2) == NULL);
  CHECK(page_of("{}", 2) == NULL);
}

/* Two cells whose scores differ by `lead`, of three seeds with that spread. */
static char *duel(double lead, double spread) {
  vtb_strbuf s = {0};
  vtb_strbuf_puts(&s, "{\"study\":{\"axes\":[{\"name\":\"a\",\"values\":"
                      "[\"x\",\"y\"]}]},\"cells\":[");
  for (int i = 0; i < 2; i++)
    vtb_strbuf_printf(&s,
                      "%s{\"id\":\"%d\",\"settings\":{\"a\":\"%s\"},\"status\":\"done\",\"train\":{"
                      "\"score\":\"top1\",\"mean\":%g,\"spread\":%g,\"seeds\":[{},{},{}]}}",
                      i ? "," : "", i, i ? "y" : "x", 0.8 + lead * i, spread);
  vtb_strbuf_puts(&s, "]}");
  char *page = page_of(s.at, s.n);
  check_well_formed("a duel", page);
  vtb_strbuf_free(&s);
  return page;
}

TEST(bold_is_what_leads_by_more_than_chance) {
  char *page = duel(0.01, 0.001);
  HAS(page, "class=\"num best\" data-sort=\"0.81\"");
  HAS(page, "1.00 points ahead of");
  HAS(page, "more than the spread between seeds");
  vtb_free(page);
  page = duel(0.001, 0.01);
  LACKS(page, "class=\"num best\"");
  HAS(page, "class=\"num near\" data-sort=\"0.801\"");
  HAS(page, "class=\"num near\" data-sort=\"0.8\"");
  HAS(page, "not told apart");
  vtb_free(page);
}

/* ---- hostile documents ----------------------------------------------------------------------- */

TEST(texts_cannot_leave_their_place) {
  char *page = sample("hostile.json");
  LACKS(page, "<script>alert");
  LACKS(page, "</script><");
  LACKS(page, "onload=\"x");
  LACKS(page, "\xE2\x80\xAE"); /* turns the direction of what follows */
  HAS(page, "&lt;/script&gt;&lt;script&gt;alert(1)");
  HAS(page, "\\u003c/script\\u003e");
  vtb_free(page);
}

TEST(bytes_that_are_no_text_show_as_such) {
  static const char json[] =
      "{\"study\":{\"title\":\"a\xFF\x01 b\xED\xA0\x80\"},\"cells\":[{\"id\":"
      "\"\xC3\",\"label\":\"\xEF\xBF\xBE\",\"status\":\"done\"}]}";
  char *page = page_of(json, sizeof json - 1);
  check_well_formed("bytes", page);
  if (page) HAS(page, "<h1>a\\xff\\x01 b");
  vtb_free(page);
}

/* Every member of the samples in turn becomes something else. */
static void spoil(cJSON *item, cJSON *document, int *n) {
  static const char *const others[] = {"null", "-1e308", "\"<&\\\"'>\"", "[[]]", "{\"a\":{}}"};
  for (cJSON *child = item->child; child; child = child->next) {
    spoil(child, document, n);
    if (++*n % 23) continue; /* a sample of them */
    cJSON *other = cJSON_Parse(others[*n / 23 % 5]);
    cJSON kept = *child;
    child->type = other->type;
    child->valuestring = other->valuestring;
    child->valuedouble = other->valuedouble;
    child->child = other->child;
    vtb_strbuf out = {0};
    vtb_error err = {0};
    if (report_page(document, &out, &err) == VTB_OK) check_well_formed("spoilt", out.at);
    vtb_strbuf_free(&out);
    child->type = kept.type;
    child->valuestring = kept.valuestring;
    child->valuedouble = kept.valuedouble;
    child->child = kept.child;
    cJSON_Delete(other);
  }
}

TEST(members_of_other_types_are_absent) {
  char *text = NULL;
  size_t size = 0;
  vtb_error err = {0};
  CHECK(vtb_file_read(SAMPLES "troubled.json", 1 << 24, &text, &size, &err) == VTB_OK);
  cJSON *document = cJSON_ParseWithLength(text, size);
  int n = 0;
  spoil(document, document, &n);
  CHECK(n > 200);
  cJSON_Delete(document);
  vtb_free(text);
}

TEST(the_parser_of_these_tests_sees_what_is_wrong) {
  static const char *const broken[] = {"<!DOCTYPE html><a>",
                                       "<!DOCTYPE html><a></b>",
                                       "<!DOCTYPE html><a b=c></a>",
                                       "<!DOCTYPE html><a>&nbsp;</a>",
                                       "<!DOCTYPE html><a>\x01</a>",
                                       "<!DOCTYPE html><a/><b/>",
                                       "<!DOCTYPE html><a b=\"\" b=\"\"/>",
                                       "<a/>"};
  size_t at;
  for (size_t i = 0; i < sizeof broken / sizeof *broken; i++)
    CHECK_MSG(xml_check(broken[i], strlen(broken[i]), &at) != NULL, "%s passes", broken[i]);
  CHECK(xml_check("<!DOCTYPE html><a b=\"&lt;\">x</a>", 32, &at) == NULL);
}

/* ---- main effects ---------------------------------------------------------------------------- */

/* Speeds of cells by the values of two axes. */
static void read_speeds(const char *cells, rp_report *r, cJSON **document) {
  vtb_strbuf json = {0};
  vtb_strbuf_printf(&json,
                    "{\"study\": {\"axes\": [{\"name\": \"a\", \"values\": [\"x\", \"y\"]},"
                    "{\"name\": \"b\", \"values\": [\"p\", \"q\"]}]}, \"cells\": [%s]}",
                    cells);
  *document = cJSON_Parse(json.at);
  rp_read(r, *document);
  vtb_strbuf_free(&json);
}

#define SPEED(a, b, rate)                                                                          \
  "{\"status\": \"done\", \"settings\": {\"a\": \"" a "\", \"b\": \"" b "\"}, \"bench\": {"        \
  "\"samples_per_sec\": " rate "}}"

TEST(effects_are_of_cells_that_differ_in_one_axis_alone) {
  rp_report r;
  cJSON *document;
  read_speeds(SPEED("x", "p", "100") "," SPEED("y", "p", "300") "," SPEED("x", "q", "90000"), &r,
              &document);
  fx_axis f = fx_main(&r, RP_RATE, 0);
  CHECK(f.matched && f.best == 1 && f.values.at[0].n == 1);
  CHECK_NEAR(f.values.at[0].mean, 100, 1e-9);
  fx_free(&f);
  rp_free(&r);
  cJSON_Delete(document);
}

TEST(means_of_speeds_are_geometric) {
  rp_report r;
  cJSON *document;
  read_speeds(SPEED("x", "p", "100") "," SPEED("y", "p", "300") "," SPEED(
                  "x", "q", "400") "," SPEED("y", "q", "300"),
              &r, &document);
  fx_axis f = fx_main(&r, RP_RATE, 0);
  CHECK_NEAR(f.values.at[0].mean, 200, 1e-9);
  CHECK_NEAR(fx_reach(&f, true), 1.5, 1e-9);
  fx_free(&f);
  rp_free(&r);
  cJSON_Delete(document);
}

int main(void) {
  RUN(effects_are_of_cells_that_differ_in_one_axis_alone);
  RUN(means_of_speeds_are_geometric);
  RUN(a_grid_with_trainings_has_every_section);
  RUN(a_sweep_says_where_the_best_mode_changes);
  RUN(what_is_level_is_not_called_the_best);
  RUN(of_one_seed_nothing_is_called_certain);
  RUN(of_what_was_not_timed_in_turns_no_speed_is_concluded);
  RUN(cells_that_are_level_are_fastest_together);
  RUN(what_did_not_run_is_said_with_its_message);
  RUN(a_document_without_anything_is_a_page);
  RUN(bold_is_what_leads_by_more_than_chance);
  RUN(texts_cannot_leave_their_place);
  RUN(bytes_that_are_no_text_show_as_such);
  RUN(members_of_other_types_are_absent);
  RUN(the_parser_of_these_tests_sees_what_is_wrong);
  return test_done();
}
