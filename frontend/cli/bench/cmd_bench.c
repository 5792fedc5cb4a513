/* vertebra bench: latency, images/s (of a training step: with its update), peak memory, and time
 * and GFLOP/s a kernel with its IR ops. */
#include "frontend/cli/bench/bench_small.h"
#include "frontend/cli/cli.h"
#include "frontend/cli/bench/bench.h"
#include "frontend/cli/bench/bench_data.h"
#include "frontend/cli/bench/bench_peers.h"
#include "frontend/cli/bench/bench_sweep.h"
#include "frontend/cli/load/built.h"
#include "frontend/cli/names.h"
#include "frontend/compile/memory.h"
#include "frontend/cli/say/progress.h"

/* The rounds, watched. */
static vtb_status time_rounds(bench_result *r, void **buffers, void *workspace,
                              const vtb_services *services, vtb_optim *u, vtb_error *err) {
  const bench_options *o = r->options;
  int64_t n = o->rounds > 0 ? o->rounds : 1;
  vtb_status status = VTB_OK;
  bench_watch_begin(&r->watch);
  for (int64_t i = 0; i < n && status == VTB_OK; i++) {
    bench_timing t = {0};
    if (n > 1)
      cli_progress_note("timing, round %lld of %lld", (long long)i + 1, (long long)n);
    else
      cli_progress_note("timing");
    status = bench_time(r->program, buffers, workspace, services, o->runs, o->seconds, u, &t, err);
    if (status == VTB_OK) vtb_vec_push(&r->rounds, t);
  }
  bench_watch_end(&r->watch);
  if (status == VTB_OK) r->timing = bench_join(r->rounds.at, r->rounds.n);
  return status;
}

static vtb_status time_all(bench_result *r, const vtb_program *profiled, void **buffers,
                           void *workspace, const vtb_services *services, vtb_error *err) {
  vtb_optim *u = NULL;
  vtb_status status = cli_measured_update(r->program, buffers, &u, err);
  r->threads = services->n_threads;
  if (status == VTB_OK) status = time_rounds(r, buffers, workspace, services, u, err);
  if (status == VTB_OK && u && profiled != r->program)
    status = vtb_program_exchange(profiled, buffers, true, err);
  if (status == VTB_OK)
    status = bench_profile(profiled, buffers, workspace, r->options->model.threads,
                           r->options->seconds, &r->rows, &r->n_rows, err);
  if (status == VTB_OK && r->options->trace)
    status = bench_trace(r, profiled, buffers, workspace, err);
  for (int i = 0; i < r->n_rows; i++)
    r->flops += r->rows[i].info->flops * r->rows[i].info->launches;
  vtb_optim_free(u);
  return status;
}

/* profiled: the same program with calls around its kernels; a device's program is both. */
static vtb_status bench_program(const vtb_program *p, const vtb_program *profiled,
                                const bench_options *o, const bench_facts *facts) {
  vtb_error err = {0};
  bench_peak peak;
  bench_result r = {.facts = *facts, .program = p, .options = o, .peak = o->peak ? &peak : NULL};
  vtb_status status = VTB_OK;
  void **buffers = cli_make_buffers(p, &err);
  void *workspace = vtb_aligned_alloc((size_t)p->workspace_bytes + 64);
  vtb_services *services = vtb_need(vtb_services_default((int)o->model.threads));
  if (err.text[0]) status = VTB_E_MEMORY;
  if (!workspace)
    status = vtb_fail(&err, VTB_E_MEMORY, "out of memory: the workspace needs %.1f MiB",
                      (double)p->workspace_bytes / 1048576);
  if (status == VTB_OK) status = time_all(&r, profiled, buffers, workspace, services, &err);
  if (status != VTB_OK) cli_error(&err);
  /* afterwards: what this takes is not the model's memory */
  if (status == VTB_OK && o->peak) status = bench_peak_measure(&o->model, &peak);
  if (status == VTB_OK) status = bench_report(&r);
  vtb_vec_free(&r.rounds);
  vtb_free(r.rows);
  cli_free_buffers(p, buffers);
  vtb_free(workspace);
  vtb_services_free(services);
  return status;
}

/* Opened, with its training step if that is timed; what is counted is the model without it. */
static vtb_status open_model(vtb_compilation *c, const vtb_compile_options *o, vtb_report *report,
                             bench_facts *facts) {
  vtb_compilation modes = {0};
  vtb_status status = vtb_compilation_load(c, o, NULL, report);
  if (status == VTB_OK) status = vtb_compilation_graph(c);
  if (status == VTB_OK)
    status =
        vtb_compilation_lower(c, vtb_target_find("interp"), &(vtb_codegen_options){0}, 1, &modes);
  if (status == VTB_OK) {
    vtb_published_macs macs = vtb_func_published_macs(modes.module->entry);
    facts->params = cli_count_params(c->module->entry, false);
    facts->macs = macs.layers + macs.mixers;
  }
  vtb_compilation_free(&modes);
  return status == VTB_OK && o->training ? vtb_compilation_train(c) : status;
}

