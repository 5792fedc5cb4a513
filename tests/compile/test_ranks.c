/* Models trained by several ranks: losses, gradients and updated parameters are those of one
 * process, whatever the model does with its batch. */
#include "tests/compile/ranks.h"
#include "tests/compile/rank_models.h"

static char models[512], examples[512];

static const char *source; /* of the models; NULL: files */

static const char *target; /* NULL: the CPU */
static int64_t accumulate;
static int shard = -1; /* the rank whose share of the optimiser's state it is; -1: all */

static vtb_program *step_of(const char *model, const char *optimizer, int64_t batch, int ranks) {
  const char *search[] = {models, VTB_SOURCE_DIR "/tests/std", NULL};
  vtb_compile_options o = {.size = sizeof o,
                           .model = model,
                           .text = source,
                           .batch = batch,
                           .training = true,
                           .optimizer = optimizer,
                           .ranks = ranks,
                           .target = target,
                           .accumulate = accumulate,
                           .shard = shard >= 0,
                           .rank = shard < 0 ? 0 : shard,
                           .no_tuning = true,
                           .search = search,
                           .n_search = 2};
  vtb_program *p = NULL;
  vtb_report *r = vtb_report_new();
  vtb_status status = vtb_compile(&o, &p, r);
  char *text = vtb_report_text(r, false);
  CHECK_MSG(status == VTB_OK, "%s: %s%s", model, text, vtb_report_error(r));
  free(text);
  vtb_report_free(r);
  if (status != VTB_OK) exit(1);
  return p;
}

/* At 12 rows; bits repeat. */
static void check_model(const char *model, const char *optimizer, const int *counts) {
  enum { ROWS = 12 };
  rank_run one, runs[MOST_RANKS], again[MOST_RANKS];
  vtb_program *p = step_of(model, optimizer, ROWS, 0);
  CHECK(p->ranks == 0);
  run_ranks(p, 1, &one);
  CHECK(one.services.n_sums == 0);
  for (int i = 0; counts[i]; i++) {
    int n = counts[i];
    vtb_program *q = step_of(model, optimizer, ROWS / n, n);
    CHECK(q->ranks == n && q->batch == ROWS / n);
    run_ranks(q, n, runs);
    compare(model, &one, runs, n, 2e-5);
    run_ranks(q, n, again);
    for (int t = 0; t < q->n_tensors; t++)
      CHECK(memcmp(runs[n - 1].args[t], again[n - 1].args[t], bytes_of(&q->tensors[t])) == 0);
    CHECK(runs[0].services.n_waits <= runs[0].services.n_sums);
    for (int r = 0; r < n; r++) rank_close(&runs[r]), rank_close(&again[r]);
    vtb_program_free(q);
  }
  rank_close(&one);
  vtb_program_free(p);
}

TEST(models) {
  static const int four[] = {4, 0}, two[] = {2, 0};
  check_model("vil_nano", "sgd", four);
  check_model("vim_nano", "lamb", two);
}

TEST(what_depends_on_the_batch) {
  static const int counts[] = {3, 4, 0};
  source = mixed;
  vtb_program *p = step_of("mixed.vtb", "sgd", 6, 2);
  CHECK(vtb_program_find(p, VTB_RANK_FIRST) >= 0);
  vtb_program_free(p);
  check_model("mixed.vtb", "sgd", counts);
  source = NULL;
}

TEST(batch_norm_of_tokens) {
  static const int counts[] = {2, 3, 0};
  source = normed;
  check_model("normed.vtb", "sgd", counts);
  source = NULL;
}

/* Samples that meet others of all ranks: attention to them, a partner, the largest of all. */
static const char paired[] =
    "use std.nn\n"
    "model paired() {\n"
    "  input image: image[1, 4, 4]\n"
    "  x = mean(patch_embed(\"p\", image, 8, 2), axis = \"tokens\")\n"
    "  near = softmax(einsum(\"ic,jc->ij\", x, tanh(x)))\n"
    "  y = x + einsum(\"ij,jc->ic\", near, x) + 0.3 * roll(x, 1, axis = \"B\")\n"
    "  y *= 1 + 0.1 * amax(x, axis = \"B\")\n"
    "  output logits = linear(\"head\", y, 3)\n"
    "}\n";

