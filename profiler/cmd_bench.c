/* dlprof bench: what exchange and sharing cost on this machine. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/names.h"
#include "common/units.h"
#include "profiler/bench/bench.h"
#include "profiler/bench/bench_gpu.h"
#include "profiler/bench/bench_gpu_memory.h"
#include "profiler/bench/bench_memory.h"
#include "profiler/cmd_bench_run.h"
#include "profiler/commands.h"
#include "profiler/interrupt.h"
#include "profiler/run/run_meta.h"
#include "profiler/run/run_setup.h"
#include "profiler/workload_options.h"
#include "trace/training/summary.h"

#define QUICK_SECONDS 1.0
#define SNAPSHOT_SECONDS 0.7

/* Part of a GPUs' bench for averages and messages, half of it on the GPUs, half on the host. */
#define GPU_HOST_SHARE 0.4

static const dl_option own_options[] = {
    {.name = "batch",
     .letter = 'b',
     .type = DL_OPTION_TEXT,
     .target = DL_OPTION_FIELD(dl_bench_options, batch),
     .argument = "SAMPLES,...",
     .help = "samples of one copy's step, several sizes; overhead takes the first"},
    {.name = "workers-max",
     .letter = 'w',
     .type = DL_OPTION_INT,
     .target = DL_OPTION_FIELD(dl_bench_options, workers_max),
     .low = 0,
     .high = DL_TRAIN_WORKERS_MAX,
     .argument = "COUNT",
     .help = "most copies of the step side by side; 0 means twice the cores"},
    {.name = "seconds",
     .type = DL_OPTION_DOUBLE,
     .target = DL_OPTION_FIELD(dl_bench_options, seconds),
     .low = 0.1,
     .high = 86400,
     .argument = "SECONDS",
     .help = "time for all measurements; less means fewer repetitions, but each case is measured "
             "at least once, which for large models and on busy cores takes longer"},
    {.name = "quick",
     .type = DL_OPTION_FLAG,
     .target = DL_OPTION_FIELD(dl_bench_options, quick),
     .help = "few repetitions of fewer cases, in a second or as long as they take, to see that all "
             "works"},
    {.name = "snapshot",
     .type = DL_OPTION_FLAG,
     .target = DL_OPTION_FIELD(dl_bench_options, snapshot),
     .help = "only what differs from minute to minute: steps side by side and exchange of the "
             "model's size, once, in about a second; take many of them between runs, and at "
             "least one whole bench beside them"},
    {.name = "device",
     .letter = 'd',
     .type = DL_OPTION_TEXT,
     .target = DL_OPTION_FIELD(dl_bench_options, device),
     .argument = "DEVICE",
     .help = "cpu; or cuda or cuda:NUMBER, for copies, reductions and launches of the GPUs from "
             "NUMBER on instead"},
    {.name = "cupti",
     .type = DL_OPTION_TEXT,
     .target = DL_OPTION_FIELD(dl_bench_options, cupti),
     .argument = "FILE",
     .help = "libcupti for overhead to use; searched for if not given"},
    {.name = "output",
     .letter = 'o',
     .type = DL_OPTION_TEXT,
     .target = DL_OPTION_FIELD(dl_bench_options, output),
     .argument = "FILE",
     .help = "the trace to write, bench.dlt if not given; of overhead a file with its figures "
             "alone, for dlcal and dlprof run, none if not given"},
};

enum {
    OWN_OPTION_COUNT = sizeof own_options / sizeof *own_options,
    OPTION_COUNT = OWN_OPTION_COUNT + DL_WORKLOAD_OPTION_COUNT
};

static void fill_table(dl_bench_options *options, dl_option table[OPTION_COUNT])
{
    dl_options_bind(table, own_options, OWN_OPTION_COUNT, options);
    dl_workload_options_table(&options->workload, table + OWN_OPTION_COUNT);
}

/* All that can be known before anything is made. */
static dl_status set_up(const dl_bench_options *options, bool gpus, dl_bench_setup *setup,
                        dl_error *err)
{
    setup->train = dl_train_default_config();
    dl_workload_options_apply(&options->workload, &setup->train);
    setup->seconds = options->snapshot ? SNAPSHOT_SECONDS
                     : options->quick  ? QUICK_SECONDS
                                       : options->seconds;
    dl_status status =
        dl_batch_list_parse(options->batch, setup->batches, &setup->batch_count, err);
    if (status == DL_OK) status = dl_run_sizes_find(&setup->train, &setup->sizes, err);
    if (status != DL_OK) return status;
    const dl_data_source source = dl_workload_options_data(&options->workload);
    status = dl_data_source_open(&source, &setup->data, &setup->data_note, err);
    if (status != DL_OK) return status;
    dl_train_config checked = setup->train;
    if (gpus) checked.device_settings.math = DL_DEVICE_MATH_FP32; /* whose steps are not run */
    return dl_workload_usage(dl_train_check(&checked, &setup->data, err), err);
}

