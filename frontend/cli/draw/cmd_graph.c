/* vertebra graph: a model as a picture: blocks, ops, fused kernels, shapes. */
#include "frontend/cli/cli.h"
#include "frontend/cli/draw/graph_dot.h"
#include "frontend/draw/picture.h"

#include <string.h>

typedef struct graph_command {
  cli_model_options model;
  const char *out, *stage;
  int64_t depth;
  bool no_fold, train;
} graph_command;

/* The module of the stage; *c holds what it is made of. */
static vtb_status open_stage(const char *what, graph_command *g, vtb_compilation *c,
                             vtb_compilation *lowered) {
  const vtb_target *target;
  vtb_codegen_options code;
  vtb_compile_options o = cli_compile_options(&g->model, what);
  vtb_error *err = &g->model.report->error;
  int64_t batch = o.batch ? o.batch : 1;
  o.training = g->train;
  VTB_TRY(vtb_compilation_open(c, &o, g->model.report));
  VTB_TRY(vtb_compile_target(o.target, true, &target, err));
  VTB_TRY(vtb_compile_code(target, &c->options, &code, err));
  return strcmp(g->stage, "fused") == 0 ? vtb_compilation_lower(c, target, &code, batch, lowered)
                                        : vtb_compilation_modes(c, target, &code, batch, lowered);
}

static vtb_status write_picture(const char *what, const graph_command *g, const vtb_func *entry,
                                vtb_error *err) {
  const char *slash = strrchr(what, '/');
  graph_options o = {.title = slash ? slash + 1 : what,
                     .depth = (int)(g->depth < 16 ? g->depth : 16),
                     .fold = !g->no_fold,
                     .fused = strcmp(g->stage, "fused") == 0};
  vtb_strbuf dot = {0};
  char *data = NULL;
  size_t n = 0;
  graph_dot(entry, &o, &dot);
  if (!g->out) {
    cli_print_text("format", "dot", dot.at);
    vtb_strbuf_free(&dot);
    return VTB_OK;
  }
  bool text = vtb_ends_with(g->out, ".dot");
  vtb_status status =
      text ? VTB_OK : graph_render(&dot, strrchr(g->out, '.') + 1, o.title, &data, &n, err);
  if (status == VTB_OK)
    status = text ? vtb_file_write_atomic(g->out, dot.at, dot.n, err)
                  : vtb_file_write_atomic(g->out, data, n, err);
  vtb_free(data);
  vtb_strbuf_free(&dot);
  return status;
}

static vtb_status draw(void *user, const cli_list *args, vtb_error *err) {
  graph_command *g = user;
  const char *what = args->at[0];
  vtb_compilation c = {0}, lowered = {0};
  vtb_status status = open_stage(what, g, &c, &lowered);
  cli_report(&g->model, status);
  if (status == VTB_OK) status = write_picture(what, g, lowered.module->entry, err);
  vtb_compilation_free(&lowered);
  vtb_compilation_free(&c);
  return status;
}

vtb_status cli_cmd_graph(int argc, char **argv) {
  graph_command g = {.stage = "fused", .depth = 1};
  const cli_opt opts[] = {
      {"-o", CLI_FILE, &g.out, PICTURE_FILE "|.dot",
       "a picture, .svg, .png or .pdf, or its description for graphviz, .dot (default: .dot on "
       "stdout)"},
      {"--depth", CLI_INT, &g.depth, "N",
       "blocks in blocks that are drawn beside the model (default 1; 0: the model alone)"},
      {"--no-fold", CLI_FLAG, &g.no_fold, NULL, "draw every block, not what repeats once"},
      {"--stage", CLI_CHOICE, &g.stage, "fused|graph",
       "fused (default): what runs, an outline a kernel; graph: what each module computes"},
      {"--train", CLI_FLAG, &g.train, NULL, "the training step: forward and gradients"},
      CLI_TARGET_OPT(g.model),
      CLI_MODEL_OPTS(g.model)};
  return CLI_RUN("graph", opts, .one = "one MODEL is needed", .run = draw, .options = &g,
                 .model = &g.model);
}