static vtb_status bench_model(const char *what, const bench_options *b) {
  vtb_compilation c;
  bench_facts facts = {.model = what};
  vtb_compile_options o = cli_compile_options(&b->model, what);
  vtb_program *program = NULL, *profiled = NULL;
  double start = vtb_now();
  int64_t batch = o.batch ? o.batch : 1;
  o.training = b->train;
  if (o.training && o.strips)
    return cli_usage_error("bench", "--strips is for inference, and --train is not");
  cli_progress_note("compiling %s", what);
  o.optimizer = b->no_update ? NULL : b->optimizer;
  vtb_status status = vtb_memory_decide(&o, b->model.report);
  if (status != VTB_OK) return cli_report(&b->model, status);
  status = open_model(&c, &o, b->model.report, &facts);
  if (status == VTB_OK) status = vtb_compilation_program(&c, batch, false, &program);
  if (status == VTB_OK) program->compile_seconds = vtb_now() - start;
  /* a device's program takes times without other code, and its memory once */
  if (status == VTB_OK && !program->run)
    status = vtb_compilation_program(&c, batch, true, &profiled);
  cli_report(&b->model, status);
  if (status == VTB_OK) cli_say_strips(&o, program->workspace_bytes);
  if (status == VTB_OK) status = bench_program(program, profiled ? profiled : program, b, &facts);
  vtb_program_free(program);
  vtb_program_free(profiled);
  vtb_compilation_free(&c);
  return status;
}

static vtb_status bench_built(const char *path, const bench_options *o) {
  vtb_artefact *a = NULL;
  vtb_program *program = NULL;
  double start = vtb_now();
  VTB_TRY(cli_built_open("bench", path, &o->model, &a));
  bench_options of_file = *o; /* its peak is that of the target it runs on */
  if (!o->model.compile.target) of_file.model.compile.target = vtb_artefact_target(a);
  vtb_artefact_role role = o->train ? VTB_ARTEFACT_STEP : VTB_ARTEFACT_INFERENCE;
  vtb_status status = cli_built_program(a, role, &o->model, o->model.compile.batch, &program);
  if (status == VTB_OK && o->no_update && vtb_optim_is_inside(program))
    status = cli_usage_error(
        "bench", "the training step of %s has its update inside: leave out --no-update", path);
  if (status == VTB_OK) {
    program->compile_seconds = vtb_now() - start;
    bench_facts facts = {.model = path};
    for (int i = 0; i < program->n_tensors; i++)
      if (program->tensors[i].io == VTB_IO_PARAM)
        facts.params += vtb_tensor_info_count(&program->tensors[i]);
    status = bench_program(program, program, &of_file, &facts);
  }
  vtb_program_free(program);
  vtb_artefact_close(a);
  return status;
}

/* --peak without a model. */
static vtb_status bench_machine(bench_options *o) {
  bench_peak peak;
  vtb_status status = bench_peak_measure(&o->model, &peak);
  if (status == VTB_OK) {
    doc *d = doc_new(cJSON_CreateObject());
    bench_peak_tell(&peak, d, d->json);
    cli_tell(d);
  }
  return status;
}

/* --calibrate */
static vtb_status bench_device(bench_options *o) {
  if (!o->output) return cli_usage_error("bench", "--calibrate writes a file: -o FILE");
  VTB_TRY(cli_check_name("bench", "-o", o->output, ".json"));
  return bench_calibrate(&o->model, o->output);
}

static vtb_status bench_one(const char *what, bench_options *o) {
  int taken = bench_take_values(o);
  if (taken) return (vtb_status)taken;
  if (o->seconds < 0) o->seconds = 3;
  return cli_is_built(what) ? bench_built(what, o) : bench_model(what, o);
}

/* Without a MODEL: the data set, or the machine. */
static vtb_status bench_none(bench_options *o) {
  int taken = bench_is_sweep(o) ? (int)cli_usage_error("bench", "lists are for a MODEL")
                                : bench_take_values(o);
  if (taken) return (vtb_status)taken;
  if (o->data.path)
    return bench_data(&o->data, o->model.compile.image, o->seconds < 0 ? 3 : o->seconds);
  if (o->calibrate) return bench_device(o);
  return o->peak ? bench_machine(o) : cli_usage_error("bench", "one MODEL or built FILE is needed");
}

static vtb_status bench(void *user, const cli_list *rest, vtb_error *err) {
  (void)err;
  bench_options *o = user;
  if (o->output && !o->calibrate)
    return cli_usage_error("bench", "-o is for --calibrate; --csv FILE and --trace FILE.json are "
                                    "what a MODEL's times go into");
  if (o->peers || o->only.n) return bench_peers_run(rest, o);
  if (rest->n == 0) return bench_none(o);
  if (o->calibrate) return cli_usage_error("bench", "--calibrate takes no MODEL");
  if (o->data.path) return cli_usage_error("bench", "--data is measured without a MODEL");
  if (rest->n != 1) return cli_usage_error("bench", "one MODEL or built FILE is needed");
  if (o->no_update && !o->train) return cli_usage_error("bench", "--no-update is for --train");
  if (vtb_streq(o->csv, "-") && (o->model.json || o->compare))
    return cli_usage_error("bench", "--csv - and %s both want standard output",
                           o->model.json ? "--json" : "--compare");
  if (o->trace && bench_is_sweep(o))
    return cli_usage_error("bench", "--trace is of one combination: give single values");
  return bench_is_sweep(o) ? bench_sweep_run(rest->at[0], o) : bench_one(rest->at[0], o);
}

