#include "calibrate/trace_inputs.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/alloc.h"
#include "trace/rank_clock.h"

static bool has_work(const dl_trace *trace)
{
    for (size_t i = 0; i < trace->activity_count; i++) {
        if (dl_activity_is_device_work(&trace->activities[i])) return true;
    }
    return false;
}

dl_status dl_trace_inputs_read(dl_trace_inputs *in, const char *path, const dl_read_options *read,
                               const char *program, dl_error *err)
{
    in->files = dl_realloc(in->files, in->file_count + 1, sizeof *in->files, "traces");
    dl_read_traces *file = &in->files[in->file_count];
    *file = (dl_read_traces){0};
    const dl_status status = dl_read(file, path, read, err);
    if (status != DL_OK) return status;
    in->file_count++;
    in->traces = dl_realloc(in->traces, in->count + file->count, sizeof(dl_trace *), "traces");
    for (size_t i = 0; i < file->count; i++) {
        dl_trace *trace = &file->items[i].trace;
        if (has_work(trace)) {
            in->traces[in->count++] = trace;
        } else if (trace->activity_count == 0 && trace->record_count > 0) {
            fprintf(stderr, "%s: %s: it holds records of our own training: see dlcal fit\n",
                    program, trace->path);
        } else {
            fprintf(stderr, "%s: %s: it holds no work of a device\n", program, trace->path);
        }
    }
    return DL_OK;
}

void dl_trace_inputs_free(dl_trace_inputs *in)
{
    for (size_t i = 0; i < in->file_count; i++)
        dl_read_free(&in->files[i]);
    free(in->files);
    free(in->traces);
    *in = (dl_trace_inputs){0};
}

dl_status dl_trace_inputs_align(dl_trace_inputs *in, dl_error *err)
{
    dl_rank_clock *clocks = dl_calloc(in->count, sizeof *clocks, "clocks");
    dl_status status =
        dl_rank_clocks_find(clocks, (const dl_trace *const *)in->traces, in->count, err);
    int64_t least_ns = 0;
    for (size_t i = 0; i < in->count && status == DL_OK; i++) {
        if (clocks[i].offset_ns < least_ns) least_ns = clocks[i].offset_ns;
    }
    for (size_t i = 0; i < in->count && status == DL_OK; i++)
        status = dl_rank_clock_apply(in->traces[i], clocks[i].offset_ns - least_ns, err);
    free(clocks);
    return status;
}
