/* vertebra-run: classifies images with built files, where nothing but the runtime is installed. */
#include "runtime/base/json.h"
#include "runtime/base/update.h"
#include "runtime/base/utf8.h"
#include "runtime/vertebra.h"

#include <getopt.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct runner {
  const char *file;
  vtb_open_options open; /* what becomes of it */
  int64_t top, threads;
  vtb_device device;
  vtb_session *session;
  vtb_arena arena;
  const vtb_json *names; /* of classes, the arena's; NULL: none */
  float *scores;
  int64_t batch, classes;
  int64_t seed;
  int32_t *first; /* number of a run's first image, by which random numbers are; NULL: none are */
  int bad;        /* images without a result */
} runner;

static const char usage[] =
    "usage: vertebra-run [OPTION...] FILE [IMAGE...]\n"
    "\n"
    "Classifies images with a file that `vertebra build` made; without an IMAGE it\n"
    "says what the file takes and gives. A file is a program: run those of people\n"
    "you trust.\n"
    "\n"
    "  --weights W    safetensors, .pth, shards or a folder of Hugging Face\n"
    "                 (default: the weights in FILE)\n"
    "  --allow-missing, --allow-unused\n"
    "                 parameters that W lacks keep their initial values; W may have\n"
    "                 tensors that the model lacks\n"
    "  --ema-weights  where W has averaged weights too, those\n"
    "  --seed N       of random numbers: each image has its own (default 0)\n"
    "  --top K        classes to print an image (default 3)\n"
    "  --threads N    default: VTB_THREADS, OMP_NUM_THREADS, or the cores\n"
    "  --target T     cpu or cuda (default: cpu if FILE has code for it)\n"
    "  --version, --help\n";

static void say(FILE *out, const char *before, const char *text) {
  vtb_strbuf s = {0};
  vtb_text_visible(&s, text, strlen(text));
  fprintf(out, "%s%s\n", before, vtb_strbuf_text(&s));
  vtb_strbuf_free(&s);
}

static int failed(const vtb_error *err) {
  say(stderr, "vertebra-run: ", err->text);
  return (int)err->status;
}

static int misused(const char *fmt, ...) {
  char text[512];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  say(stderr, "vertebra-run: ", text);
  fputs("try: vertebra-run --help\n", stderr);
  return VTB_E_USAGE;
}

/* ---- what is in a file ----------------------------------------------------------------------- */

static void show_array(const vtb_array *a) {
  vtb_strbuf s = {0};
  vtb_strbuf_printf(&s, "%s [", a->name);
  for (int i = 0; i < a->rank; i++)
    vtb_strbuf_printf(&s, "%s%lld", i ? ", " : "", (long long)a->dim[i]);
  vtb_strbuf_printf(&s, "]");
  say(stdout, a->kind == VTB_ARRAY_INPUT ? "  input    " : "  output   ", s.at);
  vtb_strbuf_free(&s);
}

static int show(const vtb_model *m, const char *file) {
  static const char *const roles[] = {"inference", "training step", "evaluation"};
  vtb_program_info p = {.size = sizeof p};
  vtb_array a = {.size = sizeof a};
  vtb_error err = {0};
  say(stdout, "", file);
  for (int32_t i = 0; vtb_model_program(m, i, &p, &err) == VTB_OK; i++) {
    printf("%s, batch %lld:%s%s\n", p.role <= VTB_SESSION_EVALUATE ? roles[p.role] : "other",
           (long long)p.batch, p.cpu ? " cpu" : "", p.cuda ? " cuda" : "");
    for (int32_t k = 0; k < p.n_arrays; k++) {
      if (vtb_model_array(m, i, k, &a, &err) != VTB_OK) return failed(&err);
      if (a.kind == VTB_ARRAY_INPUT || a.kind == VTB_ARRAY_OUTPUT) show_array(&a);
    }
  }
  return VTB_OK;
}

/* ---- images ---------------------------------------------------------------------------------- */

