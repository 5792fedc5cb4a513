/* vertebra summary: the tree of a model's modules with what each holds and does. */
#include "frontend/cli/cli.h"
#include "frontend/cli/inspect/module_tree.h"
#include "frontend/compile/outline.h"
#include "passes/target.h"

#include <math.h>

enum { DEPTH = 3, INDENT = 2, MOST_NAME = 44 };

typedef struct summary {
  const module_node *root;
  int64_t batch, depth, workspace;
} summary;

static double macs_of(const module_node *n) { return n->layer_macs + n->mixer_macs; }

/* "1.27 G", "310.5 M", "-" */
static const char *macs_text(double macs, char *buf, size_t size) {
  if (macs >= 1e9)
    snprintf(buf, size, "%.2f G", macs * 1e-9);
  else if (macs >= 1e6)
    snprintf(buf, size, "%.1f M", macs * 1e-6);
  else if (macs >= 1)
    snprintf(buf, size, "%.1f k", macs * 1e-3);
  else
    snprintf(buf, size, "-");
  return buf;
}

static const doc_column columns[] = {
    {.heading = "module", .width = -1, .most = MOST_NAME},
    {.heading = "output", .width = -1, .none = "-"},
    {.heading = "params", .width = 11, .write = cli_write_grouped, .none = "-"},
    {.heading = "MACs", .width = 8, .write = macs_text},
    {.heading = "%", .width = 5, .format = "%.1f", .none = "-"},
    {.heading = "MiB", .width = 8, .format = "%.2f", .scale = 1.0 / 1048576},
    {.heading = "op", .width = -1},
};

/* A module with those in it, as members of `out`. */
static void add_node(const summary *s, doc *d, doc_table *t, const module_node *n, int depth,
                     cJSON *out) {
  int rank = n->output ? n->output->rank : 0;
  int64_t dim[VTB_MAX_RANK];
  double all = macs_of(s->root);
  vtb_strbuf shape = {0};
  for (int k = 0; k < rank; k++) dim[k] = n->output->dim[k].size;
  vtb_strbuf_putc(&shape, '[');
  for (int k = 0; k < rank; k++)
    vtb_strbuf_printf(&shape, "%s%lld", k ? ", " : "", (long long)dim[k]);
  vtb_strbuf_putc(&shape, ']');
  doc_row(d, t, V(vtb_arena_printf(&d->arena, "%*s%s", depth * INDENT, "", n->name)),
          V(n->output ? shape.at : NULL), V(n->parameters ? (double)n->parameters : (double)NAN),
          V(macs_of(n)), V(all > 0 ? 100 * macs_of(n) / all : (double)NAN), V(n->bytes),
          V(n->kind));
  vtb_strbuf_free(&shape);
  cJSON *modules = cJSON_CreateArray();
  doc_put(out, F("name", n->name), F("op", n->kind), F("output", doc_numbers(dim, rank)),
          F("parameters", n->parameters), F("frozen", n->frozen), F("flops", n->flops),
          F("published_macs", macs_of(n)), F("activation_bytes", n->bytes), F("modules", modules));
  for (const module_node *c = n->first; c && depth < s->depth; c = c->next)
    add_node(s, d, t, c, depth + 1, doc_append(modules, cJSON_CreateObject()));
}

static void add_totals(const summary *s, doc *d) {
  const module_node *r = s->root;
  double weights = (double)r->parameters * 4;
  char number[40], macs[40], part[96] = "";
  doc_put(d->json, F("batch", s->batch), F("weight_bytes", weights),
          F("workspace_bytes", s->workspace));
  if (r->frozen)
    snprintf(part, sizeof part, ", %s of them frozen",
             cli_grouped(r->frozen, number, sizeof number));
  doc_say(d, 13, "\nparameters   %s (%.1f MiB in f32)%s",
          cli_grouped(r->parameters, number, sizeof number), weights / 1048576, part);
  part[0] = 0;
  if (r->mixer_macs > 0)
    snprintf(part, sizeof part, ", %s without the mixers' own",
             macs_text(r->layer_macs, number, sizeof number));
  doc_say(d, 13, "MACs         %s an image in the papers' count%s",
          macs_text(macs_of(r), macs, sizeof macs), part);
  doc_say(d, 13, "FLOPs        %.3f G an image as executed", r->flops * 1e-9);
  doc_say(d, 13, "activations  %.1f MiB that layers write, batch %lld",
          r->bytes * (double)s->batch / 1048576, (long long)s->batch);
  doc_say(d, 13, "workspace    %.1f MiB to run it, batch %lld", (double)s->workspace / 1048576,
          (long long)s->batch);
}

typedef struct summary_options {
  cli_model_options model;
  int64_t depth;
} summary_options;

static vtb_status summarise(void *user, const cli_list *args, vtb_error *err) {
  (void)err;
  const cli_model_options *m = &((summary_options *)user)->model;
  vtb_compilation c = {0}, modes = {0};
  vtb_compile_options o = cli_compile_options(m, args->at[0]);
  summary s = {.batch = o.batch ? o.batch : 1, .depth = ((summary_options *)user)->depth};
  vtb_status status = vtb_compilation_open(&c, &o, m->report);
  if (status == VTB_OK)
    status =
        vtb_compilation_lower(&c, vtb_target_find("interp"), &(vtb_codegen_options){0}, 1, &modes);
  vtb_outline outline = {0};
  if (status == VTB_OK) status = vtb_outline_make(&c, s.batch, NULL, &outline);
  s.workspace = outline.workspace_bytes;
  vtb_outline_free(&outline);
  cli_report(m, status);
  if (status == VTB_OK) {
    vtb_arena arena;
    vtb_arena_init(&arena);
    s.root = module_tree(modes.module->entry, &arena);
    doc *d = doc_new(cJSON_CreateObject());
    add_node(&s, d, DOC_TABLE(d, NULL, columns), s.root, 0, d->json);
    add_totals(&s, d);
    cli_tell(d);
    vtb_arena_free(&arena);
  }
  vtb_compilation_free(&modes);
  vtb_compilation_free(&c);
  return status;
}

vtb_status cli_cmd_summary(int argc, char **argv) {
  summary_options o = {.depth = DEPTH};
  const cli_opt opts[] = {
      {"--depth", CLI_INT, &o.depth, "N", "modules in modules to show (default 3)"},
      CLI_MODEL_OPTS(o.model)};
  return CLI_RUN("summary", opts, .one = "one MODEL is needed", .run = summarise, .options = &o,
                 .model = &o.model);
}
