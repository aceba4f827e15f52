/* dlprof train: trains a model for real and records it. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/alloc.h"
#include "common/cpu.h"
#include "common/units.h"
#include "profiler/commands.h"
#include "profiler/device_options.h"
#include "profiler/interrupt.h"
#include "profiler/measured_row.h"
#include "profiler/recorder.h"
#include "profiler/run_meta.h"
#include "profiler/run_progress.h"
#include "profiler/slow_list.h"
#include "profiler/workload_options.h"

#define OWN_OPTION_COUNT 14
#define OPTION_COUNT (OWN_OPTION_COUNT + DL_WORKLOAD_OPTION_COUNT + DL_DEVICE_OPTION_COUNT)

/* The command line. */
typedef struct train_options {
    dl_workload_options workload;
    dl_device_options device;
    int64_t workers, interval, batch, steps, epochs, server_threads;
    int sync, wait;
    bool average_state, no_trace, evaluate;
    dl_text_list slow;
    const char *output, *csv;
} train_options;

/* One run from its data to its report. */
typedef struct train_run {
    const train_options *options;
    dl_train_config config;
    double *slow;
    dl_data_set data;
    char *data_note;
    dl_run_sizes sizes;
    dl_recorder recorder;
    dl_train_result result;
    double accuracy; /* with --evaluate */
    char *test_note;
} train_run;

static train_options default_options(void)
{
    const dl_train_config config = dl_train_default_config();
    return (train_options){.workload = dl_workload_options_default(),
                           .device = dl_device_options_default(),
                           .workers = config.workers,
                           .interval = config.interval,
                           .batch = config.batch,
                           .steps = config.steps,
                           .server_threads = config.server_threads,
                           .sync = (int)config.sync,
                           .wait = (int)config.wait,
                           .output = "run.dlt"};
}

static void fill_table(train_options *options, dl_option *table)
{
    const dl_option own[OWN_OPTION_COUNT] = {
        {.name = "workers",
         .letter = 'w',
         .type = DL_OPTION_INT,
         .target = &options->workers,
         .low = 1,
         .high = DL_TRAIN_WORKERS_MAX,
         .argument = "COUNT",
         .help =
             "replicas of the model, each a thread pinned to a core, and on a GPU with --device"},
        {.name = "sync",
         .letter = 's',
         .type = DL_OPTION_CHOICE,
         .target = &options->sync,
         .choices = dl_sync_names,
         .argument = "MODE",
         .help = "what the workers exchange"},
        {.name = "interval",
         .type = DL_OPTION_INT,
         .target = &options->interval,
         .low = 1,
         .high = INT32_MAX,
         .argument = "STEPS",
         .help = "steps between two averages of the parameters (average)"},
        {.name = "average-state",
         .type = DL_OPTION_FLAG,
         .target = &options->average_state,
         .help = "average the optimizer's state too (average)"},
        {.name = "server-threads",
         .type = DL_OPTION_INT,
         .target = &options->server_threads,
         .low = 1,
         .high = DL_TRAIN_WORKERS_MAX,
         .argument = "COUNT",
         .help = "workers that average or update in slices (average, ps)"},
        {.name = "batch",
         .letter = 'b',
         .type = DL_OPTION_INT,
         .target = &options->batch,
         .low = 1,
         .high = 1 << 20,
         .argument = "SAMPLES",
         .help = "samples of a step of all workers together"},
        {.name = "steps",
         .type = DL_OPTION_INT,
         .target = &options->steps,
         .low = 1,
         .high = UINT32_MAX,
         .argument = "COUNT",
         .help = "steps of each worker"},
        {.name = "epochs",
         .type = DL_OPTION_INT,
         .target = &options->epochs,
         .low = 0,
         .high = 1 << 20,
         .argument = "COUNT",
         .help = "passes over the data instead of --steps; 0 means --steps counts"},
        {.name = "slow",
         .type = DL_OPTION_LIST,
         .target = &options->slow,
         .argument = "WORKER:FACTOR",
         .help = "prolong a worker's compute by a factor"},
        {.name = "wait",
         .type = DL_OPTION_CHOICE,
         .target = &options->wait,
         .choices = dl_wait_names,
         .argument = "HOW",
         .help = "how workers wait; auto spins if each has its own core"},
        {.name = "output",
         .letter = 'o',
         .type = DL_OPTION_TEXT,
         .target = &options->output,
         .argument = "FILE",
         .help = "the trace to write"},
        {.name = "no-trace",
         .type = DL_OPTION_FLAG,
         .target = &options->no_trace,
         .help = "keep only the statistics, write no trace"},
        {.name = "csv",
         .type = DL_OPTION_TEXT,
         .target = &options->csv,
         .argument = "FILE",
         .help = "append a row of results, as dlsim compares with"},
        {.name = "evaluate",
         .letter = 'e',
         .type = DL_OPTION_FLAG,
         .target = &options->evaluate,
         .help = "print the accuracy on the test images"},
    };
    memcpy(table, own, sizeof own);
    dl_workload_options_table(&options->workload, table + OWN_OPTION_COUNT);
    dl_device_options_table(&options->device, table + OWN_OPTION_COUNT + DL_WORKLOAD_OPTION_COUNT);
}

