/* The rules of the house, as tables: who includes whom, how large things get, what is allowed to be
 * otherwise and why. docs/architecture.svg is drawn from `rooms`. What is measured instead of
 * ruled: test_measures.c.
 */
#ifndef VTB_HOUSE_RULES_H
#define VTB_HOUSE_RULES_H

enum {
  MOST_COLUMNS = 100,
  MOST_DOC_COLUMNS = 120, /* of prose; tables and code are as wide as they are */
  MOST_FILE_LINES = 650,
  MOST_TEXT_LINES = 400, /* of a kernel */
  MOST_FUNCTION_LINES = 80,
  MOST_FUNCTION_LINES_P90 = 25
};

/* Texts that are no C: how wide and long they may be, by the first row of a file. Tables (.def) are
 * as wide as their rows; scripts of tests hold whole commands, the page whole rules and elements.
 */
typedef struct house_width {
  const char *begins, *ends;
  int columns, lines; /* lines: 0 for any number */
} house_width;
static const house_width widths[] = {
    {"", ".cu", MOST_COLUMNS, MOST_TEXT_LINES},
    {"", ".cuh", MOST_COLUMNS, MOST_TEXT_LINES},
    {"", ".hpp", MOST_COLUMNS, MOST_FILE_LINES},
    {"tests/", ".sh", 200, 0},
    {"tests/", ".py", 160, 0},
    {"", ".sh", 120, 0},
    {"", ".py", 120, 0},
    {"", ".js", 120, 0},
    {"", ".l", 120, 0},
    {"", ".css", 140, 0},
    {"", ".html", 140, 0},
};

/* A room is a folder (or one file of it); the longest row that a path begins with is its own. A
 * file includes from its own room and from those in `below`: a name there stands for all under
 * it. */
typedef struct house_room {
  const char *path, *below, *what;
} house_room;

#define IR "runtime/base ir"
#define GENERATOR                                                                                  \
  IR " passes codegen/codegen.h codegen/body codegen/steps.h codegen/describe.h codegen/label.h"
static const house_room rooms[] = {
    {"runtime/base", "", "memory, strings, files"},
    {"runtime/launch", "runtime/base", "programs, plans, threads"},
    {"runtime/artefact", "runtime/base runtime/launch", "built files, weights"},
    {"runtime/image", "runtime/base", "image codecs, prepare"},
    {"runtime/weights", "runtime/base runtime/launch runtime/artefact runtime/image",
     "others' checkpoints"},
    {"runtime/data", "runtime/base runtime/launch runtime/artefact runtime/image",
     "data sets, loading"},
    {"runtime/ranks", "runtime/base runtime/launch runtime/cuda", "processes of one job"},
    {"runtime/train",
     "runtime/base runtime/launch runtime/artefact runtime/image runtime/weights runtime/data "
     "runtime/ranks",
     "optimisers, checkpoints"},
    {"runtime/cuda", "runtime/base runtime/launch runtime/artefact runtime/vertebra.h",
     "a GPU runs a plan"},
    {"runtime", "runtime/base runtime/launch runtime/artefact runtime/image runtime/weights",
     "C API: built models"},
    {"ir", "runtime/base", "tensor IR, interpreter"},
    {"frontend/lang", IR, ".vtb text to IR"},
    {"passes", IR " runtime/launch/program.h", "IR to simpler IR"},
    {"codegen", IR " passes codegen/body runtime", "targets, steps of a run"},
    {"codegen/body", IR " passes", "what kernels compute"},
    {"codegen/cpu", GENERATOR " runtime/launch runtime/artefact", "native kernels by LLVM"},
    {"codegen/cuda", GENERATOR " runtime/launch", "CUDA C kernels, NVRTC"},
    {"codegen/emulator", IR " codegen/codegen.h codegen/cuda runtime/launch", "CUDA C on the CPU"},
    {"codegen/targets.c", IR " passes codegen runtime", "a row a target"},
    {"frontend/onnx", IR " runtime/launch runtime/artefact", "files of ONNX"},
    {"frontend/compile", IR " passes codegen runtime frontend/lang frontend/onnx",
     "the compiler, a library"},
    {"frontend/lsp", IR " passes codegen runtime frontend/lang frontend/compile", "editors: LSP"},
    {"frontend/run", "runtime/base runtime/vertebra.h", "runs built files"},
    {"frontend/document", "runtime/base", "what a command tells"},
    {"frontend/study", "runtime/base ir/recurrence.h frontend/document frontend/lang",
     "studies, their results"},
    {"frontend/draw", "runtime/base runtime/image", "pictures, charts"},
    {"frontend/report",
     "runtime/base frontend/document frontend/draw frontend/study/statistics.h "
     "frontend/study/json.h",
     "the page of a report"},
    {"frontend/cli",
     IR " passes codegen runtime frontend/lang frontend/compile frontend/lsp frontend/document "
        "frontend/study frontend/draw frontend/report",
     "the command"},
};

