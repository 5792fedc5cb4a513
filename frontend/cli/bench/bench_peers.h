/* Peers of `vertebra bench --peers`: other libraries that run the same model with the same numbers,
 * each in a process of peers.py, in rounds with this project's own program. */
#ifndef VTB_CLI_BENCH_PEERS_H
#define VTB_CLI_BENCH_PEERS_H

#include "frontend/cli/bench/bench.h"

#include <sys/types.h>

/* Every combination of the lists of images, batches and threads, of every model. Errors, and usage
 * errors, are printed. */
VTB_MUST_USE vtb_status bench_peers_run(const cli_list *models, const bench_options *o);

/* ---- bench_peer.c: a process that answers ---------------------------------------------------- */

typedef struct bench_peer {
  pid_t pid;   /* 0: none */
  int line;    /* a socket: jobs and answers are lines */
  char *log;   /* the file of what it says beside its answers */
  char *begun; /* of the next answer */
} bench_peer;

/* Begins `python` with peers.py as the peer of that name; what it says goes to the file `log`. */
VTB_MUST_USE vtb_status bench_peer_start(bench_peer *p, const char *python, const char *name,
                                         const char *log, vtb_error *err);
/* The answer to a job, which is taken over; the caller's. NULL: there is none, and *why, for
 * vtb_free(), is the sentence; `stop` ends the wait, NULL and *why NULL. */
cJSON *bench_peer_ask(bench_peer *p, cJSON *job, const volatile int *stop, char **why);
/* Ends it, whatever it does; zeros are fine. */
void bench_peer_end(bench_peer *p);

/* ---- bench_peers_case.c: what peers are given ------------------------------------------------ */

/* One combination as it is measured, and what is written down for its peers. */
typedef struct bench_peers_case {
  const char *model;
  const bench_options *options; /* of single values */
  vtb_compilation compilation;
  char *entry;              /* what is compiled, as it is declared */
  VTB_VEC(char *) settings; /* "name=value" */
  vtb_program *program;
  void **buffers, *workspace;
  char *folder; /* of files, which goes with the case */
  cJSON *job;   /* the job "open" */
} bench_peers_case;

/* Compiles the model, runs it once, and writes its numbers and its exported file. Errors are
 * printed. Free it after failures too. */
VTB_MUST_USE vtb_status bench_peers_case_open(bench_peers_case *c, const char *model,
                                              const bench_options *o);
void bench_peers_case_free(bench_peers_case *c);
char *bench_peers_file(const bench_peers_case *c, const char *name); /* in its folder */

/* ---- bench_peers_table.c: what came of it ---------------------------------------------------- */

typedef struct bench_participant {
  const char *name; /* of the table */
  bench_peer process;
  char *about;       /* versions, and what it ran; NULL: not known */
  char *missing;     /* why it has no numbers; NULL: it has */
  double difference; /* from our numbers, by the largest of them */
  VTB_VEC(bench_timing) rounds;
} bench_participant;

/* One combination and its participants, of which the first is this project. */
typedef struct bench_peers_cell {
  const char *model;
  char size[40]; /* of images; "": they have none */
  int64_t batch;
  int threads;
  double flops; /* of a run */
  bench_watch watch;
  const bench_participant *at;
  size_t n;
} bench_peers_cell;

typedef struct bench_peers_table bench_peers_table;
/* The document of all cells; processor: what runs it, as LLVM calls it. */
bench_peers_table *bench_peers_table_new(const bench_options *o);
void bench_peers_table_add(bench_peers_table *t, const bench_peers_cell *cell);
/* Told, and written as CSV where the options say so; errors are printed. It is gone afterwards. */
VTB_MUST_USE vtb_status bench_peers_table_finish(bench_peers_table *t);

#endif