vtb_status cli_cmd_bench(int argc, char **argv) {
  bench_options o = {.data = CLI_DATA_DEFAULTS,
                     .seconds = -1,
                     .top = 20,
                     .optimizer = CLI_DEFAULT_OPTIMIZER,
                     .python = "python3"};
  const cli_opt opts[] = {
      CLI_STRIPS_OPT(o.model, "--strips"),
      CLI_SOURCE_OPTS(o.model),
      {"--train", CLI_FLAG, &o.train, NULL,
       "a whole training step: forward, backward, clipping, the optimizer's update"},
      {"--no-update", CLI_FLAG, &o.no_update, NULL, "with --train: forward and backward alone"},
      {"--optimizer", CLI_STR, &o.optimizer, "NAME", "whose update it is (default adamw)"},
      CLI_RECOMPUTE_OPT(o.model),
      CLI_MEMORY_OPT(o.model, "no more than 4G, say: a training step recomputes as little as does"),
      {"--batch", CLI_STR, &o.lists.batch, "N,...",
       "images at a time; lists, here and below, measure every combination"},
      {"--image", CLI_STR, &o.lists.image, "SIZE,...", "image size: 512 or 224x384"},
      {"--mode", CLI_STR, &o.lists.mode, "MODE,...", "form of every recurrence: {modes}"},
      {"--chunk", CLI_STR, &o.lists.chunk, "N,...", "chunk sizes; implies --mode chunkwise"},
      {"--no-tuning", CLI_FLAG, &o.model.compile.no_tuning, NULL,
       "auto is not decided by what `vertebra tune` measured"},
      {"--threads", CLI_STR, &o.lists.threads, "N,...",
       "threads (default: VTB_THREADS, OMP_NUM_THREADS, or the cores)"},
      {"--precision", CLI_STR, &o.lists.precision, "P,...",
       "of products on CUDA: {precisions} (default fp32)"},
      {"--target", CLI_STR, &o.lists.target, "T,...", "{targets} (default cpu)"},
      CLI_QUANTIZE_OPT(o.model),
      {"--vary", CLI_LIST, &o.vary, "NAME=A,...", "a hyperparameter with several values"},
      {"--peers", CLI_FLAG, &o.peers, NULL,
       "beside ONNX Runtime, OpenVINO and PyTorch, where they are installed: the same numbers, in "
       "rounds in which all take turns; of several MODELs too"},
      {"--peer", CLI_LIST, &o.only, "NAME",
       "of those this one alone: onnxruntime, openvino, torch, torch.compile"},
      {"--python", CLI_STR, &o.python, "FILE",
       "the Python that has them (default: python3 of PATH)"},
      {"--cpu", CLI_STR, &o.model.compile.cpu, "NAME",
       "code for another processor: x86-64-v3 has AVX2 (default: this one)"},
      {"--peak", CLI_FLAG, &o.peak, NULL,
       "what the machine reaches at best, in a product and a copy; beside a MODEL: how much of it "
       "the model and its kernels reach"},
      {"--calibrate", CLI_FLAG, &o.calibrate, NULL,
       "without a MODEL: what launches on --target cuda are predicted by, measured, into -o FILE "
       "for --machine and dump --estimate"},
      {"-o", CLI_STR, &o.output, "FILE.json", "with --calibrate: the file"},
      {"--machine", CLI_STR, &o.model.compile.machine, "GPU",
       "what code for CUDA is chosen for: {machines} (default h200), or a file"},
      {"--seconds", CLI_FLOAT, &o.seconds, "S",
       "time to measure for (default 3; of a list 1, in each round)"},
      {"--runs", CLI_INT, &o.runs, "N", "exactly N runs instead of --seconds"},
      {"--rounds", CLI_POSITIVE, &o.rounds, "N",
       "N times so (default 1; of a list 3, one combination after the other in each): the spread "
       "is then that of the rounds"},
      {"--top", CLI_INT, &o.top, "N", "kernels to list (default 20)"},
      {"--trace", CLI_FILE, &o.trace, "FILE.json",
       "one run, its kernels and what each thread did of them, as a Chrome trace (Perfetto)"},
      {"--csv", CLI_FILE, &o.csv, "FILE.csv|-",
       "a table of what was measured, - is standard output"},
      {"--compare", CLI_STR, &o.compare, "FILE",
       "an earlier --json or --csv, or a report's results.json: what has become faster or slower"},
      {"--data", CLI_STR, &o.data.path, "D",
       "without a MODEL: how many images a second of a data set are decoded and prepared"},
      {"--workers", CLI_INT, &o.data.workers, "N", "with --data: threads (default: cores)"},
      CLI_OUTPUT_OPTS(o.model)};
  return CLI_RUN("bench", opts, .run = bench, .options = &o, .model = &o.model);
}
