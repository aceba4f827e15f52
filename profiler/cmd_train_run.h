/* Inside of `dlprof train` (cmd_train*.c; nobody else includes this): the command line and one run
 * from its data to its report. */
#ifndef DL_PROFILER_CMD_TRAIN_RUN_H
#define DL_PROFILER_CMD_TRAIN_RUN_H

#include "profiler/cmd_train_accuracy.h"
#include "profiler/device_options.h"
#include "profiler/ranks.h"
#include "profiler/recorder.h"
#include "profiler/run/run_meta.h"
#include "profiler/workload_options.h"

/* The command line. */
typedef struct dl_train_options {
    dl_workload_options workload;
    dl_device_options device;
    dl_accuracy_options accuracy;
    dl_rank_options ranks;
    int64_t workers, interval, batch, steps, epochs, server_threads;
    int sync, wait;
    bool average_state, no_trace, evaluate;
    dl_text_list slow;
    const char *output, *csv;
} dl_train_options;

/* One run from its data to its report. */
typedef struct dl_train_command {
    const dl_train_options *options;
    dl_rank_group *ranks; /* NULL: this process is all */
    int rank_count;
    bool first;   /* rank 0 of a run without a schedule, who prints and evaluates */
    char *output; /* the trace to write */
    dl_train_config config;
    double *slow;
    dl_data_set data;
    char *data_note;
    dl_run_sizes sizes;
    dl_recorder recorder;
    dl_train_result result;
    dl_schedule schedule; /* with --schedule */
    dl_data_set test;     /* with --evaluate or --curve */
    double accuracy;      /* with --evaluate */
    int curve_points;     /* with --curve */
    char *test_note;
} dl_train_command;

/* cmd_train_check.c, before anything is made. DL_ERR_USAGE for options that the mode does not take; for
 * settings that cannot be, or not with the training set; and for files that are given twice or, also
 * DL_ERR_IO and DL_ERR_FORMAT, cannot be written. */
dl_status dl_train_command_check_mode(const dl_train_options *options, dl_error *err) DL_MUST_CHECK;
dl_status dl_train_command_check(const dl_train_command *run, dl_error *err) DL_MUST_CHECK;

/* What the options say without the training set, and the set itself. */
dl_status dl_train_command_configure(dl_train_command *run, dl_error *err) DL_MUST_CHECK;

/* Reads the test images where the options need them, before the run; evaluates and writes what they
 * ask for, behind it. */
dl_status dl_train_command_open_test(dl_train_command *run, dl_error *err) DL_MUST_CHECK;
dl_status dl_train_command_evaluate(dl_train_command *run, dl_error *err) DL_MUST_CHECK;

/* cmd_train_replay.c: with --schedule, all of the run. DL_ERR_USAGE for options that the schedule
 * decides, and for those of a trace. */
dl_status dl_train_command_replay(dl_train_command *run, dl_error *err) DL_MUST_CHECK;

/* cmd_train_report.c: prints settings and results; of a replay. */
void dl_train_command_report(const dl_train_command *run);
void dl_train_command_report_replay(const dl_train_command *run);

#endif
