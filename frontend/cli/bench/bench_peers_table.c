/* The table of rounds with peers: a row a participant, and why others have none. */
#include "frontend/cli/bench/bench_peers.h"
#include "frontend/study/json.h"

#include "codegen/codegen.h"

#include <math.h>
#include <string.h>

struct bench_peers_table {
  const bench_options *options;
  doc *d;
  doc_table *t;
  cJSON *cells;
  cJSON *told; /* sentences about participants, each once */
};

/* Three figures. */
static const char *write_ms(double ms, char *buf, size_t size) {
  snprintf(buf, size, "%.*f", ms < 0.1 ? 5 : ms < 1 ? 4 : ms < 10 ? 3 : 2, ms);
  return buf;
}

static const doc_column columns[] = {
    {.key = "model"},
    {.key = "img_size"},
    {.key = "threads"},
    {.key = "batch"},
    {"name", "", .width = -15},
    {"best_ms", "best ms", .width = 8, .write = write_ms},
    {"median_ms", "median", .width = 8, .write = write_ms},
    {"ratio_of_bests", "ratio", .width = 5, .format = "%.2f"},
    {"ratio_of_medians", "ratio", .width = 5, .format = "%.2f"},
    {"best_cpu_ms", "cpu ms", .width = 7, .write = write_ms},
    {"gflops", "GFLOP/s", .width = 7, .format = "%.0f"},
    {"difference", "differs", .width = 7, .format = "%.0e"},
    {.key = "about"},
    {.key = "missing"},
};
enum { BEST = 5 };

bench_peers_table *bench_peers_table_new(const bench_options *o) {
  bench_peers_table *t = vtb_xcalloc(1, sizeof *t);
  vtb_strbuf host = {0};
  vtb_error none = {0};
  t->options = o;
  t->d = doc_new(doc_object(F("timed", bench_what_is_timed(o))));
  if (vtb_codegen_describe_host(&host, &none) == VTB_OK)
    doc_put(t->d->json, F("processor", host.at));
  if (o->model.compile.cpu) doc_put(t->d->json, F("cpu", o->model.compile.cpu));
  t->cells = cJSON_AddArrayToObject(t->d->json, "peers");
  t->told = cJSON_CreateObject();
  doc_say(t->d, 4, "%s%s%s; timed: %s", vtb_strbuf_text(&host),
          o->model.compile.cpu ? ", held to " : "",
          o->model.compile.cpu ? o->model.compile.cpu : "", bench_what_is_timed(o));
  t->t = DOC_TABLE(t->d, t->cells, columns);
  t->t->indent = 2;
  vtb_strbuf_free(&host);
  return t;
}

static cJSON *rounds_of(const bench_participant *p) {
  cJSON *list = cJSON_CreateArray();
  for (size_t i = 0; i < p->rounds.n; i++)
    doc_item(list, F("best_ms", 1e3 * p->rounds.at[i].best),
             F("median_ms", 1e3 * p->rounds.at[i].median), F("runs", p->rounds.at[i].runs));
  return list;
}

static void note(bench_peers_table *t, const char *name, const char *what, const char *kind) {
  char *sentence = what ? vtb_need(vtb_strprintf("%s: %s%s", name, kind, what)) : NULL;
  if (what && !cJSON_HasObjectItem(t->told, sentence)) doc_put(t->told, F(sentence, true));
  vtb_free(sentence);
}

static bool is_measured(const bench_participant *p) { return p->rounds.n && !p->missing; }

void bench_peers_table_add(bench_peers_table *t, const bench_peers_cell *cell) {
  bench_timing ours = bench_join(cell->at[0].rounds.at, cell->at[0].rounds.n);
  doc_sentence_row(t->d, t->t, "%s %s, batch %lld, %d thread%s", cell->model, cell->size,
                   (long long)cell->batch, cell->threads, cell->threads == 1 ? "" : "s");
  for (size_t i = 0; i < cell->n; i++) {
    const bench_participant *p = &cell->at[i];
    bool measured = is_measured(p);
    bench_timing all = measured ? bench_join(p->rounds.at, p->rounds.n)
                                : (bench_timing){.best = NAN, .median = NAN, .cpu = NAN};
    cJSON *row = doc_row(t->d, t->t, V(cell->model), V((const char *)cell->size), V(cell->threads),
                         V(cell->batch), V(p->name), V(1e3 * all.best), V(1e3 * all.median),
                         V(i ? all.best / ours.best : (double)NAN),
                         V(i ? all.median / ours.median : (double)NAN), V(1e3 * all.cpu),
                         V(1e-9 * cell->flops / all.best), V(measured ? p->difference : NAN),
                         V(p->about), V(p->missing));
    doc_put(row, F("rounds", rounds_of(p)));
    if (!measured) doc_end_row(t->d, t->t, BEST, "  missing: %s", p->missing);
    note(t, p->name, p->about, "");
    note(t, p->name, p->missing, "missing: ");
  }
}

static vtb_status write_csv(const char *path, const doc *d) {
  vtb_error err = {0};
  vtb_strbuf text = {0};
  vtb_status status = VTB_OK;
  doc_put_csv(d, &text);
  if (strcmp(path, "-") == 0)
    fwrite(text.at, 1, text.n, stdout);
  else
    status = vtb_file_write_atomic(path, text.at, text.n, &err);
  vtb_strbuf_free(&text);
  return status == VTB_OK ? VTB_OK : cli_error(&err);
}

vtb_status bench_peers_table_finish(bench_peers_table *t) {
  const cJSON *one;
  const char *csv = t->options->csv;
  vtb_status status = csv ? write_csv(csv, t->d) : VTB_OK;
  doc_say(t->d, 0, "%s", "");
  cJSON_ArrayForEach(one, t->told) doc_say(t->d, 4, "%s", one->string);
  doc_say(t->d, 4,
          "ratios: of its best time to ours, and of the medians; differs: the largest "
          "difference of a number from ours, by the largest of them");
  if (vtb_streq(csv, "-"))
    doc_free(t->d);
  else
    cli_tell(t->d);
  cJSON_Delete(t->told);
  vtb_free(t);
  return status;
}