/* The trace that was written is read back for the table: what is printed is what is in the file. */
static dl_status print_bench(const char *path, const dl_bench_setup *setup, dl_error *err)
{
    dl_trace trace = {0};
    const dl_status status = dl_trace_read(&trace, path, err);
    if (status != DL_OK) return status;
    dl_summary summary = {0};
    dl_summary_init(&summary, &trace);
    printf("data: %s\n", setup->data_note);
    dl_summary_print(&summary, stdout);
    dl_bench_memory_print(&summary, stdout);
    if (dl_interrupt_caught()) {
        printf("stopped by %s: not everything was measured\n", dl_interrupt_name());
    }
    dl_summary_free(&summary);
    dl_trace_free(&trace);
    return DL_OK;
}

/* A bench that took so many times as long as asked says so. */
#define LONGER_THAN_ASKED 1.5

/* What went otherwise than asked. */
static void print_course(const dl_bench *bench, const dl_bench_setup *setup, int64_t start_ns)
{
    const double took_s = dl_ns_to_s((double)(dl_clock_ns() - start_ns));
    dl_bench_print_gaps(bench, stdout);
    if (took_s <= LONGER_THAN_ASKED * setup->seconds || dl_interrupt_caught()) return;
    printf("took %.1f s, not %g s: each case is measured at least once\n", took_s, setup->seconds);
}

static dl_status run_bench(const dl_bench_options *options, const dl_bench_setup *setup,
                           const char *command_text, dl_error *err)
{
    const char *path = options->output != NULL ? options->output : "bench.dlt";
    dl_trace_writer *writer = NULL;
    dl_status status = dl_trace_writer_open(&writer, path, err);
    if (status != DL_OK) return status;
    dl_run_meta_common(writer, "bench", command_text, setup->data.name, &setup->train,
                       &setup->sizes);
    const dl_bench_config config = {.train = setup->train,
                                    .parameter_bytes = setup->sizes.parameter_bytes,
                                    .data = &setup->data,
                                    .batches = setup->batches,
                                    .batch_count = setup->batch_count,
                                    .workers_max = options->workers_max > 0
                                                       ? (int)options->workers_max
                                                       : 2 * dl_run_cores(&setup->train),
                                    .seconds = setup->seconds,
                                    .quick = options->quick};
    dl_bench bench;
    dl_bench_init(&bench, writer);
    const int64_t start_ns = dl_clock_ns();
    const dl_cpu_usage before = dl_cpu_usage_now();
    if (options->snapshot) dl_trace_writer_meta(writer, "snapshot", "1");
    status = options->snapshot ? dl_bench_run_snapshot(&bench, &config, err)
                               : dl_bench_run(&bench, &config, err);
    const dl_cpu_usage after = dl_cpu_usage_now();
    const dl_cpu_disturbance disturbed = dl_cpu_disturbed(&before, &after);
    dl_run_meta_disturbed(writer, &disturbed);
    print_course(&bench, setup, start_ns);
    dl_interrupt_met();
    if (dl_interrupt_caught()) dl_trace_writer_meta(writer, "stopped", dl_interrupt_name());
    const dl_status closed = dl_trace_writer_close(&writer, status == DL_OK ? err : NULL);
    if (status == DL_OK) status = closed;
    return status == DL_OK ? print_bench(path, setup, err) : status;
}

/* What the host of GPUs averages and waits with, where vectors meet in its memory. */
static dl_status run_host(const dl_bench_options *options, const dl_bench_setup *setup,
                          dl_trace_writer *writer, dl_error *err)
{
    const dl_bench_config config = {.train = setup->train,
                                    .parameter_bytes = setup->sizes.parameter_bytes,
                                    .data = &setup->data,
                                    .batches = setup->batches,
                                    .batch_count = setup->batch_count,
                                    .workers_max = 1,
                                    .seconds = setup->seconds * GPU_HOST_SHARE / 2,
                                    .quick = options->quick};
    dl_bench bench;
    dl_bench_init(&bench, writer);
    const dl_status status = dl_bench_run_host(&bench, &config, err);
    dl_bench_print_gaps(&bench, stdout);
    return status;
}