static const char *class_name(const vtb_json *names, int64_t class) {
  const vtb_json *at = names ? names->first : NULL;
  for (; at && class > 0; class --) at = at->next;
  return at && at->kind == VTB_JSON_STRING ? at->text : NULL;
}

static void show_class(const runner *r, int64_t class, double p) {
  char before[32], number[32];
  const char *name = class_name(r->names, class);
  snprintf(before, sizeof before, "  %5.1f %%  ", 100 * p);
  snprintf(number, sizeof number, "class %lld", (long long)class);
  say(stdout, before, name ? name : number);
}

static void show_image(runner *r, const char *image, const float *x) {
  double highest = x[0], sum = 0;
  double *p = vtb_xcalloc((size_t)r->classes, sizeof *p);
  for (int64_t i = 1; i < r->classes; i++)
    if ((double)x[i] > highest) highest = (double)x[i];
  for (int64_t i = 0; i < r->classes; i++) sum += p[i] = exp((double)x[i] - highest);
  say(stdout, "", image);
  if (!isfinite(sum)) puts("  not classified: its scores are not finite");
  r->bad += !isfinite(sum);
  for (int64_t k = 0; isfinite(sum) && k < r->top && k < r->classes; k++) {
    int64_t best = 0;
    for (int64_t i = 1; i < r->classes; i++)
      if (p[i] > p[best]) best = i;
    show_class(r, best, p[best] / sum);
    p[best] = -1;
  }
  vtb_free(p);
}

/* Rows that wait, and what they give. */
static int run_rows(runner *r, char **row, int64_t *rows) {
  vtb_error err = {0};
  if (*rows && vtb_session_run(r->session, *rows, &err) != VTB_OK) return failed(&err);
  for (int64_t k = 0; k < *rows; k++) show_image(r, row[k], r->scores + k * r->classes);
  if (r->first) *r->first += (int32_t)*rows;
  *rows = 0;
  return VTB_OK;
}

/* As many images at a time as the file was built for; one that cannot be read is told in its place,
 * and the others go on. */
static int classify(runner *r, char **images, int n) {
  char **row = vtb_xcalloc((size_t)r->batch, sizeof *row);
  int64_t rows = 0;
  int status = VTB_OK;
  for (int i = 0; i < n && status == VTB_OK; i++) {
    vtb_error err = {0};
    bool good = vtb_session_load_image(r->session, NULL, rows, images[i], &err) == VTB_OK;
    if (good) row[rows++] = images[i];
    if (!good || rows == r->batch || i + 1 == n) status = run_rows(r, row, &rows);
    if (good) continue;
    say(stdout, "", images[i]);
    say(stdout, "  not classified: ", err.text);
    if (r->first) ++*r->first;
    r->bad++;
  }
  vtb_free(row);
  return status == VTB_OK && r->bad ? VTB_E_INPUT : status;
}

static int32_t *whole_number(const runner *r, const char *input) {
  vtb_array a = {.size = sizeof a};
  vtb_error none = {0};
  bool there = vtb_session_array(r->session, VTB_ARRAY_INPUT, input, &a, &none) == VTB_OK;
  return there && a.rank == 0 && a.type == VTB_ARRAY_I32 ? a.data : NULL;
}

static void set_draws(runner *r) {
  int32_t *seed = whole_number(r, "seed");
  if (seed) *seed = (int32_t)r->seed;
  r->first = whole_number(r, VTB_RANK_FIRST);
}

static int open_session(runner *r, vtb_model *m, vtb_error *err) {
  vtb_behaviour how = {.size = sizeof how};
  const vtb_session_options o = {
      .size = sizeof o, .device = r->device, .threads = (int32_t)r->threads, .behaviour = &how};
  vtb_array scores = {.size = sizeof scores};
  if (vtb_options_from_environment(&how, err) != VTB_OK ||
      vtb_session_open(m, &o, &r->session, err) != VTB_OK ||
      vtb_session_array(r->session, VTB_ARRAY_OUTPUT, NULL, &scores, err) != VTB_OK)
    return failed(err);
  if (scores.rank != 2 || scores.type != VTB_ARRAY_F32 || scores.dim[1] < 1) {
    say(stderr, "vertebra-run: ", "the model gives no scores of classes: use it from a program");
    return VTB_E_INPUT;
  }
  set_draws(r);
  r->batch = scores.dim[0];
  r->classes = scores.dim[1];
  r->scores = scores.data;
  const char *names = vtb_model_meta(m, "classes");
  bool no_memory;
  size_t end;
  if (names) r->names = vtb_json_parse(names, strlen(names), &r->arena, &no_memory, &end);
  return VTB_OK;
}

