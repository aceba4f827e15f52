/* dlprof bench: costs of exchange and sharing on this machine, and of recording. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/cpu.h"
#include "common/install.h"
#include "common/names.h"
#include "common/output.h"
#include "common/units.h"
#include "profiler/bench/bench.h"
#include "profiler/bench/bench_gpu.h"
#include "profiler/bench/bench_program.h"
#include "profiler/bench/overhead.h"
#include "profiler/commands.h"
#include "profiler/interrupt.h"
#include "profiler/run/run_meta.h"
#include "profiler/run/target.h"
#include "profiler/workload_options.h"
#include "trace/training/summary.h"

/* The command line. */
typedef struct bench_options {
    dl_workload_options workload;
    const char *batch, *output, *device, *cupti;
    int64_t workers_max;
    double seconds;
    bool quick, snapshot;
} bench_options;

/* Set-up shared by dlprof bench and dlprof bench overhead. */
typedef struct bench_setup {
    dl_train_config train;
    int batches[DL_BATCH_LIST_MAX];
    int batch_count;
    double seconds;
    dl_run_sizes sizes;
    dl_data_set data;
    char *data_note;
} bench_setup;

/* Measures the cost of recording CUDA, if this build can; else *reason says why it is unknown. */
static dl_status measure_cuda(const bench_options *options, const bench_setup *setup,
                              const char *library, const char *folder, dl_launch_cost *cost,
                              const char **reason, dl_error *why, dl_error *err)
{
    *reason = "this build has no " DL_INJECTED_LIBRARY " with a CUPTI part";
    if (library == NULL || !dl_run_library_exports(library, DL_CUDA_ENTRY)) return DL_OK;
    char *device_library = NULL;
    *reason = "this build has no " DL_DEVICE_CUDA_LIBRARY;
    if (dl_library_path(DL_DEVICE_CUDA_LIBRARY, &device_library, why) != DL_OK) return DL_OK;
    dl_progress progress;
    dl_progress_init(&progress, "launches");
    const dl_launch_config config = {.device_library = device_library,
                                     .library = library,
                                     .cupti = options->cupti != NULL ? options->cupti : "",
                                     .folder = folder,
                                     .seconds = setup->seconds / 2,
                                     .stop = setup->train.stop,
                                     .progress = &progress};
    const dl_status status = dl_launch_cost_measure(&config, cost, why);
    dl_progress_end(&progress);
    free(device_library);
    *reason = status == DL_OK ? NULL : why->text;
    if (status == DL_OK || status == DL_ERR_UNSUPPORTED) return DL_OK;
    *err = *why;
    return status;
}

/* Measures the cost of recording training, within `seconds` for all runs. The traces go to a
 * temporary file in `folder`. */
static dl_status measure_training(bench_setup *setup, const char *folder, double seconds,
                                  dl_overhead *overhead, dl_error *err)
{
    DL_AUTOFREE char *temporary = dl_format("%s/dlprof-XXXXXX", folder);
    const int file = mkstemp(temporary);
    if (file < 0) {
        return dl_error_set_at(err, DL_ERR_IO, temporary, 0, "cannot make a temporary file");
    }
    dl_progress progress;
    dl_progress_init(&progress, "overhead");
    const dl_overhead_config config = {.train = &setup->train,
                                       .data = &setup->data,
                                       .path = temporary,
                                       .seconds = seconds,
                                       .progress = &progress};
    const dl_status status = dl_overhead_measure(&config, overhead, err);
    dl_progress_end(&progress);
    close(file);
    unlink(temporary);
    return status;
}

/* Writes the figures as a trace without records, whose meta keys dlcal and dlprof run read. */
static dl_status write_overhead(const char *path, const bench_setup *setup,
                                const char *command_text, const dl_overhead_report *report,
                                dl_error *err)
{
    dl_trace_writer *writer = NULL;
    const dl_status status = dl_trace_writer_open(&writer, path, err);
    if (status != DL_OK) return status;
    dl_run_meta_common(writer, "overhead", command_text, setup->data.name, &setup->train,
                       &setup->sizes);
    dl_overhead_report_write(report, writer);
    return dl_trace_writer_close(&writer, err);
}

