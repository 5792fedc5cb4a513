/* Studies as YAML files, and the commands of their steps. */
#include "frontend/study/options.h"
#include "frontend/study/study.h"
#include "tests/test.h"

static vtb_error err;

static vtb_status read_text(const char *text, study *s) {
  err = (vtb_error){0};
  return study_read_text("s.yaml", text, strlen(text), s, &err);
}

static study good(const char *text) {
  study s;
  vtb_status status = read_text(text, &s);
  CHECK_MSG(status == VTB_OK, "%s in:\n%s", err.text, text);
  study_complete(&s);
  return s;
}

static void refuses(const char *text, const char *want) {
  study s;
  vtb_status status = read_text(text, &s);
  CHECK_MSG(status == VTB_E_INPUT && strstr(err.text, want), "%d, '%s', want '%s' of:\n%s",
            (int)status, err.text, want, text);
  study_free(&s);
}

/* ---- reading --------------------------------------------------------------------------------- */

TEST(every_key_has_its_field) {
  study s = good("title: Paths\nmodel: m.vtb\n"
                 "vary: {paths: [uni, [rows, cols]], mode: 'auto, chunkwise(16)'}\n"
                 "where: [a != b, c]\nsample: 4\nseed: 7\nD: {depth: 4}\nlr: 1e-3\n"
                 "options: [--batch, 8, -D, dim=3, --flip]\nbench: train\nrounds: 5\n"
                 "seconds: 0.5\ntrain: quick\ndata: d\nseeds: 3\njobs: 2\nthreads: 1\n");
  CHECK_STR(s.title, "Paths");
  CHECK_STR(s.model, "m.vtb");
  CHECK(s.axes.n == 2 && s.axes.at[0].values.n == 2 && s.axes.at[1].values.n == 2);
  CHECK_STR(s.axes.at[0].values.at[1], "[rows, cols]");
  CHECK_STR(s.axes.at[1].values.at[1], "chunkwise(16)");
  CHECK(s.where.n == 2 && s.arrangement == STUDY_SAMPLE && s.sample == 4 && s.seed == 7);
  const char *const words[] = {"-D", "depth=4", "--lr",  "1e-3",  "--batch",
                               "8",  "-D",      "dim=3", "--flip"};
  CHECK(s.options.n == 9);
  for (size_t i = 0; i < 9 && i < s.options.n; i++) CHECK_STR(s.options.at[i], words[i]);
  CHECK(s.bench && s.bench_train && s.rounds == 5 && s.seconds == 0.5);
  CHECK_STR(s.recipe, "quick");
  CHECK_STR(s.data, "d");
  CHECK(s.seeds == 3 && s.jobs == 2 && s.threads == 1);
  study_free(&s);
}

TEST(values_have_labels_and_names_vary_together) {
  study s = good("model: m\nvary:\n  paths: {two: '[rows, rows~]', one: uni}\n"
                 "  dim,heads: [[192, 3], {small: '64:2'}]\n");
  const study_axis *a = &s.axes.at[0], *b = &s.axes.at[1];
  CHECK_STR(a->labels.at[0], "two");
  CHECK_STR(a->values.at[0], "[rows, rows~]");
  CHECK(b->parts.n == 2);
  CHECK_STR(b->values.at[0], "192:3");
  CHECK_STR(b->labels.at[1], "small");
  CHECK_STR(b->values.at[1], "64:2");
  study_free(&s);
}

TEST(train_takes_options_of_train) {
  study s =
      good("model: m\nvary: [a=1]\ntrain: {recipe: quick, data: d, updates: 20, flip: true}\n");
  CHECK_STR(s.recipe, "quick");
  CHECK_STR(s.data, "d");
  CHECK(s.train.n == 3 && s.seeds == 1);
  CHECK_STR(s.train.at[1], "20");
  study_free(&s);
}

