/* dlprof train: trains a model and records its workers. This file: options, checks, run, output.
 * With --schedule it replays a simulated run and writes no trace, since the replay's times say
 * nothing about those of the simulated run. */
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/alloc.h"
#include "common/cpu.h"
#include "common/options.h"
#include "common/output.h"
#include "common/units.h"
#include "kernels/train/schedule.h"
#include "kernels/train/train.h"
#include "profiler/commands.h"
#include "profiler/curve.h"
#include "profiler/interrupt.h"
#include "profiler/ranks.h"
#include "profiler/recorder.h"
#include "profiler/run/run_meta.h"
#include "profiler/workload_options.h"

/* The command line. */
typedef struct train_options {
    dl_train_config train; /* dl_train_options */
    dl_workload_options workload;
    dl_device_options device;
    dl_rank_options ranks;
    int64_t epochs;
    int inside;
    bool no_trace, evaluate;
    dl_text_list slow;
    const char *output, *csv, *evaluate_every, *curve, *schedule, *work;
} train_options;

/* Exchange in each step between the workers of a site; named as in dlsim's [sync] inside. */
enum { INSIDE_NONE, INSIDE_ALLREDUCE };
static const char *const inside_names[] = {
    [INSIDE_NONE] = "none", [INSIDE_ALLREDUCE] = "allreduce", NULL};

/* State of one run, from its data to its report. */
typedef struct train_command {
    const train_options *options;
    dl_rank_group *ranks; /* NULL: this process runs all workers */
    int rank_count;
    bool first;   /* rank 0 of a run without a schedule, which prints and evaluates */
    char *output; /* path of the trace */
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
    int curve_points;     /* number of points, with --curve */
    char *test_note;
} train_command;

/* Applies the options about accuracy. `samples` is the size of the training set; config->batch must
 * be set. DL_ERR_USAGE for --evaluate-every that is neither STEPS nor a number with "epochs", or
 * without --curve. */
static dl_status accuracy_options_apply(const train_options *options, size_t samples,
                                        dl_train_config *config, dl_error *err)
{
    if (options->evaluate_every == NULL) return DL_OK;
    char *rest = NULL;
    const double number = strtod(options->evaluate_every, &rest);
    const bool epochs = strcmp(rest, "epochs") == 0 || strcmp(rest, "epoch") == 0;
    if (rest == options->evaluate_every || (*rest != '\0' && !epochs) || !(number > 0) ||
        !isfinite(number) || (!epochs && number < 1)) {
        return dl_error_set(err, DL_ERR_USAGE,
                            "--evaluate-every %s is neither a number of steps nor of epochs, as "
                            "in 100 or 0.5epochs",
                            options->evaluate_every);
    }
    if (options->curve == NULL) {
        return dl_error_set(err, DL_ERR_USAGE, "--evaluate-every needs --curve FILE");
    }
    config->evaluate_every = epochs ? number * (double)samples / config->batch : number;
    return DL_OK;
}

/* Refuses options that the mode does not use, before any output exists: DL_ERR_USAGE. */
static dl_status check_mode_options(const train_options *options, const dl_train_config *config,
                                    dl_error *err)
{
    const dl_status status = dl_workload_usage(dl_train_check_modes(config, true, err), err);
    if (status != DL_OK) return status;
    if ((options->inside != INSIDE_NONE) != (config->sites > 0)) {
        return dl_error_set(
            err, DL_ERR_USAGE,
            config->sites > 0
                ? "--sites needs --inside allreduce: otherwise all workers average in the same way"
                : "--inside allreduce needs --sites COUNT");
    }
    if (config->threads > 1 && options->csv != NULL) {
        return dl_error_set(err, DL_ERR_USAGE,
                            "--csv writes rows for comparison with dlsim, whose workers have one "
                            "core each, not --threads %d",
                            config->threads);
    }
    if (config->mixing != dl_train_default_config().mixing && config->lag == 0) {
        return dl_error_set(err, DL_ERR_USAGE,
                            "--mixing needs --lag: an average without lag replaces parameters");
    }
    return DL_OK;
}