static dl_status take_gpu(bench_setup *setup, dl_error *err)
{
    const dl_status status = dl_device_load_cuda(&setup->train.device, err);
    if (status != DL_OK) return status;
    return dl_workload_usage(dl_train_check(&setup->train, &setup->data, err), err);
}

/* Measures the cost of recording, prints it, and writes it to --output. Uses the first batch size.
 * The cost of recording CUDA comes first, in child processes, which cannot use a GPU once this
 * process has started a thread or used one; it gets half the time if there is a GPU. */
static dl_status run_overhead(const bench_options *options, const dl_device_choice *choice,
                              bench_setup *setup, const char *command_text, dl_error *err)
{
    const char *wanted = getenv("TMPDIR");
    const char *folder = wanted != NULL ? wanted : "/tmp";
    DL_AUTOFREE char *library = NULL;
    dl_error no_library = {0};
    if (dl_library_path(DL_INJECTED_LIBRARY, &library, &no_library) != DL_OK) library = NULL;
    dl_overhead training;
    dl_launch_cost cuda;
    dl_error no_cuda = {0};
    setup->train.batch = setup->batches[0];
    dl_overhead_report report = {
        .model = setup->train.model, .batch = setup->train.batch, .training = &training};
    dl_status status =
        measure_cuda(options, setup, library, folder, &cuda, &report.cuda_reason, &no_cuda, err);
    if (status == DL_OK && choice->cuda) status = take_gpu(setup, err);
    report.cuda = report.cuda_reason == NULL ? &cuda : NULL;
    if (status == DL_OK) {
        const double seconds = report.cuda != NULL ? setup->seconds / 2 : setup->seconds;
        status = measure_training(setup, folder, seconds, &training, err);
    }
    if (status == DL_OK) dl_overhead_report_print(&report, stdout);
    if (status == DL_OK && options->output != NULL) {
        status = write_overhead(options->output, setup, command_text, &report, err);
    }
    return status;
}

#define QUICK_SECONDS 1.0
#define SNAPSHOT_SECONDS 0.7

/* Shares of a GPU benchmark's time. GPU_HOST_SHARE: averages, messages and waits; half of it for
 * dl_bench_gpu_memory on the GPUs, half for run_host on their host. GPU_STEP_SHARE: steps of up to
 * GPU_COPIES_MAX copies of the model that share one GPU. The rest is for dl_bench_gpu. */
#define GPU_HOST_SHARE 0.3
#define GPU_STEP_SHARE 0.3
#define GPU_COPIES_MAX 8

static const dl_option bench_table[] = {
    DL_OPTION_ROW_TEXT("batch", 'b', bench_options, batch, "SAMPLES,...",
                       "Number of samples per step of one copy, several sizes; overhead uses the "
                       "first.",
                       .group = "Measurements"),
    DL_OPTION_ROW_NUMBER(
        INT, "workers-max", 'w', bench_options, workers_max, 0, DL_TRAIN_WORKERS_MAX, "COUNT",
        "Largest number of concurrent copies of the step (default: twice the cores, or 8 of one "
        "GPU)."),
    DL_OPTION_ROW_NUMBER(
        DOUBLE, "seconds", 0, bench_options, seconds, 0.1, 86400, "SECONDS",
        "Time for all measurements; each one is made at least once, which may take longer."),
    DL_OPTION_ROW_FLAG(
        "quick", 0, bench_options, quick,
        "Few repetitions of fewer cases, in about a second, to check that everything works."),
    DL_OPTION_ROW_FLAG("snapshot", 0, bench_options, snapshot,
                       "Measure only the costs that vary within minutes, in about a second; take "
                       "many snapshots between runs, in addition to at least one full bench."),
    DL_OPTION_ROW_TEXT(
        "device", 'd', bench_options, device, "DEVICE",
        "Device to measure: cpu, or the GPUs from cuda:NUMBER on; also the device on which "
        "overhead trains."),
    DL_OPTION_ROW_TEXT("cupti", 0, bench_options, cupti, "FILE",
                       "Path of the libcupti that overhead uses (default: searched for)."),
    DL_OPTION_ROW_TEXT("output", 'o', bench_options, output, "FILE",
                       "Trace to write (default: bench.dlt; with overhead: none)."),
};

