/* dlprof train: trains a model for real and records it. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/alloc.h"
#include "common/cpu.h"
#include "profiler/cmd_train_run.h"
#include "profiler/commands.h"
#include "profiler/interrupt.h"
#include "profiler/measured_row.h"
#include "profiler/run/run_progress.h"
#include "profiler/slow_list.h"

static dl_train_options default_options(void)
{
    const dl_train_config config = dl_train_default_config();
    return (dl_train_options){.workload = dl_workload_options_default(),
                              .device = dl_device_options_default(),
                              .accuracy = dl_accuracy_options_default(),
                              .ranks = dl_rank_options_default(),
                              .workers = config.workers,
                              .interval = config.interval,
                              .batch = config.batch,
                              .steps = config.steps,
                              .server_threads = config.server_threads,
                              .sync = (int)config.sync,
                              .wait = (int)config.wait,
                              .output = "run.dlt"};
}

static const dl_option own_options[] = {
    {.name = "workers",
     .letter = 'w',
     .type = DL_OPTION_INT,
     .target = DL_OPTION_FIELD(dl_train_options, workers),
     .low = 1,
     .high = DL_TRAIN_WORKERS_MAX,
     .argument = "COUNT",
     .help = "replicas of the model, each a thread pinned to a core, and on a GPU with --device; "
             "of all ranks together"},
    {.name = "sync",
     .letter = 's',
     .type = DL_OPTION_CHOICE,
     .target = DL_OPTION_FIELD(dl_train_options, sync),
     .choices = dl_sync_names,
     .argument = "MODE",
     .help = "what the workers exchange"},
    {.name = "interval",
     .type = DL_OPTION_INT,
     .target = DL_OPTION_FIELD(dl_train_options, interval),
     .low = 1,
     .high = INT32_MAX,
     .argument = "STEPS",
     .help = "steps between two averages of the parameters (average)"},
    {.name = "average-state",
     .type = DL_OPTION_FLAG,
     .target = DL_OPTION_FIELD(dl_train_options, average_state),
     .help = "average the optimizer's state too (average)"},
    {.name = "server-threads",
     .type = DL_OPTION_INT,
     .target = DL_OPTION_FIELD(dl_train_options, server_threads),
     .low = 1,
     .high = DL_TRAIN_WORKERS_MAX,
     .argument = "COUNT",
     .help = "workers that average or update in slices (average, ps)"},
    {.name = "batch",
     .letter = 'b',
     .type = DL_OPTION_INT,
     .target = DL_OPTION_FIELD(dl_train_options, batch),
     .low = 1,
     .high = 1 << 20,
     .argument = "SAMPLES",
     .help = "samples of a step of all workers together"},
    {.name = "steps",
     .type = DL_OPTION_INT,
     .target = DL_OPTION_FIELD(dl_train_options, steps),
     .low = 1,
     .high = UINT32_MAX,
     .argument = "COUNT",
     .help = "steps of each worker"},
    {.name = "epochs",
     .type = DL_OPTION_INT,
     .target = DL_OPTION_FIELD(dl_train_options, epochs),
     .low = 0,
     .high = 1 << 20,
     .argument = "COUNT",
     .help = "passes over the data instead of --steps; 0 means --steps counts"},
    {.name = "slow",
     .type = DL_OPTION_LIST,
     .target = DL_OPTION_FIELD(dl_train_options, slow),
     .argument = "WORKER:FACTOR",
     .help = "prolong a worker's compute by a factor"},
    {.name = "wait",
     .type = DL_OPTION_CHOICE,
     .target = DL_OPTION_FIELD(dl_train_options, wait),
     .choices = dl_wait_names,
     .argument = "HOW",
     .help = "how workers wait; auto spins if each has its own core"},
    {.name = "output",
     .letter = 'o',
     .type = DL_OPTION_TEXT,
     .target = DL_OPTION_FIELD(dl_train_options, output),
     .argument = "FILE",
     .help = "the trace to write; of ranks each its own, as run.rank0.dlt"},
    {.name = "no-trace",
     .type = DL_OPTION_FLAG,
     .target = DL_OPTION_FIELD(dl_train_options, no_trace),
     .help = "keep only the statistics, write no trace"},
    {.name = "csv",
     .type = DL_OPTION_TEXT,
     .target = DL_OPTION_FIELD(dl_train_options, csv),
     .argument = "FILE",
     .help = "append a row of results, as dlsim compares with"},
    {.name = "evaluate",
     .letter = 'e',
     .type = DL_OPTION_FLAG,
     .target = DL_OPTION_FIELD(dl_train_options, evaluate),
     .help = "print the accuracy on the test images"},
};

/* The table of the command: its own options, then those of each topic. */
enum {
    OWN_OPTION_COUNT = sizeof own_options / sizeof *own_options,
    WORKLOAD_OPTIONS = OWN_OPTION_COUNT,
    DEVICE_OPTIONS = WORKLOAD_OPTIONS + DL_WORKLOAD_OPTION_COUNT,
    ACCURACY_OPTIONS = DEVICE_OPTIONS + DL_DEVICE_OPTION_COUNT,
    RANK_OPTIONS = ACCURACY_OPTIONS + DL_ACCURACY_OPTION_COUNT,
    OPTION_COUNT = RANK_OPTIONS + DL_RANK_OPTION_COUNT
};