static dl_status check_files(const train_command *run, dl_error *err)
{
    const train_options *options = run->options;
    const dl_file_role input = {"--schedule", options->schedule};
    const bool replays = options->schedule != NULL;
    const bool reports = run->first || replays;
    const dl_file_role outputs[] = {{"--output", options->no_trace || replays ? NULL : run->output},
                                    {"--curve", reports ? options->curve : NULL},
                                    {"--csv", reports ? options->csv : NULL}};
    dl_status status = dl_outputs_check(outputs, DL_LENGTH(outputs), &input, 1, err);
    if (status == DL_OK && run->first && options->csv != NULL) {
        status = dl_measured_row_check(options->csv, err);
    }
    return status;
}

static dl_status check_run(const train_command *run, dl_error *err)
{
    const dl_train_config *config = &run->config;
    const bool replays = run->options->schedule != NULL;
    int devices = 0;
    /* A machine without a GPU is not bad usage. */
    dl_status status = config->device != NULL ? config->device->count(&devices, err) : DL_OK;
    if (status != DL_OK) return status;
    status = replays ? dl_train_check_replay(config, err) : dl_train_check(config, &run->data, err);
    status = dl_workload_usage(status, err);
    return status == DL_OK ? check_files(run, err) : status;
}

static void print_device(const dl_train_config *config)
{
    if (config->device == NULL) return;
    static const char *const math[] = {"fp32", "factors rounded to tf32",
                                       "factors rounded to fp16, loss scaled"};
    DL_AUTOFREE char *device = dl_device_text(config);
    printf("device      %s, launches by %s, copies through %s memory, %s\n", device,
           config->dispatch == DL_DISPATCH_SINGLE ? "one thread" : "a thread per worker",
           dl_host_memory_names[config->device_settings.pageable],
           math[config->device_settings.math]);
}

/* Prints the number of ranks; the printed cores and devices are those of rank 0. */
static void print_ranks(const train_command *run)
{
    dl_train_config own = run->config;
    own.workers /= run->rank_count;
    print_device(&own);
    if (run->rank_count == 1) return;
    printf("ranks       %d, with %d workers each, which exchange through %s\n", run->rank_count,
           own.workers, dl_train_is_collective(&own) ? "NCCL" : "MPI");
}

static void print_where(const dl_train_config *config)
{
    if (config->quantise != DL_QUANTISE_NONE) {
        printf(", %s sent as %s", config->sync == DL_SYNC_AVERAGE ? "changes" : "gradients",
               dl_quantise_names[config->quantise]);
        if (config->quantise == DL_QUANTISE_TOPK) printf(" of %g", config->topk_frac);
    }
    if (config->device == NULL || config->sync == DL_SYNC_NONE) return;
    DL_AUTOFREE char *where = dl_device_where_text(config);
    printf(", where = %s", where);
}

static void print_model(const train_command *run)
{
    printf("model       %s, %zu parameters (%s), %s\n", run->config.model, run->sizes.parameters,
           DL_BYTES_TEXT(run->sizes.parameter_bytes), run->config.optimizer.name);
    printf("data        %s\n", run->data_note);
}

static void print_outer(const dl_train_config *config)
{
    const dl_outer_config *outer = &config->outer;
    if (outer->kind == DL_OUTER_NONE) return;
    printf(", outer optimizer %s, rate %g, momentum %g", dl_outer_names[outer->kind], outer->rate,
           outer->momentum);
}

static void print_merges(const dl_train_config *config)
{
    const dl_merge_config *merge = &config->merge;
    printf(" every %d steps, merged %d", config->interval, merge->quorum);
    if (merge->quorum_max == 0) printf(" or more");
    if (merge->quorum_max > merge->quorum) printf(" to %d", merge->quorum_max);
    printf(" at a time");
    if (merge->grace_s > 0) {
        printf(" after %g s of %s grace", merge->grace_s, dl_merge_grace_names[merge->adaptive]);
    }
    if (config->bound >= 0) printf(", at most %lld stale", (long long)config->bound);
    print_outer(config);
}

