/* dlprof bench shapes: times of matrix products by shape on this machine. */
#include <stdlib.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/cpu.h"
#include "common/options.h"
#include "common/output.h"
#include "profiler/bench/bench_shapes.h"
#include "profiler/commands.h"
#include "profiler/interrupt.h"
#include "profiler/run/run_meta.h"
#include "trace/training/summary.h"

#define QUICK_SECONDS 1.0

typedef struct shapes_options {
    const char *workload, *device, *output;
    int64_t batch, threads;
    int math;
    double seconds;
    bool quick;
} shapes_options;

static const dl_option shapes_table[] = {
    DL_OPTION_ROW_TEXT(
        "workload", 0, shapes_options, workload, "NAME",
        "Network of which to measure products and a block, as in dlsim: a name with keys "
        "after a colon (transformer:width=512,tp=2), or a config.json."),
    DL_OPTION_ROW_NUMBER(INT, "batch", 'b', shapes_options, batch, 1, 1 << 20, "SAMPLES",
                         "Number of samples per step of the network."),
    DL_OPTION_ROW_TEXT("device", 'd', shapes_options, device, "DEVICE",
                       "Device to measure: cpu, or cuda:NUMBER."),
    DL_OPTION_ROW_CHOICE("math", 0, shapes_options, math, dl_device_math_names, "ARITHMETIC",
                         "Arithmetic of products on a GPU: fp32 or tf32."),
    DL_OPTION_ROW_NUMBER(INT, "threads", 't', shapes_options, threads, 0, 4096, "COUNT",
                         "Number of cores that share each product (default: all that the process "
                         "may use)."),
    DL_OPTION_ROW_NUMBER(DOUBLE, "seconds", 0, shapes_options, seconds, 0.1, 86400, "SECONDS",
                         "Time for all measurements; at least two rounds are made."),
    DL_OPTION_ROW_FLAG("quick", 0, shapes_options, quick,
                       "Only two rounds, with smaller spread shapes, to check that everything "
                       "works."),
    DL_OPTION_ROW_TEXT("output", 'o', shapes_options, output, "FILE", "Trace to write."),
};
enum { OPTION_COUNT = DL_LENGTH(shapes_table) };

/* Writes the meta keys: the program, the device and its arithmetic. */
static void write_meta(dl_trace_writer *writer, const shapes_options *options,
                       const dl_bench_shapes_config *config, const char *command)
{
    char device[256], host[256] = "";
    dl_device_info info;
    dl_error none = {0};
    unsigned long long memory_bytes =
        (unsigned long long)sysconf(_SC_PHYS_PAGES) * (unsigned long long)sysconf(_SC_PAGESIZE);
    (void)dl_cpu_name(device, sizeof device);
    if (config->device != NULL && config->device->describe(config->number, &info, &none) == DL_OK) {
        snprintf(device, sizeof device, "%s", info.name);
        memory_bytes = info.memory_bytes;
    }
    gethostname(host, sizeof host - 1);
    dl_trace_writer_meta(writer, "program", "dlprof");
    dl_trace_writer_meta(writer, "version", dl_version());
    dl_trace_writer_meta(writer, "command", command);
    dl_trace_writer_meta(writer, "kind", "shapes");
    dl_trace_writer_meta(writer, "device", device);
    dl_trace_writer_meta(writer, "host", host);
    dl_trace_writer_meta(writer, "where", config->device != NULL ? "gpu" : "cores");
    dl_trace_writer_metaf(writer, "threads", "%d", config->device != NULL ? 1 : config->threads);
    dl_trace_writer_meta(writer, "arithmetic", dl_device_math_names[options->math]);
    dl_trace_writer_metaf(writer, "device_memory_bytes", "%llu", memory_bytes);
    dl_trace_writer_meta(writer, "workload", options->workload);
    dl_trace_writer_metaf(writer, "batch", "%lld", (long long)options->batch);
}

static dl_status print_trace(const char *path, dl_error *err)
{
    DL_SCOPED(dl_trace) trace = {0};
    const dl_status status = dl_trace_read(&trace, path, err);
    if (status != DL_OK) return status;
    DL_SCOPED(dl_summary) summary = {0};
    dl_summary_init(&summary, &trace);
    dl_summary_print(&summary, stdout);
    if (dl_interrupt_caught())
        printf("stopped by %s: not everything was measured\n", dl_interrupt_name());
    printf("written to %s; dlcal shapes makes a machine file from it\n", path);
    return DL_OK;
}