enum {
    OWN_OPTION_COUNT = DL_LENGTH(bench_table),
    OPTION_COUNT = OWN_OPTION_COUNT + DL_WORKLOAD_OPTION_COUNT
};

/* Checks the options and the GPU before any file is made. */
static dl_status set_up(const bench_options *options, const dl_device_choice *choice, bool overhead,
                        bench_setup *setup, dl_error *err)
{
    if (dl_workload_options_check(&options->workload, err) != DL_OK) return err->code;
    setup->train = dl_train_default_config();
    dl_workload_options_apply(&options->workload, &setup->train);
    setup->train.first_device = choice->first;
    if (choice->cuda && !overhead) {
        const dl_status loaded = dl_device_load_cuda(&setup->train.device, err);
        if (loaded != DL_OK) return loaded;
    }
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
    if (choice->cuda && overhead) /* the GPU is opened later, with the chosen arithmetic */
        checked.device_settings.math = DL_DEVICE_MATH_FP32;
    return dl_workload_usage(dl_train_check(&checked, &setup->data, err), err);
}

/* Prints the table from the written trace, so that it shows the content of the file. */
static dl_status print_bench(const char *path, const bench_setup *setup, dl_error *err)
{
    DL_SCOPED(dl_trace) trace = {0};
    const dl_status status = dl_trace_read(&trace, path, err);
    if (status != DL_OK) return status;
    DL_SCOPED(dl_summary) summary = {0};
    dl_summary_init(&summary, &trace);
    printf("data: %s\n", setup->data_note);
    dl_summary_print(&summary, stdout);
    if (dl_interrupt_caught()) {
        printf("stopped by %s: not everything was measured\n", dl_interrupt_name());
    }
    return DL_OK;
}

/* Closes the trace and prints its content if the bench succeeded. */
static dl_status end_bench(dl_trace_writer *writer, const char *path, const bench_setup *setup,
                           dl_status status, dl_error *err)
{
    dl_interrupt_met();
    if (dl_interrupt_caught()) dl_trace_writer_meta(writer, "stopped", dl_interrupt_name());
    const dl_status closed = dl_trace_writer_close(&writer, status == DL_OK ? err : NULL);
    if (status == DL_OK) status = closed;
    return status == DL_OK ? print_bench(path, setup, err) : status;
}

static dl_bench_config config_of(const bench_options *options, const bench_setup *setup)
{
    return (dl_bench_config){.train = setup->train,
                             .parameter_bytes = setup->sizes.parameter_bytes,
                             .data = &setup->data,
                             .batches = setup->batches,
                             .batch_count = setup->batch_count,
                             .workers_max = options->workers_max > 0
                                                ? (int)options->workers_max
                                                : 2 * dl_train_cores(&setup->train),
                             .seconds = setup->seconds,
                             .quick = options->quick,
                             .kind = options->snapshot ? DL_BENCH_SNAPSHOT : DL_BENCH_WHOLE};
}

/* A bench that exceeds the requested time by this factor reports it. */
#define LONGER_THAN_ASKED 1.5

static void print_if_longer(const bench_setup *setup, int64_t start_ns)
{
    const double took_s = dl_ns_to_s((double)(dl_clock_ns() - start_ns));
    if (took_s <= LONGER_THAN_ASKED * setup->seconds || dl_interrupt_caught()) return;
    printf("took %.1f s, not %g s: each case is measured at least once\n", took_s, setup->seconds);
}