TEST(wrong_files_are_told_with_their_place) {
  refuses("model: m\nvray:\n  a: [1]\n", "s.yaml:2:1: unknown option 'vray'; did you mean 'vary'?");
  refuses("model: m\nvary: 3\n", "s.yaml:2:1: --vary takes NAME=A,B");
  refuses("model: m\nvary:\n  a: [{b: {c: d}}]\n", "s.yaml:3:8");
  refuses("model: m\nseeds: many\n", "s.yaml:2:1: 'seeds' takes a whole number from 1");
  refuses("model: m\nseeds: 1e99\n", "whole number");
  refuses("model: m\nseconds: nan\n", "number from 0");
  refuses("model: m\nbench: perhaps\n", "true or false");
  refuses("model: m\narrangement: gird\n", "grid, pairwise or one-at-a-time");
  refuses("model: m\ntrain: {ephocs: 3}\n", "unknown option 'ephocs'; did you mean 'epochs'?");
  refuses("model: m\noptions: [--lrr, 3]\n", "did you mean 'lr'?");
  refuses("model: m\noptions: [--lr]\n", "a value behind each option");
  refuses("model: m\nD: [depth]\n", "NAME: VALUE");
  refuses("vary: {a: [1]}\n", "no `model: NAME`");
  refuses("- a\n- b\n", "lines `option: value`");
  refuses("", "s.yaml is empty");
  refuses("model: [a\n", "s.yaml:");
  refuses("a: &x [*x]\nmodel: m\n", "s.yaml:");
  refuses("model: m\nmodel: n\n", "s.yaml:");
  refuses("model: m\noverrides: {overrides: {seeds: 2}}\n", "unknown option 'overrides'");
}

/* Aliases are followed, not copied, and nothing deep is walked into. */
TEST(hostile_files_end_quickly) {
  vtb_strbuf text = {0};
  vtb_strbuf_puts(&text, "model: m\nx0: &x0 [a, a]\n");
  for (int i = 1; i < 30; i++)
    vtb_strbuf_printf(&text, "x%d: &x%d [*x%d, *x%d]\n", i, i, i - 1, i - 1);
  refuses(text.at, "unknown option 'x0'");
  text.n = 0;
  vtb_strbuf_puts(&text, "model: m\nvary: {a: ");
  for (int i = 0; i < 100; i++) vtb_strbuf_putc(&text, '[');
  for (int i = 0; i < 100; i++) vtb_strbuf_putc(&text, ']');
  vtb_strbuf_puts(&text, "}\n");
  refuses(text.at, "s.yaml:");
  text.n = 0;
  vtb_strbuf_puts(&text, "model: m\nvary: {a: [");
  for (int i = 0; i < 2001; i++) vtb_strbuf_printf(&text, "%d,", i);
  vtb_strbuf_puts(&text, "]}\n");
  refuses(text.at, "at most 2000 values");
  vtb_strbuf_free(&text);
  refuses("%\x90\x90 model: m\n", "byte 2 is no UTF-8 text");
  study s;
  CHECK(study_read_text("s.yaml", "model: m\0x", 10, &s, &err) == VTB_E_INPUT);
  study_free(&s);
}

/* ---- writing --------------------------------------------------------------------------------- */

static char *text_of(const study *s) {
  vtb_strbuf out = {0};
  study_text(s, &out);
  return out.at;
}

TEST(a_file_is_kept_byte_for_byte) {
  const char *text =
      "# why\nmodel: m  # this one\n\nvary:\n  a: [1,   2]\nseeds:   3\ntrain: quick";
  study s = good(text);
  char *got = text_of(&s);
  CHECK_STR(got, text);
  vtb_free(got);
  study_free(&s);
}

TEST(what_was_changed_stands_behind_it_and_is_read_again) {
  const char *text = "# why\nmodel: m\nvary: {a: [1, 2], b: [x]}\nwhere: a == 1\ntrain: quick";
  study s = good(text), again;
  s.seeds = 4;
  study_set(&s.options, "-D", "depth", "2");
  study_texts_free(&s.where);
  char *got = text_of(&s), *twice;
  vtb_strbuf want = {0};
  vtb_strbuf_printf(&want,
                    "%s\noverrides: # as given on the command line\n  where: []\n"
                    "  D: {depth: 2}\n  seeds: 4\n",
                    text);
  CHECK_STR(got, want.at);
  again = good(got);
  CHECK(again.seeds == 4 && again.where.n == 0 && again.options.n == 2);
  twice = text_of(&again);
  CHECK_STR(twice, got);
  vtb_free(twice);
  again.seeds = 1; /* as the file says: no more an override */
  twice = text_of(&again);
  CHECK(!strstr(twice, "seeds") && strstr(twice, "depth: 2"));
  vtb_free(twice);
  vtb_free(got);
  vtb_strbuf_free(&want);
  study_free(&s);
  study_free(&again);
}