static dl_status measure(const shapes_options *options, dl_bench_shapes_config *config,
                         const char *command, dl_error *err)
{
    dl_trace_writer *writer = NULL;
    const dl_file_role output = {"--output", options->output};
    dl_status status = dl_outputs_check(&output, 1, NULL, 0, err);
    if (status == DL_OK) status = dl_trace_writer_open(&writer, options->output, err);
    if (status != DL_OK) return status;
    config->stop = dl_interrupt_catch(DL_INTERRUPT_BENCH_LIMIT_S);
    write_meta(writer, options, config, command);
    const dl_cpu_usage before = dl_cpu_usage_now();
    status = dl_bench_shapes(writer, config, err);
    const dl_cpu_usage after = dl_cpu_usage_now();
    const dl_cpu_disturbance disturbed = dl_cpu_disturbed(&before, &after);
    dl_run_meta_disturbed(writer, &disturbed);
    dl_interrupt_met();
    if (dl_interrupt_caught()) dl_trace_writer_meta(writer, "stopped", dl_interrupt_name());
    const dl_status closed = dl_trace_writer_close(&writer, status == DL_OK ? err : NULL);
    if (status == DL_OK) status = closed;
    return status == DL_OK ? print_trace(options->output, err) : status;
}

/* Finds the device, the threads and the network. */
static dl_status set_up(const shapes_options *options, dl_bench_shapes_config *config,
                        dl_architecture *network, dl_error *err)
{
    dl_device_choice choice = {0};
    if (options->workload == NULL) {
        return dl_error_set(err, DL_ERR_USAGE,
                            "--workload is missing: a network's name with its keys, or its "
                            "config.json (dlsim --models)");
    }
    dl_status status = dl_device_parse(options->device, &choice, err);
    if (status != DL_OK) return status;
    const int cores = dl_cpu_count();
    if (options->threads > cores) {
        return dl_error_set(err, DL_ERR_USAGE, "--threads %lld: the process may use %d cores",
                            (long long)options->threads, cores);
    }
    if (!choice.cuda && options->math != DL_DEVICE_MATH_FP32) {
        return dl_error_set(err, DL_ERR_USAGE, "--math %s: the processor has fp32 only",
                            dl_device_math_names[options->math]);
    }
    if (options->math == DL_DEVICE_MATH_FP16) {
        return dl_error_set(err, DL_ERR_USAGE,
                            "--math fp16: numbers are stored in 32 bits, fp32 or tf32");
    }
    dl_error why = {0};
    if (dl_architecture_make(network, options->workload, &why) != DL_OK)
        return dl_error_set(err, DL_ERR_USAGE, "--workload: %.400s", why.text);
    config->network = network;
    config->batch = options->batch;
    config->threads = options->threads > 0 ? (int)options->threads : cores;
    config->number = choice.first;
    config->settings.math = (dl_device_math)options->math;
    return choice.cuda ? dl_device_load_cuda(&config->device, err) : DL_OK;
}

int dl_cmd_bench_shapes(int argc, char **argv)
{
    shapes_options options = {
        .device = "cpu", .output = "shapes.dlt", .batch = 8, .threads = 0, .seconds = 30};
    dl_option table[OPTION_COUNT];
    dl_options_bind(table, shapes_table, OPTION_COUNT, &options);
    const dl_command command = {
        .program = argv[0],
        .positional = "",
        .summary = "Measure a transformer's kernels on all cores or a GPU: matrix products of ten "
                   "shapes spread over sizes and those of a network, separately for the forward "
                   "pass and the gradients of inputs and of weights; norms, activations, losses, "
                   "updates and attention by size; and, for half of the time, a block of the "
                   "network in a loop. dlcal shapes fits them for dlsim.",
        .options = table,
        .option_count = OPTION_COUNT,
    };
    DL_SCOPED(dl_text_list) none = {0};
    dl_options_action action = DL_OPTIONS_RUN;
    dl_error err = {0};
    DL_SCOPED(dl_architecture) network = {0};
    dl_status status = dl_options_parse(&command, argc, argv, &none, &action, &err);
    if (status == DL_OK && action == DL_OPTIONS_RUN) {
        dl_bench_shapes_config config = {.seconds = options.quick ? QUICK_SECONDS : options.seconds,
                                         .quick = options.quick};
        DL_AUTOFREE char *text = dl_options_dump(&command);
        DL_AUTOFREE char *command_text = dl_format("%s %s", argv[0], text);
        status = set_up(&options, &config, &network, &err);
        if (status == DL_OK) status = measure(&options, &config, command_text, &err);
    }
    if (status != DL_OK) dl_error_print(&err, argv[0], stderr);
    if (dl_interrupt_caught()) return dl_interrupt_exit_code();
    return dl_status_exit_code(status);
}