static void say_weights(void *user, const char *line) {
  (void)user;
  char text[1024];
  snprintf(text, sizeof text, "%.*s", (int)strcspn(line, "\n"), line);
  say(stderr, "", text);
}

static int run_file(runner *r, char **images, int n) {
  vtb_model *m = NULL;
  vtb_error err = {0};
  vtb_arena_init(&r->arena);
  if (vtb_model_open(r->file, &r->open, &m, &err) != VTB_OK) return failed(&err);
  int status = n ? open_session(r, m, &err) : show(m, r->file);
  if (n && status == VTB_OK) status = classify(r, images, n);
  vtb_session_close(r->session);
  vtb_model_release(m);
  vtb_arena_free(&r->arena);
  if (fflush(stdout) != 0 || ferror(stdout)) {
    say(stderr, "vertebra-run: ", "cannot write to standard output");
    return VTB_E_INPUT;
  }
  return status;
}

/* ---- options --------------------------------------------------------------------------------- */

static bool read_number(const char *text, int64_t least, int64_t most, int64_t *out) {
  char *end;
  long long v = strtoll(text, &end, 10);
  *out = v;
  return *text && !*end && v >= least && v <= most;
}

int main(int argc, char **argv) {
  static const struct option options[] = {{"weights", required_argument, NULL, 'w'},
                                          {"allow-missing", no_argument, NULL, 'm'},
                                          {"allow-unused", no_argument, NULL, 'u'},
                                          {"ema-weights", no_argument, NULL, 'e'},
                                          {"top", required_argument, NULL, 't'},
                                          {"threads", required_argument, NULL, 'n'},
                                          {"seed", required_argument, NULL, 's'},
                                          {"target", required_argument, NULL, 'd'},
                                          {"version", no_argument, NULL, 'v'},
                                          {"help", no_argument, NULL, 'h'},
                                          {0}};
  runner r = {.top = 3, .open = {.size = sizeof r.open, .verify = true, .say = say_weights}};
  opterr = 0;
  for (int c; (c = getopt_long(argc, argv, "h", options, NULL)) != -1;) {
    switch (c) {
    case 'w':
      r.open.weights = optarg;
      break;
    case 'm':
      r.open.allow_missing = true;
      break;
    case 'u':
      r.open.allow_unused = true;
      break;
    case 'e':
      r.open.averages = true;
      break;
    case 't':
      if (!read_number(optarg, 1, 1000000, &r.top))
        return misused("--top is a number, not '%s'", optarg);
      break;
    case 'n':
      if (!read_number(optarg, 1, 1024, &r.threads))
        return misused("--threads is a number from 1 to 1024, not '%s'", optarg);
      break;
    case 's':
      if (!read_number(optarg, 0, INT32_MAX, &r.seed))
        return misused("--seed is a number from 0 to %d, not '%s'", INT32_MAX, optarg);
      break;
    case 'd':
      if (strcmp(optarg, "cpu") != 0 && strcmp(optarg, "cuda") != 0)
        return misused("--target is cpu or cuda, not '%s'", optarg);
      r.device = optarg[1] == 'p' ? VTB_DEVICE_CPU : VTB_DEVICE_CUDA;
      break;
    case 'v':
      return printf("vertebra-run %s\n", vtb_version()) < 0;
    case 'h':
      return fputs(usage, stdout) < 0;
    default:
      return misused("no option '%s', or it lacks its value", argv[optind - 1]);
    }
  }
  if (optind == argc) return misused("a built FILE is needed");
  r.file = argv[optind];
  return run_file(&r, argv + optind + 1, argc - optind - 1);
}
