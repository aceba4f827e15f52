/* dlprof machine: writes a machine file of the machine that it runs on. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/options.h"
#include "common/output.h"
#include "kernels/device.h"
#include "profiler/bench/bench_gpu.h"
#include "profiler/commands.h"
#include "profiler/machine/machine_box.h"
#include "profiler/machine/machine_gpu.h"

typedef struct settings {
    const char *output; /* NULL = standard output */
    bool measure;
} settings;

#define NVML_LIBRARY "libnvidia-ml.so.1"

#ifdef DL_HAVE_HWLOC
static dl_status probe(dl_box *box, dl_error *err)
{
    return dl_probe_machine(box, err);
}
#else
static dl_status probe(dl_box *box DL_UNUSED, dl_error *err)
{
    return dl_error_set(err, DL_ERR_UNSUPPORTED,
                        "this build has no hwloc: install libhwloc-dev and build again");
}
#endif

/* Reads the GPUs from the driver. A missing driver is not an error: the file names its gaps. */
static void ask_driver(dl_box *box)
{
    dl_nvml nvml = {0};
    dl_error why = {0};
    if (dl_nvml_open(&nvml, NVML_LIBRARY, &why) != DL_OK) {
        snprintf(box->driver_note, sizeof box->driver_note, "%.*s",
                 (int)sizeof box->driver_note - 1, why.text);
        return;
    }
    dl_gpu_probe(box, &nvml);
    dl_nvml_close(&nvml);
}

/* Seconds per kind of measurement, for all GPUs together. */
#define COPIES_S 4

/* Sets devices[] to the CUDA ordinal of each GPU of the box; -1 if CUDA does not show it. */
static dl_status number_gpus(const dl_box *box, const dl_device_type *type, int count, int *devices,
                             dl_error *err)
{
    for (int g = 0; g < box->gpu_count; g++)
        devices[g] = -1;
    for (int d = 0; d < count; d++) {
        dl_device_info info;
        const dl_status status = type->describe(d, &info, err);
        if (status != DL_OK) return status;
        const int gpu = dl_box_find_gpu(box, info.bus_id);
        if (gpu >= 0) devices[gpu] = d;
    }
    return DL_OK;
}

static dl_status bench_gpus(const dl_device_type *type, int count, const char *path, dl_error *err)
{
    const dl_bench_gpu_config config = {.type = type, .count = count, .seconds = COPIES_S};
    dl_trace_writer *writer = NULL;
    dl_status status = dl_trace_writer_open(&writer, path, err);
    if (status != DL_OK) return status;
    status = dl_bench_gpu(writer, &config, err);
    if (status == DL_OK) status = dl_bench_gpu_memory(writer, &config, err);
    const dl_status closed = dl_trace_writer_close(&writer, status == DL_OK ? err : NULL);
    return status == DL_OK ? closed : status;
}

/* Measures copies, and averages in the GPUs' memory, by way of a temporary trace file. */
static dl_status take_copies(dl_box *box, const dl_device_type *type, int count, dl_error *err)
{
    const char *folder = getenv("TMPDIR");
    DL_AUTOFREE char *path = dl_format("%s/dlprof-XXXXXX", folder != NULL ? folder : "/tmp");
    DL_AUTOFREE int *devices = dl_calloc((size_t)box->gpu_count, sizeof *devices, "GPUs");
    dl_trace trace = {0};
    const int file = mkstemp(path);
    dl_status status =
        file >= 0 ? DL_OK
                  : dl_error_set_at(err, DL_ERR_IO, path, 0, "cannot make a temporary file");
    if (status == DL_OK) status = number_gpus(box, type, count, devices, err);
    if (status == DL_OK) status = bench_gpus(type, count, path, err);
    if (status == DL_OK) status = dl_trace_read(&trace, path, err);
    if (status == DL_OK) {
        dl_box_take_copies(box, &trace, devices);
        dl_trace_free(&trace);
    }
    if (file >= 0) {
        close(file);
        unlink(path);
    }
    return status;
}

/* Measures the GPUs. Without CUDA, or if they fail (NCCL cannot join them in a container with little
 * shared memory), the file has the rates that follow from the driver's reports. */
static void measure_gpus(dl_box *box)
{
    const dl_device_type *type = NULL;
    int count = 0;
    dl_error why = {0};
    if (box->gpu_count == 0) return;
    if (dl_device_load_cuda(&type, &why) != DL_OK || type->count(&count, &why) != DL_OK ||
        take_copies(box, type, count, &why) != DL_OK) {
        snprintf(box->copies_note, sizeof box->copies_note, "%.*s",
                 (int)sizeof box->copies_note - 1, why.text);
    }
}