/* Rooms within a room: what their files may include of its other rooms. */
#define PASSES "passes/passes.h passes/passes_internal.h passes/target.h"
#define CLI                                                                                        \
  "frontend/cli/cli.h frontend/cli/names.h frontend/cli/interrupt.h frontend/cli/ranks.h "         \
  "frontend/cli/recipe_find.h frontend/cli/trace_json.h frontend/cli/say"
static const house_room inner_rooms[] = {
    {"passes/cost", "passes/target.h", "machines as numbers, what was measured"},
    {"passes/graph", PASSES, "rewrites that hold on any machine"},
    {"passes/recurrence", PASSES " passes/cost", "step equations to scans and folds"},
    {"passes/strips", PASSES, "strips of an image through all layers"},
    {"passes/grad", PASSES, "adjoints"},
    {"passes/train", PASSES, "losses, the update, ranks"},
    {"passes/fuse", PASSES " passes/cost", "what one kernel computes"},
    {"passes/memory", PASSES " passes/fuse/product.h", "what memory holds"},
    {"frontend/python", "", "the package for Python"},
    {"frontend/cli/say", "frontend/cli/cli.h", "errors, documents, progress"},
    {"frontend/cli/load", CLI, "models with weights: checkpoints, built files"},
    {"frontend/cli/draw", CLI, "pictures: graph, paths"},
    {"frontend/cli/inspect", CLI " frontend/cli/load", "what a model is: check, summary, dump"},
    {"frontend/cli/data", CLI " frontend/cli/load", "data sets"},
    {"frontend/cli/verify", CLI, "numbers against references"},
    {"frontend/cli/build", CLI " frontend/cli/load frontend/cli/verify", "files: build, export"},
    {"frontend/cli/run", CLI " frontend/cli/load frontend/cli/data", "run, eval"},
    {"frontend/cli/train", CLI " frontend/cli/load frontend/cli/data", "trainings"},
    {"frontend/cli/compare", CLI " frontend/cli/train", "trainings side by side"},
    {"frontend/cli/bench", CLI " frontend/cli/load frontend/cli/data", "how fast"},
    {"frontend/cli/ablate", CLI, "studies"},
    {"frontend/cli/machine", CLI, "this machine: doctor, tune, cache"},
    {"frontend/cli/help", CLI " frontend/cli/commands.h", "commands about commands"},
};

/* Functions longer than MOST_FUNCTION_LINES. None is; keep it so. */
typedef struct house_function {
  const char *file, *name, *why;
} house_function;
static const house_function long_functions[] = {{0}};

/* Texts that code outside of tests writes in few files, so that nothing else depends on how a thing
 * is spelt or does again what is done once: where, by spaces, and what to do instead. */
typedef struct house_word {
  const char *text, *files, *instead;
} house_word;
static const house_word words[] = {
    {"\"spec\"", "ir/product.c frontend/lang/builtin_tensor.c",
     "ask vtb_product_of() for roles and axes, build with vtb_b_einsum_of() (ir/product.h)"},
    {"is_returned(const vtb_value", "ir/rewrite.h ir/rewrite.c", "ask ir/rewrite.h"},
    {"only_reader(const vtb_value", "ir/rewrite.h ir/rewrite.c", "ask ir/rewrite.h"},
    {"behind_reshapes(const vtb_value", "ir/rewrite.h ir/rewrite.c", "ask ir/rewrite.h"},
    {"is_view(vtb_op", "ir/rewrite.h ir/rewrite.c", "ask ir/rewrite.h"},
    {"is_view(const vtb_inst", "", "ask ir/rewrite.h for vtb_is_view() or vtb_is_free()"},
    {"(v->def && v->def->op == VTB_OP_reshape) v = v->def->operands[0]", "ir/rewrite.c",
     "call vtb_behind_reshapes()"},
};

