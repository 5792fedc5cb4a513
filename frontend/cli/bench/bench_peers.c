/* vertebra bench --peers: the same model by this project and by its peers, in rounds in which they
 * take turns, so that what else a machine does meets all of them. Nothing of one runs while another
 * is timed: peers wait for their next job, and this project's threads end with their round. */
#include "frontend/cli/bench/bench_peers.h"
#include "frontend/cli/bench/bench_sweep.h"
#include "frontend/cli/interrupt.h"
#include "frontend/cli/load/built.h"
#include "frontend/cli/say/progress.h"
#include "frontend/study/split.h"
#include "frontend/study/statistics.h"

#include <math.h>
#include <string.h>

enum { ROUNDS = 5 };
static const double seconds_each = 1;

/* Names of peers.py, and of the table. */
static const struct {
  const char *name, *shown;
} known[] = {{"onnxruntime", "ONNX Runtime"},
             {"openvino", "OpenVINO"},
             {"torch", "PyTorch"},
             {"torch.compile", "torch.compile"}};
enum { KNOWN = sizeof known / sizeof *known, MOST = 1 + KNOWN };

/* The measurement of one combination. */
typedef struct contest {
  bench_peers_case c;
  bench_participant at[MOST];
  size_t n;
  int64_t rounds;
  double seconds;
  bench_watch watch;
  const volatile int *stop;
} contest;

/* ---- who takes part -------------------------------------------------------------------------- */

static bool takes_part(const bench_options *o, const char *name) {
  return !o->only.n || cli_is_among(name, o->only.at, o->only.n);
}

/* Opens the model in a peer's process; what cannot be is missing. */
static vtb_status open_peer(contest *x, bench_participant *p, const char *name, vtb_error *err) {
  char *said = vtb_need(vtb_strprintf("%s.log", name)), *log = bench_peers_file(&x->c, said);
  cli_progress_note("%s opens %s", p->name, x->c.model);
  vtb_status status = bench_peer_start(&p->process, x->c.options->python, name, log, err);
  cJSON *job = doc_object(F("open", cJSON_Duplicate(x->c.job, true)));
  cJSON *answer = NULL;
  if (status == VTB_OK)
    answer = bench_peer_ask(&p->process, job, x->stop, &p->missing);
  else
    cJSON_Delete(job);
  if (answer) p->about = vtb_xstrdup(study_text_of(answer, "about"));
  p->difference = study_number(answer, "difference");
  cJSON_Delete(answer);
  vtb_free(log);
  vtb_free(said);
  return status;
}

static vtb_status open_peers(contest *x, vtb_error *err) {
  x->at[x->n++] = (bench_participant){
      .name = "Vertebra", .about = vtb_xstrdup(VTB_VERSION), .difference = (double)NAN};
  vtb_status status = VTB_OK;
  for (int i = 0; i < KNOWN && status == VTB_OK && !*x->stop; i++) {
    if (!takes_part(x->c.options, known[i].name)) continue;
    bench_participant *p = &x->at[x->n++];
    *p = (bench_participant){.name = known[i].shown, .difference = (double)NAN};
    status = open_peer(x, p, known[i].name, err);
  }
  return status;
}

/* ---- rounds ---------------------------------------------------------------------------------- */

static vtb_status time_ours(contest *x, bench_timing *out, vtb_error *err) {
  const bench_options *o = x->c.options;
  vtb_services *services = vtb_need(vtb_services_default((int)o->model.threads));
  vtb_optim *u = NULL;
  vtb_status status = cli_measured_update(x->c.program, x->c.buffers, &u, err);
  if (status == VTB_OK)
    status = bench_time(x->c.program, x->c.buffers, x->c.workspace, services, o->runs, x->seconds,
                        u, out, err);
  vtb_optim_free(u);
  vtb_services_free(services);
  return status;
}

static void time_peer(contest *x, bench_participant *p) {
  cJSON *answer = bench_peer_ask(
      &p->process, doc_object(F("runs", x->c.options->runs), F("seconds", x->seconds)), x->stop,
      &p->missing);
  const cJSON *times = study_member(answer, "times"), *one;
  size_t n = (size_t)cJSON_GetArraySize(times), k = 0;
  double *seconds = vtb_xcalloc(n + 1, sizeof *seconds), sum = 0;
  cJSON_ArrayForEach(one, times) sum += seconds[k++] = one->valuedouble;
  bench_timing t = {study_least(seconds, n), study_median(seconds, n), sum / (double)n,
                    study_number(answer, "cpu"), (int64_t)n};
  if (n) vtb_vec_push(&p->rounds, t);
  if (answer && !n) p->missing = vtb_xstrdup("its answer has no times");
  vtb_free(seconds);
  cJSON_Delete(answer);
}

static void show(const contest *x, int64_t round, const bench_participant *p) {
  cli_line l = {0};
  cli_line_add(&l, "round %lld/%lld", (long long)round + 1, (long long)x->rounds);
  cli_line_add(&l, "%s", p->name);
  cli_progress_show(&l, (double)round / (double)x->rounds);
}

/* Each round begins with another one. */
static vtb_status run_round(contest *x, int64_t round, vtb_error *err) {
  vtb_status status = VTB_OK;
  for (size_t k = 0; k < x->n && status == VTB_OK && !*x->stop; k++) {
    bench_participant *p = &x->at[(k + (size_t)round) % x->n];
    bench_timing t = {0};
    if (p->missing) continue;
    show(x, round, p);
    if (p != x->at) {
      time_peer(x, p);
      continue;
    }
    status = time_ours(x, &t, err);
    if (status == VTB_OK) vtb_vec_push(&p->rounds, t);
  }
  return status;
}