static dl_status run_bench(const bench_options *options, const bench_setup *setup,
                           const char *command_text, dl_error *err)
{
    const char *path = options->output != NULL ? options->output : "bench.dlt";
    dl_trace_writer *writer = NULL;
    dl_status status = dl_trace_writer_open(&writer, path, err);
    if (status != DL_OK) return status;
    dl_run_meta_common(writer, "bench", command_text, setup->data.name, &setup->train,
                       &setup->sizes);
    const dl_bench_config config = config_of(options, setup);
    dl_bench bench;
    dl_bench_init(&bench, writer);
    const int64_t start_ns = dl_clock_ns();
    const dl_cpu_usage before = dl_cpu_usage_now();
    if (options->snapshot) dl_trace_writer_meta(writer, "snapshot", "1");
    status = dl_bench_run(&bench, &config, err);
    const dl_cpu_usage after = dl_cpu_usage_now();
    const dl_cpu_disturbance disturbed = dl_cpu_disturbed(&before, &after);
    dl_run_meta_disturbed(writer, &disturbed);
    dl_bench_print_gaps(&bench, stdout);
    print_if_longer(setup, start_ns);
    return end_bench(writer, path, setup, status, err);
}

/* Measures averages and waits on the GPUs' host, for vectors that are exchanged in its memory. */
static dl_status run_host(const bench_options *options, const bench_setup *setup,
                          dl_trace_writer *writer, dl_error *err)
{
    dl_bench_config config = config_of(options, setup);
    config.kind = DL_BENCH_HOST;
    config.workers_max = 1;
    config.copier = config.train.device;
    config.train.device = NULL;
    config.seconds *= GPU_HOST_SHARE / 2;
    dl_bench bench;
    dl_bench_init(&bench, writer);
    const dl_status status = dl_bench_run(&bench, &config, err);
    dl_bench_print_gaps(&bench, stdout);
    return status;
}

/* Measures concurrent copies of the step that share the first GPU. */
static dl_status run_gpu_steps(const bench_options *options, const bench_setup *setup,
                               dl_trace_writer *writer, dl_error *err)
{
    const dl_run_sizes *sizes = &setup->sizes;
    dl_bench_config config = config_of(options, setup);
    config.kind = DL_BENCH_GPU_STEPS;
    config.replica_bytes = sizes->parameter_bytes + sizes->gradient_bytes + sizes->state_bytes;
    config.activation_bytes = sizes->activation_bytes;
    if (options->workers_max == 0) config.workers_max = GPU_COPIES_MAX;
    config.seconds *= GPU_STEP_SHARE;
    dl_bench bench;
    dl_bench_init(&bench, writer);
    const dl_status status = dl_bench_run(&bench, &config, err);
    dl_bench_print_gaps(&bench, stdout);
    return status;
}

/* Measures all GPUs from the chosen one on. */
static dl_status run_gpus(const bench_options *options, const bench_setup *setup,
                          const char *command_text, dl_error *err)
{
    const char *path = options->output != NULL ? options->output : "bench.dlt";
    dl_train_config train = setup->train;
    dl_trace_writer *writer = NULL;
    train.workers = DL_TRAIN_WORKERS_MAX; /* at least the number of GPUs */
    int count = 0;
    const int64_t start_ns = dl_clock_ns();
    dl_status status = dl_train_device_count(&train, &count, err);
    train.workers = count;
    if (status == DL_OK) status = dl_trace_writer_open(&writer, path, err);
    if (status != DL_OK) return status;
    dl_run_meta_common(writer, "bench", command_text, setup->data.name, &train, &setup->sizes);
    const dl_bench_gpu_config config = {.type = train.device,
                                        .first = train.first_device,
                                        .count = count,
                                        .seconds =
                                            setup->seconds * (1 - GPU_HOST_SHARE - GPU_STEP_SHARE),
                                        .quick = options->quick,
                                        .stop = setup->train.stop};
    status = dl_bench_gpu(writer, &config, err);
    if (status == DL_OK) {
        dl_bench_gpu_config memory = config;
        memory.seconds = setup->seconds * GPU_HOST_SHARE / 2;
        status = dl_bench_gpu_memory(writer, &memory, err);
    }
    if (status == DL_OK) status = run_gpu_steps(options, setup, writer, err);
    if (status == DL_OK) status = run_host(options, setup, writer, err);
    print_if_longer(setup, start_ns);
    return end_bench(writer, path, setup, status, err);
}