static dl_status configure(train_run *run, dl_error *err)
{
    const train_options *options = run->options;
    dl_train_config *config = &run->config;
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
    dl_status status = dl_slow_list_parse(&options->slow, config->workers, &run->slow, err);
    if (status == DL_OK) status = dl_device_options_apply(&options->device, config, err);
    if (status != DL_OK) return status;
    config->slow = run->slow;
    const dl_data_source source = dl_workload_options_data(&options->workload);
    status = dl_data_source_open(&source, &run->data, &run->data_note, err);
    if (status != DL_OK || options->epochs == 0) return status;
    config->steps = options->epochs * (int64_t)run->data.count / config->batch;
    if (config->steps > 0) return DL_OK;
    return dl_error_set(err, DL_ERR_RANGE,
                        "batch %d is larger than %" PRId64 " epochs of %zu samples", config->batch,
                        options->epochs, run->data.count);
}

static dl_status evaluate(train_run *run, dl_error *err)
{
    dl_data_source source = dl_workload_options_data(&run->options->workload);
    /* The test images of what was trained on, whatever --data was. */
    source.choice = dl_data_choice_of(run->data.name);
    source.test_set = true;
    dl_data_set test = {0};
    dl_status status = dl_data_source_open(&source, &test, &run->test_note, err);
    if (status != DL_OK) return status;
    status =
        dl_train_accuracy(run->config.model, run->result.parameters, &test, &run->accuracy, err);
    dl_data_set_free(&test);
    return status;
}

static dl_status train(train_run *run, const char *command_text, dl_error *err)
{
    const train_options *options = run->options;
    dl_status status = configure(run, err);
    if (status == DL_OK) status = dl_run_sizes_find(&run->config, &run->sizes, err);
    if (status != DL_OK) return status;
    status = dl_recorder_open(&run->recorder, &run->config,
                              options->no_trace ? NULL : options->output, err);
    if (status != DL_OK) return status;
    if (run->recorder.writer != NULL) {
        dl_run_meta_common(run->recorder.writer, "train", command_text, run->data.name,
                           &run->config, &run->sizes);
        dl_run_meta_training(run->recorder.writer, &run->config);
    }
    const dl_train_observer observer = dl_recorder_observer(&run->recorder);
    dl_run_progress progress;
    dl_run_progress_start(&progress, &run->recorder);
    run->config.stop = dl_interrupt_catch();
    status = dl_train_run(&run->config, &run->data, &observer, &run->result, err);
    dl_run_progress_stop(&progress);
    if (dl_interrupt_caught() && run->recorder.writer != NULL) {
        dl_trace_writer_meta(run->recorder.writer, "stopped", "SIGINT");
    }
    if (status == DL_OK) status = dl_recorder_finish(&run->recorder, err);
    if (status == DL_OK && options->evaluate) status = evaluate(run, err);
    if (status == DL_OK && options->csv != NULL) {
        status = dl_measured_row_append(options->csv, &run->config, &run->recorder, err);
    }
    return status;
}

static void print_device(const dl_train_config *config)
{
    if (config->device == NULL) return;
    static const char *const math[] = {"fp32", "factors rounded to tf32",
                                       "factors rounded to fp16, loss scaled"};
    char *device = dl_device_text(config);
    printf("device      %s, issued to by %s, copies through %s memory, %s\n", device,
           config->dispatch == DL_DISPATCH_SINGLE ? "one thread" : "a thread a worker",
           dl_host_memory_names[config->device_settings.pageable],
           math[config->device_settings.math]);
    free(device);
}

static void print_where(const dl_train_config *config)
{
    if (config->quantise != DL_QUANTISE_NONE) {
        printf(", gradients sent as %s", dl_quantise_names[config->quantise]);
    }
    if (config->device == NULL || config->sync == DL_SYNC_NONE) return;
    char *where = dl_device_where_text(config);
    printf(", where = %s", where);
    free(where);
}

