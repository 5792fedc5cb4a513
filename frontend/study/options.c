/* See options.h. */
#include "frontend/study/options.h"

#include <string.h>

#define RUNS (STUDY_IN_TRAIN | STUDY_IN_EVAL | STUDY_IN_BENCH)
#define UPDATES (STUDY_IN_TRAIN | STUDY_IN_BENCH)
#define IMAGES (STUDY_IN_TRAIN | STUDY_IN_EVAL)

/* The batch of eval is left alone: its results do not depend on it. */
static const study_option table[] = {
    {"--entry", STUDY_EVERYWHERE, STUDY_VALUE_TEXT, "NAME",
     "the model of a file that declares several"},
    {"--image", STUDY_EVERYWHERE, STUDY_VALUE_TEXT, "SIZE", "image size: 512 or 224x384"},
    {"--" STUDY_TEST_IMAGE, STUDY_IN_EVAL, STUDY_VALUE_TEXT, "SIZE",
     "image size of the evaluation on test alone, of weights that were trained at another"},
    {"--mode", STUDY_EVERYWHERE, STUDY_VALUE_TEXT, "MODE",
     "form of every recurrence: {modes}; as an axis also chunkwise(16)"},
    {"--chunk", STUDY_EVERYWHERE, STUDY_VALUE_COUNT, "N", "chunk size; implies --mode chunkwise"},
    {"--batch", STUDY_IN_CHECK | UPDATES, STUDY_VALUE_COUNT, "N",
     "images at a time, of train and bench"},
    {"--precision", STUDY_EVERYWHERE, STUDY_VALUE_TEXT, "P", "of products on CUDA: {precisions}"},
    {"--target", STUDY_EVERYWHERE, STUDY_VALUE_TEXT, "T", "{targets}"},
    {"--threads", RUNS, STUDY_VALUE_COUNT, "N", "of each process (default: cores / jobs)"},
    {"--optimizer", UPDATES, STUDY_VALUE_TEXT, "NAME", "of train, and of bench with --bench-train"},
    {"--recipe", STUDY_IN_TRAIN, STUDY_VALUE_TEXT, "FILE", "of train"},
    {"--data", IMAGES, STUDY_VALUE_TEXT, "D",
     "what is trained and judged on (default: the recipe's)"},
    {"--init", STUDY_IN_TRAIN, STUDY_VALUE_TEXT, "FILE", "train: start from these weights"},
    {"--epochs", STUDY_IN_TRAIN, STUDY_VALUE_NUMBER, "N", "train: passes over the data"},
    {"--updates", STUDY_IN_TRAIN, STUDY_VALUE_COUNT, "N", "train: so many updates"},
    {"--max-steps", STUDY_IN_TRAIN, STUDY_VALUE_NUMBER, "N", "train: stop after that many updates"},
    {"--max-seconds", STUDY_IN_TRAIN, STUDY_VALUE_NUMBER, "S", "train: stop after that time"},
    {"--fit-seconds", STUDY_IN_TRAIN, STUDY_VALUE_NUMBER, "S",
     "train: plan the updates for that time"},
    {"--lr", STUDY_IN_TRAIN, STUDY_VALUE_NUMBER, "X", "train: peak learning rate"},
    {"--final-lr", STUDY_IN_TRAIN, STUDY_VALUE_NUMBER, "X", "train: learning rate at the end"},
    {"--schedule", STUDY_IN_TRAIN, STUDY_VALUE_TEXT, "NAME", "train: how the rate goes"},
    {"--warmup", STUDY_IN_TRAIN, STUDY_VALUE_NUMBER, "E", "train: epochs of linear warm-up"},
    {"--warmup-updates", STUDY_IN_TRAIN, STUDY_VALUE_NUMBER, "N", "train: of linear warm-up"},
    {"--weight-decay", STUDY_IN_TRAIN, STUDY_VALUE_NUMBER, "X", "train: weight decay"},
    {"--clip", STUDY_IN_TRAIN, STUDY_VALUE_NUMBER, "X", "train: gradient norm clip"},
    {"--loss-scale", STUDY_IN_TRAIN, STUDY_VALUE_NUMBER, "X", "train: of fp16"},
    {"--label-smoothing", STUDY_IN_TRAIN, STUDY_VALUE_NUMBER, "X", "train: label smoothing"},
    {"--layer-decay", STUDY_IN_TRAIN, STUDY_VALUE_NUMBER, "X",
     "train: learning rate of a block against the next"},
    {"--ema", STUDY_IN_TRAIN, STUDY_VALUE_NUMBER, "D", "train: average the weights"},
    {"--shift", STUDY_IN_TRAIN, STUDY_VALUE_NUMBER, "N", "train: shift images at random"},
    {"--flip", STUDY_IN_TRAIN, STUDY_VALUE_FLAG, NULL, "train: mirror images at random"},
    {"--erase", STUDY_IN_TRAIN, STUDY_VALUE_NUMBER, "P", "train: erase a rectangle at random"},
    {"--crop-scale", STUDY_IN_TRAIN, STUDY_VALUE_NUMBER, "A", "train: random resized crop"},
    {"--crop", IMAGES, STUDY_VALUE_TEXT, "R", "part of the resized side that the model sees"},
    {"--resize", IMAGES, STUDY_VALUE_TEXT, "HOW", "crop, squash or pad"},
    {"--filter", IMAGES, STUDY_VALUE_TEXT, "F", "of resizing"},
    {"--mean", IMAGES, STUDY_VALUE_TEXT, "M", "of pixels"},
    {"--std", IMAGES, STUDY_VALUE_TEXT, "S", "of pixels"},
    {"--limit", STUDY_IN_TRAIN, STUDY_VALUE_NUMBER, "N", "train: only N samples"},
    {"--val-fraction", STUDY_IN_TRAIN, STUDY_VALUE_NUMBER, "F", "train: share that is held out"},
    {"--val-seed", STUDY_IN_TRAIN, STUDY_VALUE_NUMBER, "N", "train: another choice of them"},
    {"--workers", IMAGES, STUDY_VALUE_NUMBER, "N", "threads that decode"},
    {"--recompute", UPDATES, STUDY_VALUE_COUNT, "N",
     "train, bench: gradients compute the activations of so many blocks again"},
    {"--memory", STUDY_IN_TRAIN, STUDY_VALUE_TEXT, "SIZE",
     "train: recompute, and accumulate, as little as keeps it below 4G, say"},
    {"--eval-batch", STUDY_IN_TRAIN, STUDY_VALUE_COUNT, "N",
     "train: images at a time in evaluation"},
    {"--skip-damaged", IMAGES, STUDY_VALUE_NUMBER, "N", "damaged samples to do without"},
};

const study_option *study_option_table(size_t *n) {
  *n = sizeof table / sizeof *table;
  return table;
}

const study_option *study_option_find(const char *name) {
  for (size_t i = 0; i < sizeof table / sizeof *table; i++)
    if (strcmp(table[i].word + 2, name) == 0) return &table[i];
  return NULL;
}