static void print_settings(const train_command *run)
{
    const dl_train_config *config = &run->config;
    char processor[128];
    print_model(run);
    printf("workers     %d%s", config->workers, run->rank_count > 1 ? ", those of rank 0" : "");
    if (config->threads > 1) printf(" with %d threads each", config->threads);
    printf(" on %d cores of %s, waiting by %s\n", dl_train_cores(config),
           dl_cpu_name(processor, sizeof processor),
           dl_train_wait(config) == DL_WAIT_SPIN ? "spinning" : "blocking");
    print_ranks(run);
    printf("exchange    %s", dl_sync_names[config->sync]);
    if (config->sync == DL_SYNC_AVERAGE) {
        printf(" every %d steps%s%s", config->interval,
               config->interval_by_speed ? " of the fastest worker" : "",
               config->average_state ? ", optimizer state too" : "");
        if (config->sites > 0) {
            printf(" between %d sites, allreduce inside", config->sites);
        }
        if (config->fragments > 1) printf(", in %d fragments", config->fragments);
        if (config->lag > 0) {
            printf(", merged %d steps later, mixing %g", config->lag, config->mixing);
        }
        print_outer(config);
    }
    if (config->sync == DL_SYNC_ASYNC_AVERAGE) print_merges(config);
    if (config->sync == DL_SYNC_SOFTSYNC) {
        printf(" of %d gradients", config->workers / config->softsync_n);
        if (config->bound >= 0) printf(", at most %lld stale", (long long)config->bound);
    }
    if (config->staleness_rate) printf(", learning rate divided by the staleness");
    print_where(config);
    printf("\nbatch       %d (%d a worker%s)\n", config->batch, config->batch / config->workers,
           config->work.kind != DL_TRAIN_WORK_NONE ? " on average" : "");
    if (config->work.kind != DL_TRAIN_WORK_NONE) {
        printf("work        drawn by each worker in each step, %s, coefficient of variation %g\n",
               dl_train_work_names[config->work.kind], config->work.spread);
    }
}

static void print_staleness(const train_command *run)
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

static void print_uploads(const train_command *run)
{
    const dl_merge_counts *c = &run->recorder.uploads;
    if (run->config.sync != DL_SYNC_ASYNC_AVERAGE) return;
    printf("uploads     %" PRId64 ": %" PRId64 " applied", c->uploaded, c->applied);
    if (c->uploaded > 0) printf(" (%.1f %%)", 100 * (double)c->applied / (double)c->uploaded);
    printf(", %" PRId64 " too stale, %" PRId64 " superseded, %" PRId64 " unmerged; %" PRId64
           " merges",
           c->too_stale, c->superseded, c->unmerged, c->merges);
    if (run->config.merge.weight_power > 0 && c->applied > 0)
        printf(", mean weight %.3f", c->weight / (double)c->applied);
    printf("\n");
}

/* Prints the end of the line about the run's length. */
static void print_end(void)
{
    if (dl_interrupt_caught()) printf(", then stopped by %s", dl_interrupt_name());
    printf("\n");
}

/* Prints the number of steps done: one number if all workers did the same, else one per worker. */
static void print_steps(const train_command *run)
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
    printf(" %s worker in %.2f s", same ? "a" : "by", run->result.seconds);
    print_end();
}

static void print_loss(const dl_train_result *result)
{
    printf("loss        first %.4f, last ", result->first_loss);
    if (dl_train_diverged(result)) {
        printf("%s: the training diverged\n", isinf(result->last_loss) ? "inf" : "nan");
    } else {
        printf("%.4f\n", result->last_loss);
    }
}

static void print_accuracy(const train_command *run)
{
    if (run->options->evaluate) {
        printf("accuracy    %.2f %% of the test images (%s)\n", 100 * run->accuracy,
               run->test_note);
    }
    if (run->options->curve != NULL) {
        printf("curve       %s (%d point%s)\n", run->options->curve, run->curve_points,
               run->curve_points == 1 ? "" : "s");
    }
}

