/* Samples of dlprof bench: copies and all-reduces (profiler/bench/bench_gpu.h, trace/record.h). */
#include <stdbool.h>
#include <string.h>

#include "calibrate/links/links_internal.h"
#include "common/alloc.h"
#include "trace/dlt/dlt.h"

/* Sample names in the trace and the corresponding series; other samples are ignored. */
static const struct {
    const char *record, *series;
    bool collective;
} bench_samples[] = {
    {"copy", "copy", false},
    {"h2d", "h2d", false},
    {"d2h", "d2h", false},
    {"h2d_pageable", "h2d pageable", false},
    {"d2h_pageable", "d2h pageable", false},
    {"h2d_with_d2h", "h2d with d2h", false},
    {"p2p", "p2p", false},
    {"all_reduce", "allreduce", true},
};

static bool take(dl_link_data *data, const dl_trace *trace, const dl_record *record)
{
    const char *name = dl_trace_name(trace, record);
    size_t i = 0;
    while (i < DL_LENGTH(bench_samples) && strcmp(bench_samples[i].record, name) != 0)
        i++;
    if (i == DL_LENGTH(bench_samples) || record->bytes == 0 || record->duration_ns <= 0) {
        return false;
    }
    const dl_link_series key = {
        .path = trace->path,
        .name = (char *)bench_samples[i].series,
        .device = (char *)dl_trace_meta(trace, "device"),
        .collective = bench_samples[i].collective,
        .ranks = record->threads < INT32_MAX ? (int)record->threads : 0,
        .nodes = 1,
        .place = bench_samples[i].collective ? DL_LINK_IN_PLACE : DL_LINK_ANYWHERE,
    };
    const dl_link_point point = {
        .bytes = (double)record->bytes, .time_ns = (double)record->duration_ns, .count = 1};
    dl_link_data_add(data, &key, point);
    return true;
}

dl_status dl_link_bench_read(dl_link_data *data, const char *path, dl_error *err)
{
    DL_SCOPED(dl_trace) trace = {0};
    size_t taken = 0;
    dl_status status = dl_trace_read(&trace, path, err);
    if (status != DL_OK) return status;
    for (size_t i = 0; i < trace.record_count; i++) {
        const dl_record *record = &trace.records[i];
        if (record->kind == DL_RECORD_BENCH) taken += take(data, &trace, record);
    }
    if (taken > 0) return DL_OK;
    return dl_error_set_at(err, DL_ERR_DATA, path, 0,
                           "it holds no copies and no collectives of dlprof bench");
}