static vtb_status run_rounds(contest *x, vtb_error *err) {
  vtb_status status = VTB_OK;
  int64_t done = 0;
  for (; done < x->rounds && status == VTB_OK && !*x->stop; done++)
    status = run_round(x, done, err);
  if (!*x->stop) return status;
  cli_progress_clear();
  return cli_interrupt_say(done, x->rounds, "rounds");
}

/* ---- one combination ------------------------------------------------------------------------- */

static void tell(contest *x, bench_peers_table *table) {
  const vtb_program *p = x->c.program;
  vtb_error none = {0};
  int channels, height, width;
  bench_peers_cell cell = {.model = x->c.model,
                           .batch = p->batch,
                           .threads = (int)study_number(x->c.job, "threads"),
                           .at = x->at,
                           .n = x->n};
  for (int i = 0; i < p->n_kernels; i++) cell.flops += p->kernels[i].flops * p->kernels[i].launches;
  if (cli_program_image_size(p, &channels, &height, &width, &none) == VTB_OK)
    snprintf(cell.size, sizeof cell.size, "%dx%d", height, width);
  bench_peers_table_add(table, &cell);
}

static vtb_status measure(const char *model, const bench_options *o, const volatile int *stop,
                          bench_peers_table *table) {
  vtb_error err = {0};
  contest x = {.rounds = o->rounds ? o->rounds : ROUNDS,
               .seconds = o->seconds >= 0 ? o->seconds : seconds_each,
               .stop = stop};
  vtb_status status = bench_peers_case_open(&x.c, model, o);
  if (status == VTB_OK) {
    status = open_peers(&x, &err);
    if (status == VTB_OK) status = run_rounds(&x, &err);
    if (status != VTB_OK && err.text[0]) cli_error(&err);
  }
  cli_progress_clear();
  if (status == VTB_OK) tell(&x, table);
  for (size_t i = 0; i < x.n; i++) {
    bench_peer_end(&x.at[i].process);
    vtb_free(x.at[i].about);
    vtb_free(x.at[i].missing);
    vtb_vec_free(&x.at[i].rounds);
  }
  bench_peers_case_free(&x.c);
  return status;
}

/* ---- all combinations ------------------------------------------------------------------------ */

typedef struct axis {
  const char *name, *values; /* "batch", "1,8"; NULL: not given */
} axis;
enum { AXES = 3 };

/* Combinations of the axes from `k` on, the last fastest. */
static vtb_status each(const char *model, const bench_options *o, const axis *axes, int k,
                       const volatile int *stop, bench_peers_table *table) {
  if (k == AXES) return measure(model, o, stop, table);
  if (!axes[k].values) return each(model, o, axes, k + 1, stop, table);
  study_texts values = {0};
  study_split(axes[k].values, strlen(axes[k].values), ',', &values);
  vtb_status status = VTB_OK;
  for (size_t i = 0; i < values.n && status == VTB_OK; i++) {
    bench_options one = *o;
    status = (vtb_status)bench_take_value(&one, axes[k].name, values.at[i]);
    if (status == VTB_OK) status = each(model, &one, axes, k + 1, stop, table);
  }
  study_texts_free(&values);
  return status;
}

static vtb_status check_options(const cli_list *models, const bench_options *o) {
  if (!models->n) return cli_usage_error("bench", "--peers is beside a MODEL");
  for (size_t i = 0; i < models->n; i++)
    if (cli_is_built(models->at[i]))
      return cli_usage_error("bench",
                             "--peers is of a model's source: %s is compiled already, and peers "
                             "cannot read it",
                             models->at[i]);
  if (o->lists.target || o->lists.precision)
    return cli_usage_error("bench", "--peers measures processors, in float32: leave out --%s",
                           o->lists.target ? "target" : "precision");
  if (o->vary.n || o->trace || o->compare)
    return cli_usage_error("bench", "--peers goes without --vary, --trace and --compare");
  for (size_t i = 0; i < o->only.n; i++) {
    bool is_known = false;
    for (int k = 0; k < KNOWN; k++) is_known |= vtb_streq(o->only.at[i], known[k].name);
    if (!is_known)
      return cli_usage_error("bench",
                             "no peer is called '%s': there are onnxruntime, openvino, torch and "
                             "torch.compile",
                             o->only.at[i]);
  }
  return VTB_OK;
}

vtb_status bench_peers_run(const cli_list *models, const bench_options *given) {
  bench_options o = *given;
  const axis axes[AXES] = {
      {"image", o.lists.image}, {"threads", o.lists.threads}, {"batch", o.lists.batch}};
  VTB_TRY(check_options(models, &o));
  o.lists.image = o.lists.threads = o.lists.batch = NULL;
  int taken = bench_take_values(&o);
  if (taken) return (vtb_status)taken;
  const volatile int *stop = cli_interrupt_wait();
  bench_peers_table *table = bench_peers_table_new(given);
  vtb_status status = VTB_OK;
  for (size_t i = 0; i < models->n && status == VTB_OK; i++)
    status = each(models->at[i], &o, axes, 0, stop, table);
  vtb_status told = bench_peers_table_finish(table);
  return status == VTB_OK ? told : status;
}
