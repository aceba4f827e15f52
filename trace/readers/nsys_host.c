#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "trace/readers/nsys_state.h"

enum { START, END, THREAD, NAME };

/* Low bits of a globalTid (Nsight's documentation of the SQLite schema). */
#define THREAD_MASK 0xFFFFFF

static dl_activity host_activity(const dl_nsys *nsys, const dl_nsys_rows *rows,
                                 dl_activity_kind kind)
{
    int64_t start_ns = dl_nsys_signed(rows, START);
    return (dl_activity){
        .kind = (uint8_t)kind,
        .thread = (uint32_t)(dl_nsys_unsigned(rows, THREAD) & THREAD_MASK),
        .start_ns = start_ns + nsys->base_ns,
        .duration_ns = dl_nsys_has(rows, END) ? dl_nsys_signed(rows, END) - start_ns : 0,
    };
}

/* "cudaLaunchKernel_v7000" is cudaLaunchKernel since CUDA 7.0. */
static uint32_t call_name(dl_nsys *nsys, dl_nsys_process *process, int64_t id)
{
    uint32_t name = dl_nsys_name(nsys, process, id);
    const char *text = process->builder.trace.strings[name];
    const char *version = strrchr(text, '_');
    if (version == NULL || version[1] != 'v' || !isdigit((unsigned char)version[2])) return name;
    if (version[2 + strspn(version + 2, "0123456789")] != '\0') return name;
    char *copy = strdup(text);
    if (copy == NULL) return name;
    name = dl_trace_builder_intern(&process->builder, copy, (size_t)(version - text));
    free(copy);
    return name;
}

static void read_calls(dl_nsys *nsys)
{
    static const char table[] = "CUPTI_ACTIVITY_KIND_RUNTIME";
    enum { CORRELATION = NAME + 1 };
    const char *const columns[] = {"start", "end", "globalTid", "nameId", "correlationId"};
    dl_nsys_rows rows;
    bool open = dl_nsys_rows_open(&rows, nsys->file, table, columns, 5, "");
    while (open && dl_nsys_rows_next(&rows)) {
        dl_nsys_process *process = dl_nsys_find_process(nsys, &rows, THREAD);
        if (process == NULL) continue;
        dl_activity call = host_activity(nsys, &rows, DL_ACTIVITY_CALL);
        call.name = call_name(nsys, process, dl_nsys_signed(&rows, NAME));
        call.correlation = (uint32_t)dl_nsys_unsigned(&rows, CORRELATION);
        dl_trace_builder_append(&process->builder, &call);
    }
    dl_nsys_end_rows(nsys, &rows, table);
}

static void read_overheads(dl_nsys *nsys, const char *table)
{
    const char *const columns[] = {"start", "end", "globalTid", "nameId"};
    dl_nsys_rows rows;
    bool open = dl_nsys_rows_open(&rows, nsys->file, table, columns, 4, "");
    while (open && dl_nsys_rows_next(&rows)) {
        dl_nsys_process *process = dl_nsys_find_process(nsys, &rows, THREAD);
        if (process == NULL) continue;
        dl_activity overhead = host_activity(nsys, &rows, DL_ACTIVITY_OVERHEAD);
        overhead.name = dl_nsys_name(nsys, process, dl_nsys_signed(&rows, NAME));
        dl_trace_builder_append(&process->builder, &overhead);
    }
    dl_nsys_end_rows(nsys, &rows, table);
}

enum { TEXT = NAME + 1, DOMAIN_ID };
static const char *const nvtx_columns[] = {"start",  "end",  "globalTid",
                                           "textId", "text", "domainId"};
#define NVTX_TABLE "NVTX_EVENTS"

static const char *text_of(dl_nsys *nsys, dl_nsys_process *process, const dl_nsys_rows *rows)
{
    if (dl_nsys_has(rows, TEXT)) return dl_nsys_text(rows, TEXT);
    return process->builder.trace.strings[dl_nsys_name(nsys, process, dl_nsys_signed(rows, NAME))];
}

/* Length of the name in PyTorch's "aten::mul, seq = 1, op_id = 2, sizes = [...]"; *id becomes the
 * number behind op_id, 0 if there is none. */