static void fill_table(dl_train_options *options, dl_option table[OPTION_COUNT])
{
    dl_options_bind(table, own_options, OWN_OPTION_COUNT, options);
    dl_workload_options_table(&options->workload, &table[WORKLOAD_OPTIONS]);
    dl_device_options_table(&options->device, &table[DEVICE_OPTIONS]);
    dl_accuracy_options_table(&options->accuracy, &table[ACCURACY_OPTIONS]);
    dl_rank_options_table(&options->ranks, &table[RANK_OPTIONS]);
}

/* What needs neither files nor devices. */
static void apply_options(const dl_train_options *options, dl_train_config *config)
{
    *config = dl_train_default_config();
    dl_workload_options_apply(&options->workload, config);
    config->sync = (dl_sync)options->sync;
    config->interval = (int)options->interval;
    config->average_state = options->average_state;
    config->server_threads = (int)options->server_threads;
    config->workers = (int)options->workers;
    config->batch = (int)options->batch;
    config->steps = options->steps;
    config->wait = (dl_wait)options->wait;
}

dl_status dl_train_command_configure(dl_train_command *run, dl_error *err)
{
    const dl_train_options *options = run->options;
    dl_train_config *config = &run->config;
    apply_options(options, config);
    dl_ranks_apply(run->ranks, config);
    dl_status status = dl_slow_list_parse(&options->slow, config->workers, &run->slow, err);
    if (status == DL_OK) status = dl_device_options_apply(&options->device, config, err);
    if (status != DL_OK) return status;
    config->slow = run->slow;
    const dl_data_source source = dl_workload_options_data(&options->workload);
    status = dl_data_source_open(&source, &run->data, &run->data_note, err);
    if (status == DL_OK) status = dl_ranks_check_data(run->ranks, &run->data, err);
    if (status == DL_OK) {
        status = dl_accuracy_options_apply(&options->accuracy, run->data.count, config, err);
    }
    if (status != DL_OK || options->epochs == 0) return status;
    config->steps = options->epochs * (int64_t)run->data.count / config->batch;
    if (config->steps > 0) return DL_OK;
    return dl_error_set(err, DL_ERR_RANGE,
                        "batch %d is larger than %" PRId64 " epochs of %zu samples", config->batch,
                        options->epochs, run->data.count);
}

dl_status dl_train_command_open_test(dl_train_command *run, dl_error *err)
{
    if (!run->options->evaluate && run->options->accuracy.curve == NULL) return DL_OK;
    dl_data_source source = dl_workload_options_data(&run->options->workload);
    /* The test images of what was trained on, whatever --data was. */
    source.choice = dl_data_choice_of(run->data.name);
    source.test_set = true;
    return dl_data_source_open(&source, &run->test, &run->test_note, err);
}

dl_status dl_train_command_evaluate(dl_train_command *run, dl_error *err)
{
    const dl_train_options *options = run->options;
    const char *curve = options->accuracy.curve;
    const dl_schedule *schedule = options->accuracy.schedule != NULL ? &run->schedule : NULL;
    dl_status status = DL_OK;
    if (options->evaluate) {
        status = dl_train_accuracy(run->config.model, run->result.parameters, &run->test,
                                   &run->accuracy, err);
    }
    if (status == DL_OK && curve != NULL) {
        status = dl_curve_write(curve, &run->config, schedule, &run->result, run->data.count,
                                &run->test, &run->curve_points, err);
    }
    return status;
}

/* All have done their part; what comes behind it others need not wait for. After a failure the ranks
 * stay until it was told. */
static void leave_ranks(dl_train_command *run)
{
    dl_rank_group_leave(run->ranks, true);
    run->ranks = NULL;
    run->config.ranks = NULL;
}

/* Refuses what all ranks refuse alike before they meet. */
static dl_status meet(dl_train_command *run, const char *command_text, dl_error *err)
{
    const dl_train_options *options = run->options;
    apply_options(options, &run->config);
    dl_status status = dl_train_command_check_mode(options, err);
    if (status == DL_OK) {
        status = dl_workload_usage(dl_ranks_check(&options->ranks, &run->config, err), err);
    }
    if (status == DL_OK) status = dl_ranks_join(&options->ranks, command_text, &run->ranks, err);
    if (status != DL_OK) return status;
    run->rank_count = run->ranks != NULL ? dl_rank_group_size(run->ranks) : 1;
    run->first = run->ranks == NULL || dl_rank_group_rank(run->ranks) == 0;
    run->output = dl_ranks_path(run->ranks, options->output);
    return DL_OK;
}

