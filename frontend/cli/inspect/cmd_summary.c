/* vertebra summary: the tree of a model's modules with what each holds and does. */
#include "frontend/cli/inspect/module_tree.h"
#include "frontend/cli/say/progress.h"
#include "frontend/compile/outline.h"
#include "passes/target.h"

#include <string.h>

enum { DEPTH = 3, INDENT = 2, MOST_NAME = 44 };

typedef struct summary {
  const module_node *root;
  int64_t batch, depth, workspace;
  int name_columns, shape_columns;
} summary;

/* ---- as text --------------------------------------------------------------------------------- */

static void shape_text(const module_node *n, vtb_strbuf *out) {
  out->n = 0;
  vtb_strbuf_putc(out, '[');
  for (int d = 0; n->output && d < n->output->rank; d++)
    vtb_strbuf_printf(out, "%s%lld", d ? ", " : "", (long long)n->output->dim[d].size);
  vtb_strbuf_putc(out, ']');
  if (!n->output) out->n = 0, vtb_strbuf_putc(out, '-');
}

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

static void widen(summary *s, const module_node *n, int depth) {
  vtb_strbuf shape = {0};
  shape_text(n, &shape);
  int name = depth * INDENT + (int)strlen(n->name), columns = (int)shape.n;
  if (name > s->name_columns) s->name_columns = name;
  if (columns > s->shape_columns) s->shape_columns = columns;
  vtb_strbuf_free(&shape);
  for (const module_node *c = n->first; c && depth < s->depth; c = c->next) widen(s, c, depth + 1);
}

static void print_head(const summary *s) {
  cli_line l = {0};
  cli_line_add(&l, "%-*s", s->name_columns, "module");
  cli_line_add(&l, "%-*s", s->shape_columns, "output");
  cli_line_add(&l, "%11s", "params");
  cli_line_add(&l, "%8s", "MACs");
  cli_line_add(&l, "%5s", "%");
  cli_line_add(&l, "%8s", "MiB");
  cli_line_add(&l, "op");
  cli_line_print(&l);
}

static void print_node(const summary *s, const module_node *n, int depth) {
  char count[40] = "-", macs[40], share[16] = "-", name[CLI_FIELD_BYTES];
  double all = macs_of(s->root);
  vtb_strbuf shape = {0};
  cli_line l = {0};
  shape_text(n, &shape);
  if (n->parameters) cli_grouped(n->parameters, count, sizeof count);
  if (all > 0) snprintf(share, sizeof share, "%.1f", 100 * macs_of(n) / all);
  snprintf(name, sizeof name, "%*s%s", depth * INDENT, "", n->name);
  if (strlen(name) > (size_t)s->name_columns) memcpy(name + s->name_columns - 3, "...", 4);
  cli_line_add(&l, "%-*s", s->name_columns, name);
  cli_line_add(&l, "%-*s", s->shape_columns, shape.at);
  cli_line_add(&l, "%11s", count);
  cli_line_add(&l, "%8s", macs_text(macs_of(n), macs, sizeof macs));
  cli_line_add(&l, "%5s", share);
  cli_line_add(&l, "%8.2f", n->bytes / 1048576);
  cli_line_add(&l, "%s", n->kind);
  cli_line_print(&l);
  vtb_strbuf_free(&shape);
  for (const module_node *c = n->first; c && depth < s->depth; c = c->next)
    print_node(s, c, depth + 1);
}

