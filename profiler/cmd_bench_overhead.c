/* dlprof bench overhead: what recording costs. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/alloc.h"
#include "profiler/bench/overhead_report.h"
#include "profiler/cmd_bench_run.h"
#include "profiler/run/run_setup.h"

/* What the injected library costs, where this build has one; *reason says why it is not known. */
static dl_status measure_nvtx(const char *library, const char *folder, dl_capture_cost *costs,
                              const char **reason, dl_error *why, dl_error *err)
{
    *reason = "this build has no " DL_INJECTED_LIBRARY;
    if (library == NULL) return DL_OK;
    const dl_status status = dl_capture_cost_measure(library, folder, costs, why);
    *reason = status == DL_OK ? NULL : why->text;
    if (status == DL_OK || status == DL_ERR_UNSUPPORTED) return DL_OK;
    *err = *why;
    return status;
}

static dl_status measure_cuda(const dl_bench_options *options, const dl_bench_setup *setup,
                              const char *library, const char *folder, dl_launch_cost *cost,
                              const char **reason, dl_error *why, dl_error *err)
{
    *reason = "this build has no " DL_INJECTED_LIBRARY " with a CUPTI part";
    if (library == NULL || !dl_run_library_records_cuda(library)) return DL_OK;
    char *device_library = NULL;
    *reason = "this build has no " DL_DEVICE_CUDA_LIBRARY;
    if (dl_run_beside(DL_DEVICE_CUDA_LIBRARY, &device_library, why) != DL_OK) return DL_OK;
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

/* The traces go to a file that disappears afterwards. `seconds` is the time for it. */
static dl_status measure_training(dl_bench_setup *setup, const char *folder, double seconds,
                                  dl_overhead *overhead, dl_error *err)
{
    char *temporary = dl_format("%s/dlprof-XXXXXX", folder);
    const int file = mkstemp(temporary);
    if (file < 0) {
        const dl_status status =
            dl_error_set_at(err, DL_ERR_IO, temporary, 0, "cannot make a temporary file");
        free(temporary);
        return status;
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
    free(temporary);
    return status;
}

/* The figures as a trace without records, whose meta keys dlcal and dlprof run read. */
static dl_status write_overhead(const char *path, const dl_bench_setup *setup,
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

/* The launches come first, in children of a process that has had no other thread; half the time is
 * theirs where there is a GPU. */
dl_status dl_bench_command_overhead(const dl_bench_options *options, dl_bench_setup *setup,
                                    const char *command_text, dl_error *err)
{
    const char *wanted = getenv("TMPDIR");
    const char *folder = wanted != NULL ? wanted : "/tmp";
    char *library = NULL;
    dl_error no_library = {0};
    if (dl_run_beside(DL_INJECTED_LIBRARY, &library, &no_library) != DL_OK) library = NULL;
    dl_overhead training;
    dl_capture_cost nvtx[DL_CAPTURE_COST_COUNT];
    dl_launch_cost cuda;
    dl_error no_nvtx = {0}, no_cuda = {0};
    setup->train.batch = setup->batches[0];
    dl_overhead_report report = {
        .model = setup->train.model, .batch = setup->train.batch, .training = &training};
    dl_status status =
        measure_cuda(options, setup, library, folder, &cuda, &report.cuda_reason, &no_cuda, err);
    if (status == DL_OK) {
        status = measure_nvtx(library, folder, nvtx, &report.nvtx_reason, &no_nvtx, err);
    }
    report.cuda = report.cuda_reason == NULL ? &cuda : NULL;
    report.nvtx = report.nvtx_reason == NULL ? nvtx : NULL;
    if (status == DL_OK) {
        const double seconds = report.cuda != NULL ? setup->seconds / 2 : setup->seconds;
        status = measure_training(setup, folder, seconds, &training, err);
    }
    if (status == DL_OK) dl_overhead_report_print(&report, stdout);
    if (status == DL_OK && options->output != NULL) {
        status = write_overhead(options->output, setup, command_text, &report, err);
    }
    free(library);
    return status;
}