static size_t operator_name(const char *text, uint64_t *id)
{
    static const char *const parts[] = {
        ", seq = ", ", op_id = ", ", sizes = ", ", input_op_ids = "};
    size_t length = strlen(text);
    const char *op = strstr(text, parts[1]);
    *id = op != NULL ? strtoull(op + strlen(parts[1]), NULL, 10) : 0;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        const char *at = strstr(text, parts[i]);
        if (at != NULL && (size_t)(at - text) < length) length = (size_t)(at - text);
    }
    return length;
}

/* NCCL's own ranges are "ncclAllReduce", frameworks' "nccl:all_reduce". */
static bool is_nccl_call(const char *text)
{
    return strncmp(text, "nccl", 4) == 0 && isupper((unsigned char)text[4]);
}

static void add_collective(dl_nsys *nsys, dl_nsys_process *process, const dl_activity *range)
{
    const char *text = process->builder.trace.strings[range->name];
    const char *name = dl_comm_of_range(&nsys->options->patterns, text);
    if (name == NULL && is_nccl_call(text)) name = dl_comm_of_name(text + 4);
    if (name == NULL) return;
    if (process->has_nccl_calls && strncmp(text, "nccl:", 5) == 0) return;
    dl_activity collective = *range;
    collective.kind = DL_ACTIVITY_COLLECTIVE;
    collective.name = dl_trace_builder_name(&process->builder, name);
    collective.detail = 0;
    collective.object = 0;
    process->unsized_calls++;
    dl_trace_builder_append(&process->builder, &collective);
}

static void add_range(dl_nsys *nsys, dl_nsys_process *process, const dl_nsys_rows *rows,
                      dl_activity_kind kind)
{
    dl_activity range = host_activity(nsys, rows, kind);
    if (kind == DL_ACTIVITY_RANGE && !dl_nsys_has(rows, END)) {
        process->open_ranges++;
        return;
    }
    if (kind == DL_ACTIVITY_MARK) range.duration_ns = 0;
    const char *text = text_of(nsys, process, rows);
    size_t length = operator_name(text, &range.object);
    range.name = dl_trace_builder_intern(&process->builder, text, length);
    dl_trace_builder_append(&process->builder, &range);
}

/* Event types are those of ENUM_NSYS_EVENT_TYPE: ranges of threads and of processes; marks. */
static void read_ranges(dl_nsys *nsys, dl_activity_kind kind, const char *where)
{
    dl_nsys_rows rows;
    bool open = dl_nsys_has_column(nsys->file, NVTX_TABLE, "eventType") &&
                dl_nsys_rows_open(&rows, nsys->file, NVTX_TABLE, nvtx_columns,
                                  sizeof nvtx_columns / sizeof nvtx_columns[0], where);
    if (!open) return;
    while (dl_nsys_rows_next(&rows)) {
        dl_nsys_process *process = dl_nsys_find_process(nsys, &rows, THREAD);
        if (process != NULL) add_range(nsys, process, &rows, kind);
    }
    dl_nsys_end_rows(nsys, &rows, NVTX_TABLE);
}

/* COLLECTIVEs from the ranges, when it is known who wrote them. */
static void add_collectives(dl_nsys *nsys, dl_nsys_process *process)
{
    const dl_trace *trace = &process->builder.trace;
    size_t count = trace->activity_count;
    for (size_t i = 0; i < count; i++) {
        const dl_activity *a = &trace->activities[i];
        process->has_nccl_calls |=
            a->kind == DL_ACTIVITY_RANGE && is_nccl_call(trace->strings[a->name]);
    }
    for (size_t i = 0; i < count; i++) {
        const dl_activity range = trace->activities[i];
        if (range.kind == DL_ACTIVITY_RANGE) add_collective(nsys, process, &range);
    }
}

void dl_nsys_read_host(dl_nsys *nsys)
{
    read_calls(nsys);
    read_overheads(nsys, "PROFILER_OVERHEAD");
    read_overheads(nsys, "CUPTI_ACTIVITY_KIND_OVERHEAD");
    read_ranges(nsys, DL_ACTIVITY_RANGE, "WHERE eventType IN (59, 60, 70)");
    read_ranges(nsys, DL_ACTIVITY_MARK, "WHERE eventType = 34");
    for (size_t i = 0; i < nsys->process_count; i++)
        add_collectives(nsys, nsys->processes[i]);
}