static void print_results(const train_command *run)
{
    const dl_distribution steps = dl_recorder_step_times(&run->recorder);
    print_steps(run);
    printf("step        mean %s, median %s, p90 %s\n",
           DL_NS_TEXT(dl_recorder_mean_step_ns(&run->recorder)), DL_NS_TEXT(steps.p50),
           DL_NS_TEXT(steps.p90));
    printf("throughput  %.1f samples/s\n", dl_recorder_throughput_per_s(&run->recorder));
    print_loss(&run->result);
    print_accuracy(run);
    print_uploads(run);
    print_staleness(run);
    struct stat file;
    if (!run->options->no_trace && stat(run->output, &file) == 0) {
        printf("trace       %s (%s)%s\n", run->output, DL_BYTES_TEXT(file.st_size),
               run->rank_count > 1 ? ", each rank its own" : "");
    }
}

static void print_run(const train_command *run)
{
    print_settings(run);
    print_results(run);
}

static void print_replay(const train_command *run)
{
    const dl_schedule *schedule = &run->schedule;
    const dl_train_result *result = &run->result;
    char processor[128];
    print_model(run);
    printf("schedule    %s: %s, %d workers, %zu gradients in %" PRId64 " updates\n", schedule->path,
           schedule->mode, schedule->workers, schedule->gradients, schedule->updates);
    if (schedule->sites > 0) {
        printf("sites       %d, whose workers average their gradients\n", schedule->sites);
    }
    printf("staleness   mean %.3f, most %" PRId64 "%s\n", schedule->staleness_mean,
           schedule->staleness_max,
           run->config.staleness_rate ? ", learning rate divided by it" : "");
    if (run->config.outer.kind != DL_OUTER_NONE) {
        printf("exchange    averages");
        print_outer(&run->config);
        printf("\n");
    }
    printf("batch       %d (%d a worker)\n", schedule->batch, schedule->batch / schedule->workers);
    printf("replayed    %" PRId64 " updates in %.2f s on %d cores of %s", result->updates,
           result->seconds, dl_train_cores(&run->config), dl_cpu_name(processor, sizeof processor));
    print_end();
    printf("simulated   %.3f s for all of them\n", schedule->events[schedule->count - 1].time_s);
    print_loss(result);
    print_accuracy(run);
}

static const dl_option train_table[] = {
    DL_OPTION_ROW_NUMBER(INT, "epochs", 0, train_options, epochs, 0, 1 << 20, "COUNT",
                         "Number of passes over the data (default: --steps is used).",
                         .group = "Workers and steps"),
    DL_OPTION_ROW_LIST("slow", 0, train_options, slow, "WORKER:FACTOR",
                       "Multiply a worker's compute time by a factor."),
    DL_OPTION_ROW_TEXT("work", 0, train_options, work, "KIND:SPREAD",
                       "Draw the number of samples of each worker's step, batch / workers on "
                       "average, as for sentences of different lengths: uniform, two-point or "
                       "lognormal, with this coefficient of variation (default: constant)."),
    DL_OPTION_ROW_CHOICE("inside", 0, train_options, inside, inside_names, "MODE",
                         "Exchange within a site, for average: allreduce averages gradients in "
                         "each step, so that only sites average parameters.",
                         .group = "Exchange"),
    DL_OPTION_ROW_FLAG("evaluate", 'e', train_options, evaluate,
                       "Print the accuracy on the test images.", .group = "Accuracy"),
    DL_OPTION_ROW_TEXT("curve", 0, train_options, curve, "FILE",
                       "CSV file of the accuracy on the test images at the end, and during the "
                       "run with --evaluate-every."),
    DL_OPTION_ROW_TEXT("evaluate-every", 0, train_options, evaluate_every, "STEPS",
                       "Number of steps between two points of the curve, or of epochs, as in "
                       "0.5epochs; with --schedule, a step is one gradient per worker."),
    DL_OPTION_ROW_TEXT("schedule", 0, train_options, schedule, "FILE",
                       "Replay the order of updates in a file of dlsim --schedule, which also "
                       "sets workers, batch and mode."),
    DL_OPTION_ROW_TEXT("output", 'o', train_options, output, "FILE",
                       "Trace to write; each rank writes its own, as in run.rank0.dlt.",
                       .group = "Output"),
    DL_OPTION_ROW_FLAG("no-trace", 0, train_options, no_trace,
                       "Write no trace, and time only whole steps."),
    DL_OPTION_ROW_TEXT("csv", 0, train_options, csv, "FILE",
                       "CSV file to which a row of results is appended, for dlsim --measured."),
};