static void print_totals(const summary *s) {
  const module_node *r = s->root;
  char number[40], part[96] = "";
  puts("");
  if (r->frozen)
    snprintf(part, sizeof part, ", %s of them frozen",
             cli_grouped(r->frozen, number, sizeof number));
  cli_printf(13, "parameters   %s (%.1f MiB in f32)%s",
             cli_grouped(r->parameters, number, sizeof number), (double)r->parameters * 4 / 1048576,
             part);
  part[0] = 0;
  if (r->mixer_macs > 0)
    snprintf(part, sizeof part, ", %s without the mixers' own",
             macs_text(r->layer_macs, number, sizeof number));
  char macs[40];
  cli_printf(13, "MACs         %s an image in the papers' count%s",
             macs_text(macs_of(r), macs, sizeof macs), part);
  cli_printf(13, "FLOPs        %.3f G an image as executed", r->flops * 1e-9);
  cli_printf(13, "activations  %.1f MiB that layers write, batch %lld",
             r->bytes * (double)s->batch / 1048576, (long long)s->batch);
  cli_printf(13, "workspace    %.1f MiB to run it, batch %lld", (double)s->workspace / 1048576,
             (long long)s->batch);
}

/* ---- as data --------------------------------------------------------------------------------- */

static cJSON *node_json(const summary *s, const module_node *n, int depth) {
  cJSON *out = cJSON_CreateObject();
  cJSON_AddStringToObject(out, "name", n->name);
  cJSON_AddStringToObject(out, "op", n->kind);
  cJSON *shape = cJSON_AddArrayToObject(out, "output");
  for (int d = 0; n->output && d < n->output->rank; d++)
    cJSON_AddItemToArray(shape, cJSON_CreateNumber((double)n->output->dim[d].size));
  cJSON_AddNumberToObject(out, "parameters", (double)n->parameters);
  cJSON_AddNumberToObject(out, "frozen", (double)n->frozen);
  cJSON_AddNumberToObject(out, "flops", n->flops);
  cJSON_AddNumberToObject(out, "published_macs", macs_of(n));
  cJSON_AddNumberToObject(out, "activation_bytes", n->bytes);
  cJSON *modules = cJSON_AddArrayToObject(out, "modules");
  for (const module_node *c = n->first; c && depth < s->depth; c = c->next)
    cJSON_AddItemToArray(modules, node_json(s, c, depth + 1));
  return out;
}

static void print_json(const summary *s) {
  cJSON *out = node_json(s, s->root, 0);
  cJSON_AddNumberToObject(out, "batch", (double)s->batch);
  cJSON_AddNumberToObject(out, "weight_bytes", (double)s->root->parameters * 4);
  cJSON_AddNumberToObject(out, "workspace_bytes", (double)s->workspace);
  cli_print_json(out);
}

/* ---------------------------------------------------------------------------------------------- */

static vtb_status summarise(const char *what, const cli_model_options *m, int64_t depth) {
  vtb_compilation c = {0}, modes = {0};
  vtb_compile_options o = cli_compile_options(m, what);
  summary s = {.batch = o.batch ? o.batch : 1, .depth = depth};
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
    widen(&s, s.root, 0);
    if (s.name_columns > MOST_NAME) s.name_columns = MOST_NAME;
    if (cli_json()) {
      print_json(&s);
    } else {
      print_head(&s);
      print_node(&s, s.root, 0);
      print_totals(&s);
    }
    vtb_arena_free(&arena);
  }
  vtb_compilation_free(&modes);
  vtb_compilation_free(&c);
  return status;
}

vtb_status cli_cmd_summary(int argc, char **argv) {
  cli_model_options o = {0};
  int64_t depth = DEPTH;
  const cli_opt opts[] = {
      {"--depth", CLI_INT, &depth, "N", "modules in modules to show (default 3)"},
      CLI_MODEL_OPTS(o)};
  cli_list rest = {0};
  int parsed = cli_parse("summary", opts, CLI_COUNT(opts), argc, argv, &rest);
  if (parsed) return parsed < 0 ? VTB_OK : (vtb_status)parsed;
  if (rest.n != 1) return cli_usage_error("summary", "one MODEL is needed");
  cli_model_parsed(&o);
  vtb_status status = summarise(rest.at[0], &o, depth);
  vtb_vec_free(&rest);
  cli_model_options_free(&o);
  return status;
}