TEST(samples_that_meet) {
  static const int counts[] = {2, 3, 0};
  source = paired;
  check_model("paired.vtb", "sgd", counts);
  source = NULL;
}

/* Emulated CUDA tells of gradients as it does without ranks, and of sums inside the step. */
TEST(on_a_device) {
  enum { ROWS = 6 };
  rank_run one, runs[2];
  vtb_program *both[2], *p;
  source = mixed;
  target = "cuda-emulated";
  p = step_of("mixed.vtb", "sgd", ROWS, 0);
  run_ranks(p, 1, &one);
  for (int r = 0; r < 2; r++) both[r] = step_of("mixed.vtb", "sgd", ROWS / 2, 2);
  run_programs(both, 2, runs);
  compare("mixed.vtb", &one, runs, 2, 2e-5);
  int inside = runs[0].services.n_inside, sums = runs[0].services.n_sums;
  CHECK_MSG(inside > 6 && sums == both[0]->n_buckets && p->n_buckets == sums - inside,
            "%d sums, %d inside; %d buckets", sums, inside, p->n_buckets);
  for (int r = 0; r < 2; r++) {
    rank_close(&runs[r]);
    vtb_program_free(both[r]);
  }
  rank_close(&one);
  vtb_program_free(p);
  source = target = NULL;
}

/* ---- several runs an update, sharded states -------------------------------------------------- */

static const char plain[] =
    "use std.nn\n"
    "block layer(x: tokens) {\n"
    "  return x + survival(0.3) * dropout(mlp(\"mlp\", layer_norm(\"norm\", x), 16), 0.2)\n"
    "}\n"
    "model plain() {\n"
    "  input image: image[1, 6, 6]\n"
    "  x = patch_embed(\"p\", image, 8, 2)\n"
    "  repeat 2 as i scope \"layers.{i}\" { x = layer(x) }\n"
    "  output logits = linear(\"head\", mean(x, axis = \"tokens\"), 5)\n"
    "}\n";

/* K runs of 12 / (n K) rows are one of 12; only the last counts, sums and moves anything. */
static void check_pieces(int n, int pieces, const char *where, const char *optimizer) {
  rank_run one, runs[MOST_RANKS];
  vtb_program *p, *each[MOST_RANKS];
  source = plain;
  all_count = true;
  target = where;
  p = step_of("plain.vtb", optimizer, 12, 0);
  run_ranks(p, 1, &one);
  accumulate = test_pieces = pieces;
  for (int r = 0; r < n; r++) each[r] = step_of("plain.vtb", optimizer, 12 / (n * pieces), n);
  CHECK(vtb_program_find(each[0], VTB_RANK_FIRST) >= 0);
  run_programs(each, n, runs);
  accumulate = 0;
  test_pieces = 1;
  compare("plain.vtb", &one, runs, n, 2e-5);
  const rank_services *s = &runs[0].services;
  CHECK_MSG(runs[0].n_counted == 1, "%d runs count", runs[0].n_counted);
  if (n > 1 && !where) {
    int gradients = 0;
    for (int i = 0; i < p->n_tensors; i++) gradients += p->tensors[i].io == VTB_IO_GRAD_OUT;
    CHECK_MSG(s->n_sums - 2 * pieces == gradients, "%d sums of %d gradients", s->n_sums, gradients);
  }
  if (where) { /* gradients are told once, other sums in every run */
    int gradients = each[0]->n_buckets - s->n_inside / pieces;
    CHECK_MSG(gradients > 0 && s->n_sums == s->n_inside + gradients, "%d sums, %d inside",
              s->n_sums, s->n_inside);
  }
  for (int i = 0; i < each[0]->n_tensors; i++) {
    const vtb_tensor_info *t = &each[0]->tensors[i];
    if (t->io != VTB_IO_STATE || !vtb_starts_with(t->name, VTB_ACCUMULATED)) continue;
    for (int64_t k = 0; k < vtb_tensor_info_count(t); k++)
      CHECK(((float *)runs[0].args[i])[k] == 0);
  }
  for (int r = 0; r < n; r++) {
    rank_close(&runs[r]);
    vtb_program_free(each[r]);
  }
  rank_close(&one);
  vtb_program_free(p);
  source = target = NULL;
  all_count = false;
}