/* Sets *overhead to whether the argument is "overhead"; DL_ERR_USAGE for any other argument. */
static dl_status check_form(const dl_text_list *positional, bool *overhead, dl_error *err)
{
    static const char *const forms[] = {"overhead", "shapes"};
    *overhead = positional->count == 1;
    if (positional->count == 0 || strcmp(positional->items[0], forms[0]) == 0) return DL_OK;
    if (strcmp(positional->items[0], forms[1]) == 0)
        return dl_error_set(err, DL_ERR_USAGE, "'shapes' comes before its options");
    char hint[128];
    dl_names_hint(hint, sizeof hint, positional->items[0], forms, DL_LENGTH(forms));
    return dl_error_set(err, DL_ERR_USAGE, "unknown benchmark '%s'%s", positional->items[0], hint);
}

/* dlprof bench [OPTION...] --of PROGRAM [ARGUMENT...]: concurrent copies of any program. */
typedef struct program_options {
    const char *step_line, *output;
    int64_t batch, copies, lines, warmup, rounds;
    double limit_s;
} program_options;

static const dl_option program_table[] = {
    DL_OPTION_ROW_TEXT("step-line", 0, program_options, step_line, "REGEX",
                       "Regular expression of the lines that the program prints after steps; its "
                       "first group is the number of the last step."),
    DL_OPTION_ROW_NUMBER(INT, "batch", 'b', program_options, batch, 1, INT32_MAX, "SAMPLES",
                         "Number of samples per step of one copy."),
    DL_OPTION_ROW_NUMBER(INT, "workers-max", 'w', program_options, copies, 0, DL_TRAIN_WORKERS_MAX,
                         "COUNT",
                         "Largest number of concurrent copies (default: twice the cores)."),
    DL_OPTION_ROW_NUMBER(INT, "lines", 0, program_options, lines, 1, 1000000, "COUNT",
                         "Number of lines to measure, of each copy in each run."),
    DL_OPTION_ROW_NUMBER(INT, "warmup", 0, program_options, warmup, 0, 1000000, "COUNT",
                         "Number of warm-up lines before these, in addition to the first line."),
    DL_OPTION_ROW_NUMBER(INT, "rounds", 0, program_options, rounds, 1, 1000, "COUNT",
                         "Number of runs for each number of copies."),
    DL_OPTION_ROW_NUMBER(DOUBLE, "limit", 0, program_options, limit_s, 1, 86400, "SECONDS",
                         "Longest time without a line that matches --step-line."),
    DL_OPTION_ROW_TEXT("output", 'o', program_options, output, "FILE", "Trace to write."),
};
enum { PROGRAM_OPTION_COUNT = DL_LENGTH(program_table) };

static void program_meta(dl_trace_writer *writer, char **program, const program_options *options,
                         int cores)
{
    char device[256], host[256] = "", number[32];
    DL_AUTOFREE char *command = dl_format("dlprof bench --batch %lld --step-line '%s' --of",
                                          (long long)options->batch, options->step_line);
    for (char **word = program; *word != NULL; word++)
        dl_join(&command, " ", *word);
    gethostname(host, sizeof host - 1);
    snprintf(number, sizeof number, "%d", cores);
    dl_trace_writer_meta(writer, "program", "dlprof");
    dl_trace_writer_meta(writer, "version", dl_version());
    dl_trace_writer_meta(writer, "kind", "bench");
    dl_trace_writer_meta(writer, "command", command);
    dl_trace_writer_meta(writer, "model", dl_base_name(program[0]));
    dl_trace_writer_meta(writer, "device", dl_cpu_name(device, sizeof device));
    dl_trace_writer_meta(writer, "cores", number);
    dl_trace_writer_meta(writer, "host", host);
}

/* Trace of the copies, opened before the first samples are added. */
typedef struct program_trace {
    const program_options *options;
    char **program;
    int cores;
    dl_trace_writer *writer; /* NULL = not open */
} program_trace;

static dl_status begin_trace(dl_bench *bench, void *begun, dl_error *err)
{
    program_trace *trace = begun;
    const dl_status status = dl_trace_writer_open(&trace->writer, trace->options->output, err);
    if (status != DL_OK) return status;
    program_meta(trace->writer, trace->program, trace->options, trace->cores);
    dl_bench_init(bench, trace->writer);
    return DL_OK;
}

