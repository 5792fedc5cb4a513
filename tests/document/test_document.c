/* One document, printed four times. */
#include "frontend/document/document.h"
#include "tests/test.h"

#include <math.h>

static const char *write_size(double x, char *buf, size_t size) {
  snprintf(buf, size, "%.0f K", x / 1024);
  return buf;
}

static const doc_column columns[] = {
    {"name", "what", .width = -4, .most = -20},
    {"ms", "ms", .width = 7, .format = "%.2f", .scale = 1e3, .optional = true},
    {"bytes", "size", .write = write_size},
    {.key = "shape"},
    {.heading = "share", .width = 6, .format = "%.0f %%", .scale = 100, .none = "-"},
    {"never", "never", .optional = true},
    {"from", "from", .width = -1},
};

static doc *make(void) {
  doc *d = doc_new(doc_object(F("model", "vil"), K("threads", NAN), F("spread", NAN)));
  cJSON *rows = cJSON_AddArrayToObject(d->json, "rows");
  doc_say(d, 4, "vil on %d threads, which is a long sentence", 2);
  doc_table *t = DOC_TABLE(d, rows, columns);
  t->cut = 4;
  doc_row(d, t, V("a|b"), V(0.0125), V(2048), V(doc_numbers((const int64_t[]){2, 3}, 2)), V(0.5),
          V((const char *)NULL), V("blocks.0.norm"));
  doc_row(d, t, V("a name of more than 20"), V(NAN), V(4096), V((bool)true), V(NAN),
          V((const char *)NULL), V("x"));
  doc_row(d, t, V("c"), V(NAN), V(NAN), V(1), V(NAN), V((const char *)NULL), V("y"));
  doc_end_row(d, t, 1, "failed: %s", "why");
  doc_row(d, t, V("hidden"), V(1.0), V(1), V(1), V(NAN), V((const char *)NULL), V("z"));
  doc_hide_row(t);
  doc_sentence_row(d, t, "\033[1msaid");
  doc_put(d->json, F("spread", 0.25));
  return d;
}

TEST(terminals_read_what_fits) {
  doc *d = make();
  vtb_strbuf all = {0}, some = {0};
  doc_put_text(d, 0, &all);
  CHECK_STR(all.at, "vil on 2 threads, which is a long sentence\n"
                    "what       ms  size   share  from\n"
                    "a|b     12.50   2 K    50 %  blocks.0.norm\n"
                    "a name of more than 20\n"
                    "                4 K       -  x\n"
                    "c     failed: why\n"
                    "\\x1b[1msaid\n");
  doc_put_text(d, 40, &some);
  CHECK_STR(some.at, "vil on 2 threads, which is a long\n"
                     "    sentence\n"
                     "what       ms  size   share  from\n"
                     "a|b     12.50   2 K    50 %  blocks.0...\n"
                     "a name of more than 20\n"
                     "                4 K       -  x\n"
                     "c     failed: why\n"
                     "\\x1b[1msaid\n");
  vtb_strbuf_free(&all);
  vtb_strbuf_free(&some);
  doc_free(d);
}

TEST(programs_read_all_of_it) {
  doc *d = make();
  char *json = cJSON_PrintUnformatted(d->json);
  CHECK_STR(json, "{\"model\":\"vil\",\"rows\":["
                  "{\"name\":\"a|b\",\"ms\":0.0125,\"bytes\":2048,\"shape\":[2,3],"
                  "\"from\":\"blocks.0.norm\"},"
                  "{\"name\":\"a name of more than 20\",\"bytes\":4096,\"shape\":true,"
                  "\"from\":\"x\"},"
                  "{\"name\":\"c\",\"bytes\":null,\"shape\":1,\"from\":\"y\"},"
                  "{\"name\":\"hidden\",\"ms\":1,\"bytes\":1,\"shape\":1,\"from\":\"z\"}],"
                  "\"spread\":0.25}");
  cJSON_free(json);
  vtb_strbuf csv = {0};
  doc_put_csv(d, &csv);
  CHECK_STR(csv.at, "name,ms,bytes,shape,share,never,from\n"
                    "a|b,0.0125,2048,,0.5,,blocks.0.norm\n"
                    "a name of more than 20,,4096,true,,,x\n"
                    "c,,,1,,,y\n"
                    "hidden,1,1,1,,,z\n");
  vtb_strbuf_free(&csv);
  doc_free(d);
}

TEST(pages_read_the_table) {
  doc *d = make();
  vtb_strbuf page = {0};
  doc_put_markdown(d, &page);
  CHECK_STR(page.at, "vil on 2 threads, which is a long sentence\n"
                     "\n"
                     "| what | ms | size | share | from |\n"
                     "| --- | --- | --- | --- | --- |\n"
                     "| a\\|b | 12.50 | 2 K | 50 % | blocks.0.norm |\n"
                     "| a name of more than 20 |  | 4 K | - | x |\n"
                     "| c | failed: why |  |  |  |\n"
                     "| \\x1b[1msaid |  |  |  |  |\n");
  vtb_strbuf_free(&page);
  doc_free(d);
}

int main(void) {
  RUN(terminals_read_what_fits);
  RUN(programs_read_all_of_it);
  RUN(pages_read_the_table);
  return test_done();
}