TEST(pieces_of_an_update) {
  check_pieces(1, 3, NULL, "sgd");
  check_pieces(2, 2, NULL, "sgd");
  check_pieces(3, 2, NULL, "lamb");
  check_pieces(2, 3, "cuda-emulated", "sgd");
}

/* Every tensor is updated by one rank, to the bits that it has unsharded, and that rank has its
 * states. */
static void check_shards(int n) {
  rank_run whole[MOST_RANKS], runs[MOST_RANKS];
  vtb_program *p, *each[MOST_RANKS];
  double least = INFINITY, most = 0;
  source = plain;
  p = step_of("plain.vtb", "adamw", 4, n);
  for (shard = 0; shard < n; shard++) each[shard] = step_of("plain.vtb", "adamw", 4, n);
  shard = -1;
  run_ranks(p, n, whole);
  run_programs(each, n, runs);
  for (int i = 0; i < p->n_tensors; i++) {
    const vtb_tensor_info *t = &p->tensors[i];
    int owners = 0;
    for (int r = 0; r < n; r++) {
      int at = vtb_program_find(each[r], t->name);
      owners += at >= 0;
      if (at >= 0 && t->io != VTB_IO_INPUT && t->io != VTB_IO_PARAM)
        CHECK_MSG(memcmp(runs[r].args[at], whole[r].args[i], bytes_of(t)) == 0, "%d ranks: %s", n,
                  t->name);
    }
    bool dealt = t->io == VTB_IO_STATE || t->io == VTB_IO_UPDATE;
    if (strcmp(t->name, VTB_UPDATE_RATES) != 0)
      CHECK_MSG(owners == (dealt ? 1 : n), "%s: %d of %d ranks", t->name, owners, n);
  }
  for (int r = 0; r < n; r++) {
    double has = 0;
    for (int i = 0; i < each[r]->n_tensors; i++)
      if (each[r]->tensors[i].io == VTB_IO_STATE)
        has += (double)vtb_tensor_info_count(&each[r]->tensors[i]);
    least = fmin(least, has), most = fmax(most, has);
    rank_close(&runs[r]), rank_close(&whole[r]);
    vtb_program_free(each[r]);
  }
  CHECK_MSG(most <= 2 * least, "%d ranks have states from %g to %g", n, least, most);
  vtb_program_free(p);
  source = NULL;
}

TEST(sharded_states) {
  check_shards(2);
  check_shards(3);
}

/* Where the services know of no other ranks a program for several does not run. */
TEST(alone) {
  rank_run run;
  vtb_program *p = step_of("vil_nano", "sgd", 2, 2);
  rank_open(&run, p, 0, 1, NULL);
  run_rank(&run);
  CHECK(run.status == VTB_E_USAGE);
  CHECK_STR(run.err.text,
            "the program is made for 2 processes that run it together, and here is one");
  rank_close(&run);
  vtb_program_free(p);
}

static char *stage(const char *model, const char *name, int ranks, const char *whose) {
  const char *search[] = {models};
  vtb_compile_options o = {.size = sizeof o,
                           .model = model,
                           .text = source,
                           .batch = 2,
                           .training = true,
                           .optimizer = "adamw",
                           .ranks = ranks,
                           .target = whose,
                           .no_tuning = true,
                           .search = search,
                           .n_search = 1};
  vtb_report *r = vtb_report_new();
  char *text = NULL;
  if (vtb_compile_stage(&o, name, NULL, &text, r) != VTB_OK) text = vtb_report_text(r, false);
  vtb_report_free(r);
  return text;
}