/* Layout of the option table: the options of training, the command's own, then those of each
 * topic. */
enum {
    OWN_OPTION_COUNT = DL_LENGTH(train_table),
    WORKLOAD_OPTIONS = DL_TRAIN_OPTION_COUNT + OWN_OPTION_COUNT,
    DEVICE_OPTIONS = WORKLOAD_OPTIONS + DL_WORKLOAD_OPTION_COUNT,
    RANK_OPTIONS = DEVICE_OPTIONS + DL_DEVICE_OPTION_COUNT,
    OPTION_COUNT = RANK_OPTIONS + DL_RANK_OPTION_COUNT
};

/* Applies the options that do not depend on the training set, and opens the set. */
static dl_status configure_run(train_command *run, dl_error *err)
{
    const train_options *options = run->options;
    dl_train_config *config = &run->config;
    *config = options->train;
    dl_workload_options_apply(&options->workload, config);
    dl_ranks_apply(run->ranks, config);
    dl_status status = dl_slow_list_parse(&options->slow, config->workers, &run->slow, err);
    if (status == DL_OK && options->work != NULL) {
        status = dl_work_parse(options->work, &config->work, err);
    }
    if (status == DL_OK) status = dl_device_options_apply(&options->device, config, err);
    if (status != DL_OK) return status;
    config->slow = run->slow;
    const dl_data_source source = dl_workload_options_data(&options->workload);
    status = dl_data_source_open(&source, &run->data, &run->data_note, err);
    if (status == DL_OK) status = dl_ranks_check_data(run->ranks, &run->data, err);
    if (status == DL_OK) {
        status = accuracy_options_apply(options, run->data.count, config, err);
    }
    if (status != DL_OK || options->epochs == 0) return status;
    config->steps = options->epochs * (int64_t)run->data.count / config->batch;
    if (config->interval_by_speed) config->steps -= config->steps % config->interval;
    if (config->steps > 0) return DL_OK;
    return dl_error_set(err, DL_ERR_RANGE,
                        "a step of batch %d, or an interval of steps, is larger than %" PRId64
                        " epochs of %zu samples",
                        config->batch, options->epochs, run->data.count);
}

/* Opens the test set, if an option needs it; evaluate_run uses it after the run. */
static dl_status open_test_set(train_command *run, dl_error *err)
{
    if (!run->options->evaluate && run->options->curve == NULL) return DL_OK;
    dl_data_source source = dl_workload_options_data(&run->options->workload);
    /* The test images of the set used for training, whatever --data is. */
    source.choice = dl_data_choice_of(run->data.name);
    source.test_set = true;
    return dl_data_source_open(&source, &run->test, &run->test_note, err);
}