static dl_status train(dl_train_command *run, const char *command_text, dl_error *err)
{
    const dl_train_options *options = run->options;
    dl_status status = meet(run, command_text, err);
    if (status == DL_OK) status = dl_train_command_configure(run, err);
    if (status == DL_OK) status = dl_train_command_check(run, err);
    if (status == DL_OK) status = dl_run_sizes_find(&run->config, &run->sizes, err);
    if (status == DL_OK && run->first) status = dl_train_command_open_test(run, err);
    if (status != DL_OK) return status;
    status =
        dl_recorder_open(&run->recorder, &run->config, options->no_trace ? NULL : run->output, err);
    if (status != DL_OK) return status;
    if (run->recorder.writer != NULL) {
        dl_run_meta_common(run->recorder.writer, "train", command_text, run->data.name,
                           &run->config, &run->sizes);
        dl_run_meta_training(run->recorder.writer, &run->config);
        dl_ranks_meta(run->ranks, &run->config, run->recorder.writer);
    }
    const dl_train_observer observer = dl_recorder_observer(&run->recorder);
    dl_run_progress progress;
    if (run->first) dl_run_progress_start(&progress, &run->recorder);
    run->config.stop = dl_interrupt_catch(DL_INTERRUPT_LIMIT_S);
    const dl_cpu_usage before = dl_cpu_usage_now();
    status = dl_train_run(&run->config, &run->data, &observer, &run->result, err);
    const dl_cpu_usage after = dl_cpu_usage_now();
    dl_interrupt_met();
    const dl_cpu_disturbance disturbed = dl_cpu_disturbed(&before, &after);
    if (run->recorder.writer != NULL) dl_run_meta_disturbed(run->recorder.writer, &disturbed);
    if (run->first) dl_run_progress_stop(&progress);
    if (dl_interrupt_caught() && run->recorder.writer != NULL) {
        dl_trace_writer_meta(run->recorder.writer, "stopped", dl_interrupt_name());
    }
    if (status == DL_OK && run->recorder.writer != NULL) {
        dl_device_memory_meta(run->recorder.writer, &run->result);
        if (dl_train_diverged(&run->result)) {
            dl_trace_writer_meta(run->recorder.writer, "diverged", "1");
        }
    }
    if (status == DL_OK) status = dl_recorder_finish(&run->recorder, err);
    if (status == DL_OK) status = dl_ranks_gather_steps(run->ranks, &run->recorder, err);
    if (status == DL_OK) leave_ranks(run);
    if (!run->first) return status;
    if (status == DL_OK) status = dl_train_command_evaluate(run, err);
    if (status == DL_OK && options->csv != NULL) {
        status =
            dl_measured_row_append(options->csv, &run->config, &run->recorder, &disturbed, err);
    }
    return status;
}

static void free_run(dl_train_command *run)
{
    dl_train_result_free(&run->result);
    dl_recorder_free(&run->recorder);
    dl_rank_group_leave(run->ranks, false);
    free(run->output);
    dl_data_set_free(&run->data);
    free(run->data_note);
    dl_data_set_free(&run->test);
    dl_schedule_free(&run->schedule);
    free(run->test_note);
    free(run->slow);
}

static void print_error(const dl_train_command *run, const dl_error *err, const char *program)
{
    char *name = run->ranks == NULL
                     ? dl_strdup(program)
                     : dl_format("%s: rank %d", program, dl_rank_group_rank(run->ranks));
    dl_error_print(err, name, stderr);
    free(name);
}

int dl_cmd_train(int argc, char **argv)
{
    dl_train_options options = default_options();
    dl_option table[OPTION_COUNT];
    fill_table(&options, table);
    const dl_command command = {
        .program = argv[0],
        .positional = "",
        .summary = "Train a model for real, on threads pinned to cores, and record what they do.",
        .options = table,
        .option_count = OPTION_COUNT,
    };
    dl_text_list positional = {0};
    dl_options_action action = DL_OPTIONS_RUN;
    dl_error err = {0};
    dl_status status = dl_options_parse(&command, argc, argv, &positional, &action, &err);
    dl_train_command run = {.options = &options};
    if (status == DL_OK && action == DL_OPTIONS_RUN) {
        char *text = dl_options_dump(&command);
        char *command_text = dl_format("%s %s", argv[0], text);
        const bool replays = options.accuracy.schedule != NULL;
        status = replays ? dl_train_command_replay(&run, &err) : train(&run, command_text, &err);
        if (status == DL_OK && replays) dl_train_command_report_replay(&run);
        if (status == DL_OK && run.first) dl_train_command_report(&run);
        free(command_text);
        free(text);
    }
    if (status != DL_OK) print_error(&run, &err, argv[0]);
    free_run(&run);
    dl_text_list_free(&options.slow);
    dl_text_list_free(&positional);
    if (status == DL_OK && dl_interrupt_caught()) return dl_interrupt_exit_code();
    return dl_status_exit_code(status);
}