static int count(const char *text, const char *what) {
  int n = 0;
  for (const char *at = text; (at = strstr(at, what)); at += strlen(what)) n++;
  return n;
}

/* One rank is none, to the byte; of several the kernels are the same, and sums come besides. */
TEST(kernels_stay) {
  static const char *const names[] = {"vil_nano", "swin_nano", "convnext_nano"};
  for (int i = 0; i < 3; i++) {
    char *alone = stage(names[i], "fused", 0, "cpu"), *one = stage(names[i], "fused", 1, "cpu"),
         *two = stage(names[i], "fused", 2, "cpu");
    CHECK_STR(one, alone);
    CHECK(count(alone, "sum_ranks") == 0 && count(two, "sum_ranks") > 10);
    CHECK_MSG(count(two, "= fused @") == count(alone, "= fused @"), "%s: %d and %d kernels",
              names[i], count(two, "= fused @"), count(alone, "= fused @"));
    CHECK(count(two, "= einsum") == count(alone, "= einsum"));
    vtb_free(alone), vtb_free(one), vtb_free(two);
  }
}

/* Sums of gradients begin behind what makes them, not at the end. */
TEST(sums_begin_early) {
  char *text = stage("vil_nano", "fused", 2, "cpu");
  const char *last = strstr(text, "verdict %"), *first = strstr(text, "sum_ranks");
  int early = 0;
  for (const char *at = first; at && at < last; at = strstr(at + 1, "sum_ranks")) {
    const char *made = at;
    while (made > text && made[-1] != '\n') made--;
    early += strstr(at, "= call @") != NULL && strstr(at, "= call @") < last;
  }
  CHECK_MSG(early > 60, "%d", early);
  vtb_free(text);
}

TEST(what_cannot_be_shared_out) {
  source = "use std.nn\n"
           "block squash(pairs: tensor) { return tanh(pairs) }\n"
           "model m() {\n"
           "  input image: image[1, 4, 4]\n"
           "  x = mean(patch_embed(\"p\", image, 8, 2), axis = \"tokens\")\n"
           "  y = x * sum(squash(einsum(\"ic,jc->ij\", x, x)))\n"
           "  output logits = linear(\"head\", y, 3)\n"
           "}\n";
  char *text = stage("m.vtb", "grad", 3, NULL);
  CHECK_MSG(strstr(text, "m.vtb:6:") && strstr(text, "error[VTB3203]: call cannot be shared out "
                                                     "over 3 processes: it pairs the rows"),
            "%s", text);
  CHECK(strstr(text, "help: sums and means over the batch can"));
  free(text);
  text = stage("m.vtb", "grad", 1, NULL);
  CHECK_MSG(strstr(text, "func @train"), "%s", text);
  vtb_free(text);
  source = NULL;
}

int main(int argc, char **argv) {
  snprintf(models, sizeof models, "%s/models", VTB_SOURCE_DIR);
  snprintf(examples, sizeof examples, "%s/models/examples", VTB_SOURCE_DIR);
  if (argc > 1) {
    static const int counts[] = {2, 3, 0};
    for (int i = 1; i < argc; i++) check_model(argv[i], "sgd", counts), printf("%s\n", argv[i]);
    return test_done();
  }
  RUN(models);
  RUN(what_depends_on_the_batch);
  RUN(batch_norm_of_tokens);
  RUN(on_a_device);
  RUN(pieces_of_an_update);
  RUN(sharded_states);
  RUN(alone);
  RUN(kernels_stay);
  RUN(sums_begin_early);
  RUN(samples_that_meet);
  RUN(what_cannot_be_shared_out);
  return test_done();
}
