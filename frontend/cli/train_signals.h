/* Requests to end a training: before it begins they end the process; then the first lets it finish
 * its update and write a checkpoint, the second ends the process at once. */
#ifndef VTB_CLI_TRAIN_SIGNALS_H
#define VTB_CLI_TRAIN_SIGNALS_H

/* SIGINT and SIGTERM from now on, and SIGHUP unless the process was told to ignore it (nohup). */
void train_signals_take(void);
/* From now on there is something to finish. */
void train_signals_begin(void);
/* Not zero once one came: its number. */
extern volatile int train_signal;

#endif
