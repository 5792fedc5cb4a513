/* Requests to end a training: before it begins they end the process; then the first lets it finish
 * its update and write a checkpoint, the second ends the process at once. */
#ifndef VTB_CLI_TRAIN_SIGNALS_H
#define VTB_CLI_TRAIN_SIGNALS_H

#include <stdbool.h>

/* SIGINT and SIGTERM from now on, and SIGHUP unless the process was told to ignore it (nohup). */
void train_signals_take(void);
/* From now on there is something to finish. */
void train_signals_begin(void);
/* While held they wait. */
void train_signals_hold(bool held);
/* A signal that ends the process also takes away a folder that holds `only_file` alone; NULL: from
 * now on none. */
void train_signals_leave_nothing(const char *new_folder, const char *only_file);
/* Not zero once one came: its number. */
extern volatile int train_signal;
/* How many came. */
extern volatile int train_asked;

#endif