/* Of all GPUs from the chosen one on. Nothing is trained. */
static dl_status run_gpus(const dl_bench_options *options, const dl_bench_setup *setup,
                          const dl_device_choice *choice, const char *command_text, dl_error *err)
{
    const char *path = options->output != NULL ? options->output : "bench.dlt";
    dl_train_config train = setup->train;
    dl_trace_writer *writer = NULL;
    dl_status status = dl_device_load_cuda(&train.device, err);
    if (status != DL_OK) return status;
    train.first_device = choice->first;
    train.workers = DL_TRAIN_WORKERS_MAX; /* no fewer than there are GPUs */
    int count = 0;
    status = dl_train_device_count(&train, &count, err);
    train.workers = count;
    if (status == DL_OK) status = dl_trace_writer_open(&writer, path, err);
    if (status != DL_OK) return status;
    dl_run_meta_common(writer, "bench", command_text, setup->data.name, &train, &setup->sizes);
    const dl_bench_gpu_config config = {.type = train.device,
                                        .first = choice->first,
                                        .count = count,
                                        .seconds = setup->seconds * (1 - GPU_HOST_SHARE),
                                        .quick = options->quick,
                                        .stop = setup->train.stop};
    status = dl_bench_gpu(writer, &config, err);
    if (status == DL_OK) {
        dl_bench_gpu_config memory = config;
        memory.seconds = setup->seconds * GPU_HOST_SHARE / 2;
        status = dl_bench_gpu_memory(writer, &memory, err);
    }
    if (status == DL_OK) status = run_host(options, setup, writer, err);
    dl_interrupt_met();
    if (dl_interrupt_caught()) dl_trace_writer_meta(writer, "stopped", dl_interrupt_name());
    const dl_status closed = dl_trace_writer_close(&writer, status == DL_OK ? err : NULL);
    if (status == DL_OK) status = closed;
    return status == DL_OK ? print_bench(path, setup, err) : status;
}

/* The command's only argument is the name of the other form. */
static dl_status check_form(const dl_text_list *positional, bool *overhead, dl_error *err)
{
    static const char *const forms[] = {"overhead"};
    *overhead = positional->count == 1;
    if (positional->count == 0 || strcmp(positional->items[0], forms[0]) == 0) return DL_OK;
    char hint[128];
    dl_names_hint(hint, sizeof hint, positional->items[0], forms, 1);
    return dl_error_set(err, DL_ERR_USAGE, "unknown benchmark '%s'%s", positional->items[0], hint);
}

int dl_cmd_bench(int argc, char **argv)
{
    dl_bench_options options = {.workload = dl_workload_options_default(),
                                .batch = "32,64,128",
                                .device = "cpu",
                                .seconds = 40};
    dl_option table[OPTION_COUNT];
    fill_table(&options, table);
    const dl_command command = {
        .program = argv[0],
        .positional = "[overhead]",
        .summary =
            "Measure on this machine what copies, averages, updates, waiting, and copies of a "
            "step side by side cost. With 'overhead': what recording a run costs.",
        .options = table,
        .option_count = OPTION_COUNT,
        .positional_max = 1,
    };
    dl_text_list positional = {0};
    dl_options_action action = DL_OPTIONS_RUN;
    dl_error err = {0};
    bool overhead = false;
    dl_device_choice choice = {0};
    dl_bench_setup setup = {0};
    dl_status status = dl_options_parse(&command, argc, argv, &positional, &action, &err);
    if (status == DL_OK && action == DL_OPTIONS_RUN) {
        status = check_form(&positional, &overhead, &err);
        if (status == DL_OK) status = dl_device_parse(options.device, &choice, &err);
        if (status == DL_OK && choice.cuda && overhead) {
            status = dl_error_set(&err, DL_ERR_USAGE,
                                  "what recording costs is measured on the processor");
        }
        if (status == DL_OK) status = set_up(&options, choice.cuda, &setup, &err);
        setup.train.stop = dl_interrupt_catch(DL_INTERRUPT_BENCH_LIMIT_S);
        char *text = dl_options_dump(&command);
        char *command_text = dl_format("%s %s", argv[0], text);
        if (status == DL_OK && overhead) {
            status = dl_bench_command_overhead(&options, &setup, command_text, &err);
        } else if (status == DL_OK && choice.cuda) {
            status = run_gpus(&options, &setup, &choice, command_text, &err);
        } else if (status == DL_OK) {
            status = run_bench(&options, &setup, command_text, &err);
        }
        free(command_text);
        free(text);
    }
    if (status != DL_OK) dl_error_print(&err, argv[0], stderr);
    dl_data_set_free(&setup.data);
    free(setup.data_note);
    dl_text_list_free(&positional);
    if (dl_interrupt_caught()) return dl_interrupt_exit_code();
    return dl_status_exit_code(status);
}