static dl_status measure(dl_box *box, dl_error *err)
{
    const dl_stream_config config = dl_stream_default_config(box->cache_bytes, box->memory_bytes);
    dl_stream_rates rates = {0};
    const dl_status status = dl_stream_measure(&config, &rates, err);
    if (status != DL_OK) return status;
    box->socket_memory_bytes_per_s = rates.triad_bytes_per_s / box->sockets;
    box->socket_link_bytes_per_s = rates.link_bytes_per_s;
    measure_gpus(box);
    return DL_OK;
}

static dl_status write_file(const dl_box *box, const char *path, dl_machine_gaps *gaps,
                            dl_error *err)
{
    if (path == NULL) {
        dl_machine_write(box, stdout, gaps);
        return dl_stdout_check(err);
    }
    dl_output output = {0};
    const dl_status status = dl_output_open(&output, path, err);
    if (status != DL_OK) return status;
    dl_machine_write(box, output.out, gaps);
    return dl_output_close(&output, err);
}

/* Reports the content of the file and its gaps, on standard error if the file goes to standard
 * output. */
static void print_report(const dl_box *box, const dl_machine_gaps *gaps, const char *path)
{
    FILE *out = path != NULL ? stdout : stderr;
    fprintf(out, "%s: %d socket%s, %d cores, %d PCIe switch%s, %d GPU%s, %d NIC%s\n",
            path != NULL ? path : "dlprof machine", box->sockets, box->sockets == 1 ? "" : "s",
            box->cores, box->switch_count, box->switch_count == 1 ? "" : "es", box->gpu_count,
            box->gpu_count == 1 ? "" : "s", box->nic_count, box->nic_count == 1 ? "" : "s");
    if (box->gpu_count == 0) {
        fprintf(out, "this machine has no NVIDIA GPU: dlsim needs a file with GPUs, so add them\n");
    }
    if (box->driver_note[0] != '\0') fprintf(out, "NVIDIA's driver: %s\n", box->driver_note);
    if (box->copies_note[0] != '\0') fprintf(out, "copies of GPUs: %s\n", box->copies_note);
    if (!box->places_known) {
        fprintf(out, "the sockets of the devices are unknown: check their parents\n");
    }
    if (gaps->count == 0) return;
    fprintf(out, "before dlsim reads the file, fill in (it says where to find them):\n");
    for (size_t i = 0; i < gaps->count; i++)
        fprintf(out, "  %s\n", gaps->keys[i]);
}

static dl_status run(const dl_text_list *none DL_UNUSED, void *user, dl_error *err)
{
    const settings *set = user;
    DL_SCOPED(dl_box) box = {0};
    DL_SCOPED(dl_machine_gaps) gaps = {0};
    const dl_file_role file = {"--output", set->output};
    dl_status status = dl_outputs_check(&file, 1, NULL, 0, err);
    if (status == DL_OK) status = probe(&box, err);
    if (status == DL_OK) ask_driver(&box);
    if (status == DL_OK && set->measure) status = measure(&box, err);
    if (status == DL_OK) status = write_file(&box, set->output, &gaps, err);
    if (status == DL_OK) print_report(&box, &gaps, set->output);
    return status;
}

int dl_cmd_machine(int argc, char **argv)
{
    settings set = {0};
    const dl_option table[] = {
        {.name = "output",
         .letter = 'o',
         .type = DL_OPTION_TEXT,
         .target = &set.output,
         .argument = "FILE",
         .help = "Machine file to write (default: standard output)."},
        {.name = "measure",
         .type = DL_OPTION_FLAG,
         .target = &set.measure,
         .help = "Measure the memory's rate on all cores and between sockets; with GPUs, also "
                 "copies to, from and between them, and averages in their memory. Takes seconds."},
    };
    const dl_command command = {
        .program = argv[0],
        .positional = "",
        .summary = "Write a machine file of this machine for dlsim: sockets, memory, PCIe tree, "
                   "NICs, GPUs, NVLinks, each value with its origin. Unknown values are left "
                   "out, and listed.",
        .options = table,
        .option_count = sizeof table / sizeof table[0],
    };
    return dl_command_main(&command, argc, argv, run, &set);
}