static dl_status end_trace(program_trace *trace, const dl_cpu_usage *before, dl_status status,
                           dl_error *err)
{
    const dl_cpu_usage after = dl_target_usage_now();
    const dl_cpu_disturbance disturbed = dl_cpu_disturbed(before, &after);
    dl_run_meta_disturbed(trace->writer, &disturbed);
    if (dl_interrupt_caught()) dl_trace_writer_meta(trace->writer, "stopped", dl_interrupt_name());
    const dl_status closed = dl_trace_writer_close(&trace->writer, status == DL_OK ? err : NULL);
    return status == DL_OK ? closed : status;
}

static dl_status measure_program(const program_options *options, const regex_t *lines,
                                 char **program, dl_error *err)
{
    const dl_file_role output = {"--output", options->output};
    dl_status status = dl_outputs_check(&output, 1, NULL, 0, err);
    if (status != DL_OK) return status;
    const int cores = dl_cpu_count();
    program_trace trace = {.options = options, .program = program, .cores = cores};
    const dl_program_config config = {.argv = program,
                                      .lines = lines,
                                      .batch = (int)options->batch,
                                      .copies_max =
                                          options->copies > 0 ? (int)options->copies : 2 * cores,
                                      .cores = cores,
                                      .warmup = (int)options->warmup,
                                      .count = (int)options->lines,
                                      .rounds = (int)options->rounds,
                                      .limit_s = options->limit_s,
                                      .stop = dl_interrupt_catch(DL_INTERRUPT_BENCH_LIMIT_S),
                                      .seed = 1,
                                      .begin = begin_trace,
                                      .trace = &trace};
    dl_bench bench;
    int runs = 0;
    const dl_cpu_usage before = dl_target_usage_now();
    status = dl_bench_program(&bench, &config, &runs, err);
    dl_interrupt_met();
    if (trace.writer != NULL) status = end_trace(&trace, &before, status, err);
    if (status == DL_OK && runs == 0)
        status = dl_error_set(err, DL_ERR_DATA, "stopped before anything was measured");
    return status;
}

/* Prints the step times by the number of copies. */
static dl_status print_program(const char *path, dl_error *err)
{
    DL_SCOPED(dl_trace) trace = {0};
    const dl_status status = dl_trace_read(&trace, path, err);
    if (status != DL_OK) return status;
    DL_AUTOFREE double *values = dl_calloc(trace.record_count, sizeof *values, "steps");
    double alone_ns = 0;
    printf("%6s %8s %10s %10s %10s\n", "copies", "samples", "p50", "mean", "to alone");
    for (uint32_t k = 1; k <= DL_TRAIN_WORKERS_MAX; k++) {
        size_t count = 0;
        for (size_t i = 0; i < trace.record_count; i++) {
            if (trace.records[i].vectors == k)
                values[count++] = (double)trace.records[i].duration_ns;
        }
        if (count == 0) continue;
        const dl_distribution steps = dl_distribution_of(values, count);
        if (k == 1) alone_ns = steps.mean;
        printf("%6u %8zu %10s %10s %10.3f\n", k, count, DL_NS_TEXT(steps.p50),
               DL_NS_TEXT(steps.mean), alone_ns > 0 ? steps.mean / alone_ns : 0);
    }
    printf("written to %s\n", path);
    return DL_OK;
}