/* Emitters whose kernels are texts (codegen/cpu/text): they fill holes and speak no LLVM. By what
 * their paths begin with; a room joins when its last kernel is one. */
static const char *const of_texts[] = {"codegen/cpu/attention/", "codegen/cpu/convolution/",
                                       "codegen/cpu/loop/gather",
                                       "codegen/cpu/product/einsum_blocks", "codegen/cpu/scan/"};

/* Constants of passes/ that are called a most, a least or a size of a kernel's parts. What a kernel
 * or a machine takes is asked (passes/cost/ask.h) and in passes/cost; what is here says why it is
 * neither. `*` ends what names begin with. */
typedef struct house_number {
  const char *file, *name, *why;
} house_number;
static const house_number numbers[] = {
    /* room of the pass itself, and how far it looks */
    {"passes/passes.h", "VTB_MOST_RANKS", "of a command"},
    {"passes/fuse/grow.c", "MOST_WORDS", "room of a row"},
    {"passes/fuse/grow.c", "SHARED", "a flag of a row"},
    {"passes/fuse/group.h", "VTB__GROUP_MOST", "room of a group, depth of code generation"},
    {"passes/fuse/words_mixer_back.c", "MOST_CHAIN", "room of a chain"},
    {"passes/graph/compose_weights.c", "MOST_TERMS", "how far it looks"},
    {"passes/grad/autodiff_split.c", "MOST_STEPS", "how far it looks"},
    /* numbers of arithmetic */
    {"passes/recurrence/degree.c", "LARGEST_EXPONENT", "of a float"},
    /* what a rewrite is worth where no kernel is there yet to be asked */
    {"passes/graph/join_products.c", "MOST_COLUMNS", "narrow: on all targets"},
    {"passes/graph/join_blocks.c", "MOST_JOINED", "queries, keys and values"},
    {"passes/memory/quantize.c", "LEAST", "narrow: gates, of which recurrences are made"},
    {"passes/graph/join_blocks.c", "LEAST_COLUMNS", "wide: narrower ones are a mixer's"},
    {"passes/graph/compose_weights.c", "MOST_COLUMNS", "narrow: before autodiff"},
    {"passes/graph/compose_weights.c", "MOST_MATRIX", "small: before autodiff"},
    {"passes/recurrence/select_mode.c", "LEAST_CHUNK", "chunks that are tried"},
    {"passes/recurrence/select_mode.c", "MOST_CHUNK", "chunks that are tried"},
    {"passes/memory/gather.c", "MOST_BYTES", "small: what may move"},
    {"passes/memory/library.c", "LEAST", "of a library's products"},
    {"passes/fuse/copy_for_scans.c", "MOST_INPUTS", "what a copy may read"},
    {"passes/fuse/copy_for_scans.c", "WARPS_EACH", "busy: of a machine that is asked"},
    {"passes/fuse/fuse_sums.c", "MOST_COLUMNS", "a strip's sums beside its rows"},
    {"passes/fuse/fuse_sums.c", "LEAST_ROWS", "rows that are worth a part"},
    {"passes/fuse/fuse_sums.c", "MOST_PARTS", "small: what is a launch for next to nothing"},
    /* of a kernel's text, asked too early for an answer: to become one */
    {"passes/passes.h", "VTB_FOLD_SHARED", "fold_tile cuts before there is a kernel"},
    {"passes/grad/autodiff_split.c", "MOST_TOKENS", "autodiff keeps before there is a kernel"},
    {"passes/fuse/split_thin.c", "MOST_*", "shares are cut before there is a kernel"},
    {"passes/fuse/split_thin.c", "LEAST_CHANNELS", "likewise"},
    {"passes/fuse/words_local.c", "BLOCK", "which matrices are a thread's, and which a mixer's"},
};

/* Names of models that texts for people may hold, as examples. */
typedef struct house_example {
  const char *file, *word;
} house_example;
static const house_example examples[] = {
    {"frontend/cli/main.c", "vil"},            /* help: what MODEL may be */
    {"frontend/lang/build.c", "vil"},          /* a message about presets */
    {"frontend/cli/inspect/cmd_lsp.c", "vim"}, /* the editor */
    {"frontend/lsp/grammar.c", "vim"},         /* likewise */
};

/* Families of models that code must not know by name, besides the names that models/ gives. */
static const char *const families[] = {"deit",   "swin",     "resnet", "mamba", "xlstm",
                                       "retnet", "convnext", "vrwkv",  "mambar"};

#endif