static void print_settings(const train_run *run)
{
    const dl_train_config *config = &run->config;
    char processor[128], size[32];
    printf("model       %s, %zu parameters (%s), %s\n", config->model, run->sizes.parameters,
           dl_format_bytes(size, sizeof size, (double)run->sizes.parameter_bytes),
           config->optimizer.name);
    printf("data        %s\n", run->data_note);
    printf("workers     %d on %d cores of %s, waiting by %s\n", config->workers,
           dl_run_cores(config), dl_cpu_name(processor, sizeof processor),
           dl_run_wait(config) == DL_WAIT_SPIN ? "spinning" : "blocking");
    print_device(config);
    printf("exchange    %s", dl_sync_names[config->sync]);
    if (config->sync == DL_SYNC_AVERAGE) {
        printf(" every %d steps%s", config->interval,
               config->average_state ? ", optimizer state too" : "");
    }
    print_where(config);
    printf("\nbatch       %d (%d a worker)\n", config->batch, config->batch / config->workers);
}

static void print_staleness(const train_run *run)
{
    const dl_distribution all = dl_recorder_staleness(&run->recorder, -1);
    if (all.count == 0) return;
    printf("staleness   mean %.3f, sd %.3f, p50 %.0f, p90 %.0f; mean by worker", all.mean, all.sd,
           all.p50, all.p90);
    for (int w = 0; w < run->config.workers; w++) {
        printf(" %.3f", dl_recorder_staleness(&run->recorder, w).mean);
    }
    printf("\n");
}

/* One number, or in modes where the first worker ends the run, one for each. */
static void print_steps(const train_run *run)
{
    const int workers = run->config.workers;
    bool same = true;
    for (int w = 1; w < workers; w++) {
        same &=
            dl_recorder_steps_done(&run->recorder, w) == dl_recorder_steps_done(&run->recorder, 0);
    }
    printf("steps      ");
    for (int w = 0; w < (same ? 1 : workers); w++) {
        printf(" %" PRId64, dl_recorder_steps_done(&run->recorder, w));
    }
    printf(" %s worker in %.2f s%s\n", same ? "a" : "by", run->result.seconds,
           dl_interrupt_caught() ? ", then stopped by SIGINT" : "");
}

static void print_results(const train_run *run)
{
    const dl_distribution steps = dl_recorder_step_times(&run->recorder);
    char mean[32], median[32], high[32], size[32];
    print_steps(run);
    printf("step        mean %s, median %s, p90 %s\n",
           dl_format_ns(mean, sizeof mean, dl_recorder_mean_step_ns(&run->recorder)),
           dl_format_ns(median, sizeof median, steps.p50),
           dl_format_ns(high, sizeof high, steps.p90));
    printf("throughput  %.1f samples/s\n", dl_recorder_throughput_per_s(&run->recorder));
    printf("loss        first %.4f, last %.4f\n", run->result.first_loss, run->result.last_loss);
    if (run->options->evaluate) {
        printf("accuracy    %.2f %% of the test images (%s)\n", 100 * run->accuracy,
               run->test_note);
    }
    print_staleness(run);
    struct stat file;
    if (!run->options->no_trace && stat(run->options->output, &file) == 0) {
        printf("trace       %s (%s)\n", run->options->output,
               dl_format_bytes(size, sizeof size, (double)file.st_size));
    }
}

static void free_run(train_run *run)
{
    dl_train_result_free(&run->result);
    dl_recorder_free(&run->recorder);
    dl_data_set_free(&run->data);
    free(run->data_note);
    free(run->test_note);
    free(run->slow);
}

int dl_cmd_train(int argc, char **argv)
{
    train_options options = default_options();
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
    train_run run = {.options = &options};
    if (status == DL_OK && action == DL_OPTIONS_RUN) {
        char *text = dl_options_dump(&command);
        char *command_text = dl_format("%s %s", argv[0], text);
        status = train(&run, command_text, &err);
        if (status == DL_OK) {
            print_settings(&run);
            print_results(&run);
        }
        free(command_text);
        free(text);
    }
    if (status != DL_OK) dl_error_print(&err, argv[0], stderr);
    free_run(&run);
    dl_text_list_free(&options.slow);
    dl_text_list_free(&positional);
    if (status == DL_OK && dl_interrupt_caught()) return DL_INTERRUPT_EXIT_CODE;
    return dl_status_exit_code(status);
}
