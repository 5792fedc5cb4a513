/* The two programs of a training run, compiled or from a built file, and what is set in them. */
#ifndef VTB_CLI_TRAIN_PROGRAMS_H
#define VTB_CLI_TRAIN_PROGRAMS_H

#include "frontend/draw/picture.h"
#include "frontend/cli/load/built.h"
#include "frontend/cli/data/data.h"
#include "frontend/cli/load/prepare.h"
#include "frontend/cli/train/train_init.h"
#include "frontend/cli/train/train_layers.h"

/* Most options are fields of what the compiler and the trainer take, which run_training()
 * completes. */
typedef struct train_options {
  cli_model_options model;
  vtb_train_config train;
  cli_data_options data;
  cli_prepare_options prepare;
  train_init init;
  train_layers layers;
  const char *out, *recipe, *again;
  const char *plan_scale; /* numbers of ranks to predict, instead of training; NULL: trains */
  const char *picture;    /* of the schedule, instead of training; NULL: trains */
  const char *augmented;  /* a picture of samples to draw, instead of training; NULL: trains */
  const char *augment_in; /* "loader" (NULL) or "step" */
  const char *trace;      /* a file for what the first updates do; NULL: not wanted */
  int64_t ranks_per_node; /* of the prediction; 0: the machine says */
  bool overwrite, tensorboard;
  const cli_opt *rows; /* of this struct */
  int n_rows;
  char *command;          /* the line that was typed */
  const char *label;      /* as given; NULL: what the options say */
  char *run_label;        /* the run's, see train_label.h */
  const char *name;       /* what weights say that they are of; NULL: MODEL */
  const char *source;     /* the .vtb file that is compiled instead of MODEL's; NULL: MODEL's */
  cli_list search;        /* folders of sources, where they are not the default ones */
  VTB_VEC(char *) owned;  /* texts that the others point to */
  int64_t updates;        /* of the whole run, instead of epochs; 0: epochs count */
  double lr_batch;        /* the batch that the learning rate is given for; 0: it is the run's */
  const char *lr_scaling; /* how it follows the batch: NULL is linear */
  int64_t rank_threads;   /* of this process */
  const char *schedule;   /* a name or a file, with settings; NULL: the default */
  double final_lr;        /* what schedules know of the rate at the end */
  double warmup;          /* epochs */
  int64_t warmup_updates; /* instead; 0: epochs count */
  int64_t warm;           /* updates of warm-up of the run as it is planned */
  double decay;           /* NAN: the optimizer's own */
  double checkpoint_minutes;
  bool quiet;
} train_options;

#define TRAIN_FINAL_LR 1e-6
#define TRAIN_WARMUP 0.5 /* epochs */

static inline bool train_augments_inside(const train_options *o) {
  return vtb_streq(o->augment_in, "step");
}

/* Options of training that is predicted or looked at (plan_scale.h, train_trace.h). */
#define TRAIN_FORESIGHT_OPTS(o)                                                                    \
  {"--plan-scale", CLI_STR, &(o).plan_scale, "N,N,...",                                            \
   "train nothing: predict steps on so many ranks, 8,64,512 (docs/scaling_model.md)"},             \
      {"--draw-schedule", CLI_FILE, &(o).picture, PICTURE_FILE,                                    \
       "train nothing: the rate over such a run as a picture"},                                    \
      {"--ranks-per-node", CLI_POSITIVE, &(o).ranks_per_node, "N",                                 \
       "--plan-scale: ranks that share a node (default: GPUs 8, else this machine's)"},            \
      {"--augmented", CLI_FILE, &(o).augmented, "FILE.png",                                        \
       "train nothing: draw what the flags and augment { } make of some samples"},                 \
  {                                                                                                \
    "--trace", CLI_FILE, &(o).trace, "FILE.json",                                                  \
        "what the first updates do, on every rank, as a Chrome trace (Perfetto)"                   \
  }

/* How an update's images are shared out, and what the learning rate has to do with their number. */
#define TRAIN_BATCH_OPTS(o)                                                                        \
  {"--accumulate", CLI_POSITIVE, &(o).train.accumulate, "K",                                       \
   "an update in K runs of a K-th of its images (default 1): less memory, the same update"},       \
      CLI_RECOMPUTE_OPT((o).model),                                                                \
      CLI_MEMORY_OPT((o).model,                                                                    \
                     "recompute, and accumulate, as little as keeps the run below 4G, say"),       \
      {"--shard-optimizer", CLI_FLAG, &(o).train.shard, NULL,                                      \
       "ranks keep the optimizer's state of their share of the parameters alone (ZeRO-1)"},        \
      {"--lr-batch", CLI_FLOAT, &(o).lr_batch, "N",                                                \
       "--lr and --final-lr are for batches of N images: they follow --batch"},                    \
  {                                                                                                \
    "--lr-scaling", CLI_CHOICE, &(o).lr_scaling, "linear|sqrt",                                    \
        "with --lr-batch: linear (default), or sqrt of the batch"                                  \
  }

typedef VTB_VEC(vtb_source_file) train_sources; /* each with its own texts, by name */

typedef struct train_programs {
  vtb_program *step, *eval;
  vtb_augments augments;       /* of the model's images in training */
  char augmented[160];         /* where they stand and run; "": nowhere */
  bool measured;               /* the model declares what it is trained for */
  int channels, height, width; /* of the image input; channels 0: there is none */
  vtb_artefact *file;          /* both are from it; NULL: compiled here */
  train_sources sources;       /* of model, optimizer and schedule, where they are compiled here */
  vtb_rule_choice optimizer;
  char name[VTB_OPTIM_NAME];  /* of the step's optimizer */
  VTB_VEC(vtb_setting) given; /* hyperparameters that are not the step's defaults */
  cJSON *settings;            /* the texts of its defines */
  char define[64];            /* num_classes=..., where the data say it */
} train_programs;

/* Keeps copies of the unit's texts among the sources, each once. */
void train_programs_keep(train_programs *p, vtb_unit *u);
/* For data of so many classes (0: not known). Errors are printed. */
VTB_MUST_USE vtb_status train_programs_open(const char *what, train_options *o, int classes,
                                            train_programs *p);
void train_programs_free(train_programs *p);
/* The settings of the update: of a file those of --optimizer, of both --weight-decay. */
VTB_MUST_USE vtb_status train_programs_optimizer(train_programs *p, train_options *o,
                                                 vtb_error *err);

#endif