static dl_status evaluate_run(train_command *run, dl_error *err)
{
    const train_options *options = run->options;
    const char *curve = options->curve;
    const dl_schedule *schedule = options->schedule != NULL ? &run->schedule : NULL;
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

/* Leaves the group of ranks, after waiting for the other ranks a last time. After a failure,
 * free_run leaves the group instead and reports the failure to the other ranks. */
static void leave_ranks(train_command *run)
{
    if (run->ranks != NULL) run->ranks->leave(run->ranks, NULL);
    run->ranks = NULL;
    run->config.ranks = NULL;
}

/* Checks the settings that all ranks share, so that all ranks refuse them, then joins the ranks. */
static dl_status join_ranks(train_command *run, const char *command_text, dl_error *err)
{
    const train_options *options = run->options;
    run->config = options->train;
    dl_workload_options_apply(&options->workload, &run->config);
    dl_status status = check_mode_options(options, &run->config, err);
    if (status == DL_OK) {
        status = dl_workload_usage(dl_ranks_check(&options->ranks, &run->config, err), err);
    }
    if (status == DL_OK) status = dl_ranks_join(&options->ranks, command_text, &run->ranks, err);
    if (status != DL_OK) return status;
    run->rank_count = run->ranks != NULL ? run->ranks->size : 1;
    run->first = run->ranks == NULL || run->ranks->rank == 0;
    run->output = dl_ranks_path(run->ranks, options->output);
    return DL_OK;
}

static dl_status train_run(train_command *run, const char *command_text, dl_error *err)
{
    const train_options *options = run->options;
    dl_status status = join_ranks(run, command_text, err);
    if (status == DL_OK) status = configure_run(run, err);
    if (status == DL_OK) status = check_run(run, err);
    if (status == DL_OK) status = dl_run_sizes_find(&run->config, &run->sizes, err);
    if (status == DL_OK && run->first) status = open_test_set(run, err);
    if (status != DL_OK) return status;
    /* Before the trace is opened, so that a signal cannot leave it without its end. */
    run->config.stop = dl_interrupt_catch(DL_INTERRUPT_LIMIT_S);
    status =
        dl_recorder_open(&run->recorder, &run->config, options->no_trace ? NULL : run->output, err);
    if (status != DL_OK) return status;
    if (run->recorder.writer != NULL) {
        dl_run_meta_common(run->recorder.writer, "train", command_text, run->data.name,
                           &run->config, &run->sizes);
        dl_run_meta_training(run->recorder.writer, &run->config);
        dl_ranks_meta(run->ranks, &run->config, run->recorder.writer);
    }
    dl_train_observer observer = dl_recorder_observer(&run->recorder);
    observer.steps_only = options->no_trace;
    dl_run_progress progress;
    if (run->first) dl_run_progress_start(&progress, &run->recorder);
    const dl_cpu_usage before = dl_cpu_usage_now();
    status = dl_train_run(&run->config, &run->data, &observer, &run->result, err);
    const dl_cpu_usage after = dl_cpu_usage_now();
    dl_interrupt_met();
    const dl_cpu_disturbance disturbed = dl_cpu_disturbed(&before, &after);
    if (run->recorder.writer != NULL) dl_run_meta_disturbed(run->recorder.writer, &disturbed);
    if (status == DL_OK && run->config.sync == DL_SYNC_ASYNC_AVERAGE) {
        dl_recorder_take_uploads(&run->recorder, &run->config, &run->result);
        if (run->recorder.writer != NULL)
            dl_run_meta_uploads(run->recorder.writer, &run->recorder.uploads);
    }
    if (run->first) dl_run_progress_stop(&progress);
    if (dl_interrupt_caught() && run->recorder.writer != NULL) {
        dl_trace_writer_meta(run->recorder.writer, "stopped", dl_interrupt_name());
    }
    if (status != DL_OK && run->recorder.writer != NULL) {
        dl_trace_writer_meta(run->recorder.writer, "failed", err->text);
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
    if (status == DL_OK) status = evaluate_run(run, err);
    if (status == DL_OK && options->csv != NULL) {
        status =
            dl_measured_row_append(options->csv, &run->config, &run->recorder, &disturbed, err);
    }
    return status;
}

/* `failure`: reason of a failure while the ranks were still joined. */
static void free_run(train_command *run, const dl_error *failure)
{
    dl_train_result_free(&run->result);
    dl_recorder_free(&run->recorder);
    if (run->ranks != NULL) run->ranks->leave(run->ranks, failure);
    free(run->output);
    dl_data_set_free(&run->data);
    free(run->data_note);
    dl_data_set_free(&run->test);
    dl_schedule_free(&run->schedule);
    free(run->test_note);
    free(run->slow);
}

static void print_error(const train_command *run, const dl_error *err, const char *program)
{
    DL_AUTOFREE char *name = run->ranks == NULL
                                 ? dl_strdup(program)
                                 : dl_format("%s: rank %d", program, run->ranks->rank);
    dl_error_print(err, name, stderr);
}

/* Refuses options that the schedule determines, which would otherwise be ignored. */
static dl_status check_schedule_options(const train_options *options, dl_error *err)
{
    const char *setting = dl_train_scheduled_option(&options->train);
    const struct {
        const char *name;
        bool given;
    } decided[] = {{setting, setting != NULL},       {"inside", options->inside != INSIDE_NONE},
                   {"epochs", options->epochs != 0}, {"slow", options->slow.count > 0},
                   {"work", options->work != NULL},  {"csv", options->csv != NULL}};
    for (size_t i = 0; i < DL_LENGTH(decided); i++) {
        if (!decided[i].given) continue;
        return dl_error_set(err, DL_ERR_USAGE,
                            "--%s and --schedule: a schedule is replayed unchanged, without a "
                            "row of results or other settings",
                            decided[i].name);
    }
    const dl_launcher launcher = dl_ranks_launcher(&options->ranks);
    if (launcher.name == NULL) return DL_OK;
    return dl_error_set(err, DL_ERR_USAGE,
                        "--schedule is for one process, but %s has started %d; with --ranks off, "
                        "each replays it separately",
                        launcher.name, launcher.size);
}

/* Runs `dlprof train --schedule`. DL_ERR_USAGE for options whose values the schedule determines,
 * for --csv, and under a launcher. */
static dl_status replay_run(train_command *run, dl_error *err)
{
    train_options set = *run->options;
    dl_status status = check_schedule_options(&set, err);
    if (status == DL_OK) status = dl_schedule_read(&run->schedule, set.schedule, err);
    if (status != DL_OK) return status;
    /* configure_run needs the batch to convert --evaluate-every from epochs to steps. */
    set.train.batch = run->schedule.batch;
    const train_options *options = run->options;
    run->options = &set;
    status = configure_run(run, err);
    run->options = options;
    if (status == DL_OK) status = check_run(run, err);
    if (status == DL_OK) status = dl_run_sizes_find(&run->config, &run->sizes, err);
    if (status == DL_OK) status = open_test_set(run, err);
    if (status != DL_OK) return status;
    run->config.stop = dl_interrupt_catch(DL_INTERRUPT_LIMIT_S);
    status = dl_train_replay(&run->config, &run->schedule, &run->data, &run->result, err);
    dl_interrupt_met();
    return status == DL_OK ? evaluate_run(run, err) : status;
}

int dl_cmd_train(int argc, char **argv)
{
    train_options options = {.train = dl_train_default_config(),
                             .workload = dl_workload_options_default(),
                             .device = dl_device_options_default(),
                             .ranks = dl_rank_options_default(),
                             .output = "run.dlt"};
    dl_option table[OPTION_COUNT];
    dl_train_options(&options.train, table);
    dl_options_bind(&table[DL_TRAIN_OPTION_COUNT], train_table, OWN_OPTION_COUNT, &options);
    dl_workload_options_table(&options.workload, &table[WORKLOAD_OPTIONS]);
    dl_device_options_table(&options.device, &table[DEVICE_OPTIONS]);
    dl_rank_options_table(&options.ranks, &table[RANK_OPTIONS]);
    const dl_command command = {
        .program = argv[0],
        .positional = "",
        .summary = "Train a model for real, on threads pinned to cores, and record every "
                   "operation.",
        .options = table,
        .option_count = OPTION_COUNT,
    };
    DL_SCOPED(dl_text_list) positional = {0};
    dl_options_action action = DL_OPTIONS_RUN;
    dl_error err = {0};
    dl_status status = dl_options_parse(&command, argc, argv, &positional, &action, &err);
    train_command run = {.options = &options};
    if (status == DL_OK && action == DL_OPTIONS_RUN) {
        DL_AUTOFREE char *text = dl_options_dump(&command);
        DL_AUTOFREE char *command_text = dl_format("%s %s", argv[0], text);
        const bool replays = options.schedule != NULL;
        status = dl_workload_options_check(&options.workload, &err);
        if (status == DL_OK)
            status = replays ? replay_run(&run, &err) : train_run(&run, command_text, &err);
        if (status == DL_OK && replays) print_replay(&run);
        if (status == DL_OK && run.first) print_run(&run);
    }
    if (status != DL_OK) print_error(&run, &err, argv[0]);
    free_run(&run, &err);
    dl_text_list_free(&options.slow);
    if (status == DL_OK && dl_interrupt_caught()) return dl_interrupt_exit_code();
    return dl_status_exit_code(status);
}