TEST(options_become_a_file_that_says_the_same) {
  study s = study_defaults();
  s.model = vtb_xstrdup("models/my model.vtb");
  s.title = vtb_xstrdup("a: \"b\" # c");
  s.recipe = vtb_xstrdup("quick");
  CHECK(study_vary(&s, "paths=uni,[rows, cols~]", &err) == VTB_OK);
  CHECK(study_vary(&s, "dim,heads=192:3,384:6", &err) == VTB_OK);
  vtb_vec_push(&s.where, vtb_xstrdup("paths != uni or mode == \"auto\""));
  study_set(&s.options, "-D", "paths2", "[rows, rows~]");
  study_set(&s.options, "--lr", NULL, "1e-3");
  study_set(&s.options, "--flip", NULL, NULL);
  study_set(&s.options, "--lr", NULL, "2e-3"); /* takes its place */
  study_complete(&s);
  char *first = text_of(&s), *second;
  study again = good(first);
  vtb_free(again.text);
  again.text = NULL;
  second = text_of(&again);
  CHECK_STR(second, first);
  CHECK_STR(again.title, s.title);
  CHECK_STR(again.axes.at[0].values.at[1], "[rows, cols~]");
  CHECK(again.options.n == s.options.n && strstr(first, "lr: 2e-3"));
  vtb_free(first);
  vtb_free(second);
  study_free(&s);
  study_free(&again);
}

/* ---- words ----------------------------------------------------------------------------------- */

static void words_are(const study *s, const study_cell *c, study_step step, const char *want) {
  study_texts words = {0};
  vtb_strbuf line = {0};
  study_words(s, c, step, 1, "report", &words);
  for (size_t i = 0; i < words.n; i++) vtb_strbuf_word(&line, words.at[i]);
  CHECK_STR(line.at, want);
  vtb_strbuf_free(&line);
  study_texts_free(&words);
}

TEST(steps_are_commands_that_can_be_pasted) {
  study s = good("model: m\nvary: {gate: [none, \"it's\"], mode: [chunkwise(16)], flip: [true]}\n"
                 "D: {depth: 4}\nlr: 1e-3\nimage: 28\ntrain: {recipe: quick, updates: 9}\ndata: d\n"
                 "bench: true\nseconds: 0.5\nthreads: 2\n");
  study_cells cells = {0};
  CHECK(study_design(&s, &cells, &err) == VTB_OK);
  const study_cell *c = &cells.at[1];
  CHECK(strstr(c->label, "it's"));
  words_are(&s, c, STUDY_CHECK,
            "vertebra check m -D depth=4 --image 28 -D 'gate=it'\\''s' --mode chunkwise --chunk 16 "
            "--train --json");
  char want[600];
  snprintf(want, sizeof want,
           "vertebra train m -D depth=4 --lr 1e-3 --image 28 -D 'gate=it'\\''s' --mode chunkwise "
           "--chunk 16 --flip --recipe quick --data d --updates 9 --seed 1 --label 'it'\\''s' "
           "--checkpoint-minutes 0.25 --out report/cells/%s/train-1 --quiet --threads 2 --json",
           c->id);
  words_are(&s, c, STUDY_TRAIN, want);
  snprintf(want, sizeof want,
           "vertebra eval m -D depth=4 --image 28 -D 'gate=it'\\''s' --mode chunkwise --chunk 16 "
           "--weights report/cells/%s/train-1/best.safetensors --data d --split test --threads 2 "
           "--json",
           c->id);
  words_are(&s, c, STUDY_EVAL, want);
  words_are(&s, c, STUDY_BENCH,
            "vertebra bench m -D depth=4 --image 28 -D 'gate=it'\\''s' --mode chunkwise --chunk 16 "
            "--seconds 0.5 --threads 2 --json");
  study_cells_free(&cells);
  study_free(&s);
}

TEST(what_a_cell_sets_replaces_what_all_have) {
  study s = good("model: m\nvary: {model: [a, b], lr: [1, 2], threads: [3]}\nlr: 5\nthreads: 1\n"
                 "train: quick\ndata: d\nbench: train\n");
  study_cells cells = {0};
  CHECK(study_design(&s, &cells, &err) == VTB_OK && cells.n == 4);
  words_are(&s, &cells.at[3], STUDY_BENCH,
            "vertebra bench b --threads 3 --train --seconds 1 --json");
  study_cells_free(&cells);
  study_free(&s);
}

int main(void) {
  RUN(every_key_has_its_field);
  RUN(values_have_labels_and_names_vary_together);
  RUN(train_takes_options_of_train);
  RUN(wrong_files_are_told_with_their_place);
  RUN(hostile_files_end_quickly);
  RUN(a_file_is_kept_byte_for_byte);
  RUN(what_was_changed_stands_behind_it_and_is_read_again);
  RUN(options_become_a_file_that_says_the_same);
  RUN(steps_are_commands_that_can_be_pasted);
  RUN(what_a_cell_sets_replaces_what_all_have);
  return test_done();
}