static int bench_of(int argc, char **argv, char **program)
{
    program_options options = {.step_line = "step[^0-9]*([0-9]+)",
                               .output = "copies.dlt",
                               .batch = 0,
                               .lines = 10,
                               .warmup = 1,
                               .rounds = 3,
                               .limit_s = 120};
    dl_option table[PROGRAM_OPTION_COUNT];
    dl_options_bind(table, program_table, PROGRAM_OPTION_COUNT, &options);
    const dl_command command = {
        .program = argv[0],
        .positional = "--of PROGRAM [ARGUMENT...]",
        .summary = "Run concurrent copies of any program, and time its steps by the lines that it "
                   "prints: how much processes slow each other. For dlcal costs --copies.",
        .options = table,
        .option_count = PROGRAM_OPTION_COUNT,
    };
    DL_SCOPED(dl_text_list) none = {0};
    dl_options_action action = DL_OPTIONS_RUN;
    dl_error err = {0};
    regex_t lines;
    dl_status status = dl_options_parse(&command, argc, argv, &none, &action, &err);
    if (status == DL_OK && action == DL_OPTIONS_RUN) {
        if (program[0] == NULL) {
            status = dl_error_set(&err, DL_ERR_USAGE, "--of: expected a program");
        } else if (options.batch == 0) {
            status = dl_error_set(&err, DL_ERR_USAGE, "--batch is missing: samples of a step");
        } else if (regcomp(&lines, options.step_line, REG_EXTENDED) != 0) {
            status = dl_error_set(&err, DL_ERR_USAGE,
                                  "--step-line: not a valid regular expression: '%s'",
                                  options.step_line);
        } else {
            status = measure_program(&options, &lines, program, &err);
            if (status == DL_OK) status = print_program(options.output, &err);
            regfree(&lines);
        }
    }
    if (status != DL_OK) dl_error_print(&err, argv[0], stderr);
    if (dl_interrupt_caught()) return dl_interrupt_exit_code();
    return dl_status_exit_code(status);
}

int dl_cmd_bench(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--of") != 0) continue;
        argv[i] = NULL;
        return bench_of(i, argv, argv + i + 1);
    }
    if (argc > 1 && strcmp(argv[1], "shapes") == 0) {
        DL_AUTOFREE char *name = dl_format("%s shapes", argv[0]);
        argv[1] = name;
        return dl_cmd_bench_shapes(argc - 1, argv + 1);
    }
    bench_options options = {.workload = dl_workload_options_default(),
                             .batch = "32,64,128",
                             .device = "cpu",
                             .seconds = 40};
    dl_option table[OPTION_COUNT];
    dl_options_bind(table, bench_table, OWN_OPTION_COUNT, &options);
    dl_workload_options_table(&options.workload, table + OWN_OPTION_COUNT);
    const dl_command command = {
        .program = argv[0],
        .positional = "[overhead|shapes]",
        .summary =
            "Measure the costs of copies, averages, updates, waiting, and of concurrent steps on "
            "this machine. With 'overhead': the cost of recording a run. With 'shapes' (see "
            "shapes --help): the times of matrix products by shape. With '--of PROGRAM ...' "
            "(after its own options, see --help --of): the steps of concurrent copies of any "
            "program.",
        .options = table,
        .option_count = OPTION_COUNT,
        .positional_max = 1,
    };
    DL_SCOPED(dl_text_list) positional = {0};
    dl_options_action action = DL_OPTIONS_RUN;
    dl_error err = {0};
    bool overhead = false;
    dl_device_choice choice = {0};
    bench_setup setup = {0};
    dl_status status = dl_options_parse(&command, argc, argv, &positional, &action, &err);
    if (status == DL_OK && action == DL_OPTIONS_RUN) {
        status = check_form(&positional, &overhead, &err);
        if (status == DL_OK) status = dl_device_parse(options.device, &choice, &err);
        if (status == DL_OK) status = set_up(&options, &choice, overhead, &setup, &err);
        setup.train.stop = dl_interrupt_catch(DL_INTERRUPT_BENCH_LIMIT_S);
        DL_AUTOFREE char *text = dl_options_dump(&command);
        DL_AUTOFREE char *command_text = dl_format("%s %s", argv[0], text);
        if (status == DL_OK && overhead) {
            status = run_overhead(&options, &choice, &setup, command_text, &err);
        } else if (status == DL_OK && choice.cuda) {
            status = run_gpus(&options, &setup, command_text, &err);
        } else if (status == DL_OK) {
            status = run_bench(&options, &setup, command_text, &err);
        }
    }
    if (status != DL_OK) dl_error_print(&err, argv[0], stderr);
    dl_data_set_free(&setup.data);
    free(setup.data_note);
    if (dl_interrupt_caught()) return dl_interrupt_exit_code();
    return dl_status_exit_code(status);
}
