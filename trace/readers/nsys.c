#include "trace/readers/nsys_internal.h"

#include <ctype.h>
#include <inttypes.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/sort.h"
#include "trace/readers/reader.h"

/* A globalPid and a globalTid consist of 8 bits for the host, 8 for its virtual machine, 24 for the
 * process's number there, and 24 for the thread (Nsight's documentation of its exports). */
#define ID_SHIFT 24
#define PID_MASK 0xFFFFFF
#define HOST_SHIFT 24 /* of an id without the thread */

/* Returns the process of the row's globalPid or globalTid; NULL if that process has no device work.
 * A file's only process also has the rows without a number, and those of another host with its
 * number. */
static dl_nsys_process *nsys_find_process(dl_nsys *nsys, const dl_nsys_rows *rows, int column)
{
    const uint64_t id = dl_nsys_unsigned(rows, column) >> ID_SHIFT;
    const uint32_t pid = id & PID_MASK;
    if (nsys->process_count == 1 &&
        (pid == 0 || nsys->processes[0]->pid == 0 || nsys->processes[0]->pid == pid))
        return nsys->processes[0];
    for (size_t i = 0; i < nsys->process_count; i++) {
        if (nsys->processes[i]->id == id) return nsys->processes[i];
    }
    nsys->other_rows++;
    return NULL;
}

/* Returns the id, in the process's trace, of a text of StringIds; 0 if it is missing. */
static uint32_t nsys_name(dl_nsys *nsys, dl_nsys_process *process, int64_t id)
{
    size_t slot = (size_t)id & (DL_NSYS_TEXTS - 1);
    if (id < 0 || nsys->find_text == NULL) return 0;
    if (process->texts[slot].id == id) return process->texts[slot].name;
    uint32_t name = 0;
    sqlite3_bind_int64(nsys->find_text, 1, id);
    if (sqlite3_step(nsys->find_text) == SQLITE_ROW) {
        const unsigned char *text = sqlite3_column_text(nsys->find_text, 0);
        if (text != NULL) name = dl_trace_builder_name(&process->builder, (const char *)text);
    }
    sqlite3_reset(nsys->find_text);
    process->texts[slot].id = id;
    process->texts[slot].name = name;
    return name;
}

/* Closes a table's rows, and records the table's name if it is damaged. */
static void nsys_end_rows(dl_nsys *nsys, dl_nsys_rows *rows, const char *table)
{
    dl_nsys_rows_close(rows);
    if (rows->damaged) dl_join(&nsys->damaged, ", ", table);
}

/* Columns common to tables of device work come first. */
enum { START, END, DEVICE, CONTEXT, STREAM, CORRELATION, PID, GRAPH_NODE, GRAPH, COMMON_END };
#define COMMON_COLUMNS                                                                 \
    "start", "end", "deviceId", "contextId", "streamId", "correlationId", "globalPid", \
        "graphNodeId", "graphId"

/* CUPTI's value for a missing stream or event, and for the device of a graph that starts on the
 * host (CUpti_ActivityGraphTrace2). */
#define INVALID UINT32_MAX
#define ON_HOST INT32_MAX

typedef void add_work(dl_nsys_process *process, const dl_nsys_rows *rows, dl_activity *work);

static uint32_t valid_id(const dl_nsys_rows *rows, int column)
{
    uint64_t id = dl_nsys_unsigned(rows, column);
    return id >= INVALID ? 0 : (uint32_t)id;
}

static uint32_t device_number(const dl_nsys_process *process, const dl_nsys_rows *rows)
{
    const uint64_t device = dl_nsys_unsigned(rows, DEVICE);
    if (device != ON_HOST) return (uint32_t)device;
    return process->device != ON_HOST ? process->device : 0;
}

static void read_table(dl_nsys *nsys, const char *table, const char *const *columns, size_t count,
                       add_work *add)
{
    dl_nsys_rows rows;
    if (!dl_nsys_rows_open(&rows, nsys, table, columns, count, "")) {
        nsys_end_rows(nsys, &rows, table);
        return;
    }
    while (dl_nsys_rows_next(&rows)) {
        dl_nsys_process *process = nsys_find_process(nsys, &rows, PID);
        if (process == NULL) continue;
        uint64_t context = dl_nsys_unsigned(&rows, CONTEXT);
        dl_activity work = {
            .device = device_number(process, &rows),
            .stream = valid_id(&rows, STREAM),
            .correlation = (uint32_t)dl_nsys_unsigned(&rows, CORRELATION),
            .object = dl_nsys_unsigned(&rows, GRAPH) << 32 |
                      (uint32_t)dl_nsys_unsigned(&rows, GRAPH_NODE),
            .start_ns = dl_nsys_signed(&rows, START) + nsys->base_ns,
            .duration_ns = dl_nsys_signed(&rows, END) - dl_nsys_signed(&rows, START),
        };
        add(process, &rows, &work);
        /* CUPTI writes 0 for both times if it could not collect them. */
        if (dl_nsys_signed(&rows, START) == 0 && dl_nsys_signed(&rows, END) == 0 &&
            dl_activity_is_device_work(&work)) {
            process->untimed++;
            continue;
        }
        if (context < DL_NSYS_CONTEXTS && dl_activity_is_device_work(&work))
            process->device_of[context] = work.device;
        dl_trace_builder_append(&process->builder, &work);
    }
    nsys_end_rows(nsys, &rows, table);
}

enum {
    KERNEL_NAME = COMMON_END,
    KERNEL_SHORT,
    GRID,
    BLOCK = GRID + 3,
    SHARED_STATIC = BLOCK + 3,
    SHARED_DYNAMIC,
    REGISTERS
};
static const char *const kernel_columns[] = {COMMON_COLUMNS,
                                             "demangledName",
                                             "shortName",
                                             "gridX",
                                             "gridY",
                                             "gridZ",
                                             "blockX",
                                             "blockY",
                                             "blockZ",
                                             "staticSharedMemory",
                                             "dynamicSharedMemory",
                                             "registersPerThread"};

static void add_kernel(dl_nsys_process *process, const dl_nsys_rows *rows, dl_activity *work)
{
    char shape[160];
    uint64_t n[REGISTERS + 1];
    int name = dl_nsys_has(rows, KERNEL_NAME) ? KERNEL_NAME : KERNEL_SHORT;
    for (int i = GRID; i <= REGISTERS; i++)
        n[i] = dl_nsys_unsigned(rows, i);
    work->kind = DL_ACTIVITY_KERNEL;
    work->name = nsys_name(rows->nsys, process, dl_nsys_signed(rows, name));
    snprintf(shape, sizeof shape,
             "grid %" PRIu64 "x%" PRIu64 "x%" PRIu64 " block %" PRIu64 "x%" PRIu64 "x%" PRIu64
             " shared %" PRIu64 " regs %" PRIu64,
             n[GRID], n[GRID + 1], n[GRID + 2], n[BLOCK], n[BLOCK + 1], n[BLOCK + 2],
             n[SHARED_STATIC] + n[SHARED_DYNAMIC], n[REGISTERS]);
    work->detail = dl_trace_builder_name(&process->builder, shape);
}

enum { COPY_BYTES = COMMON_END, COPY_KIND, SOURCE_KIND, TARGET_KIND, TARGET_DEVICE };
static const char *const copy_columns[] = {COMMON_COLUMNS, "bytes",   "copyKind",
                                           "srcKind",      "dstKind", "dstDeviceId"};

/* Indexed by ENUM_CUDA_MEMCPY_OPER, whose numbers are CUPTI's; arrays are device memory. */
static dl_copy_direction direction_of(uint64_t kind)
{
    static const uint8_t directions[] = {
        DL_COPY_UNKNOWN, DL_COPY_H2D, DL_COPY_D2H, DL_COPY_H2D, DL_COPY_D2H,
        DL_COPY_D2D,     DL_COPY_D2D, DL_COPY_D2D, DL_COPY_D2D, DL_COPY_H2H,
        DL_COPY_PEER,    DL_COPY_H2D, DL_COPY_D2H, DL_COPY_D2D,
    };
    return kind < sizeof directions ? (dl_copy_direction)directions[kind] : DL_COPY_UNKNOWN;
}

/* Memory kind from the numbers of ENUM_CUDA_MEM_KIND. */
static dl_host_memory memory_of(int64_t kind)
{
    switch (kind) {
    case 0: return DL_MEMORY_PAGEABLE;
    case 1: return DL_MEMORY_PINNED;
    case 4:
    case 6: return DL_MEMORY_MANAGED;
    default: return DL_MEMORY_UNKNOWN;
    }
}

static void add_copy(dl_nsys_process *process, const dl_nsys_rows *rows, dl_activity *work)
{
    (void)process;
    work->kind = DL_ACTIVITY_MEMCPY;
    work->bytes = dl_nsys_unsigned(rows, COPY_BYTES);
    work->copy = (uint8_t)direction_of(dl_nsys_unsigned(rows, COPY_KIND));
    if (work->copy == DL_COPY_H2D || work->copy == DL_COPY_D2H) {
        int host = work->copy == DL_COPY_H2D ? SOURCE_KIND : TARGET_KIND;
        work->memory = (uint8_t)memory_of(dl_nsys_signed(rows, host));
    }
    if (work->copy == DL_COPY_PEER) work->peer = valid_id(rows, TARGET_DEVICE);
}

enum { SET_BYTES = COMMON_END };
static const char *const set_columns[] = {COMMON_COLUMNS, "bytes"};

static void add_set(dl_nsys_process *process DL_UNUSED, const dl_nsys_rows *rows, dl_activity *work)
{
    work->kind = DL_ACTIVITY_MEMSET;
    work->bytes = dl_nsys_unsigned(rows, SET_BYTES);
}

static const char *const graph_columns[] = {COMMON_COLUMNS};

static void add_graph(dl_nsys_process *process, const dl_nsys_rows *rows, dl_activity *work)
{
    process->graphs++;
    work->kind = DL_ACTIVITY_GRAPH;
    work->object = dl_nsys_unsigned(rows, GRAPH) << 32;
}

/* Returns the device of the row's context; rows of waits have no device. */
static uint32_t device_of(const dl_nsys_process *process, const dl_nsys_rows *rows)
{
    uint64_t context = dl_nsys_unsigned(rows, CONTEXT);
    return context < DL_NSYS_CONTEXTS ? process->device_of[context]
                                      : (uint32_t)dl_nsys_unsigned(rows, DEVICE);
}

enum { EVENT = COMMON_END, EVENT_RECORD, SYNC_TYPE };
static const char *const sync_columns[] = {COMMON_COLUMNS, "eventId", "eventSyncId", "syncType"};

/* Returns the identity of an event's recording, since events are reused. */
static uint64_t event_object(const dl_nsys_rows *rows)
{
    uint32_t recording = valid_id(rows, EVENT_RECORD);
    return recording != 0 ? recording : valid_id(rows, EVENT);
}

static void add_sync(dl_nsys_process *process, const dl_nsys_rows *rows, dl_activity *work)
{
    /* Indexed by ENUM_CUPTI_SYNC_TYPE. Schemas before 3.25 use other values, so the type of a row
     * without an event is derived from its stream. */
    static const char *const names[] = {"unknown", "event", "stream wait", "stream", "context"};
    uint64_t type = dl_nsys_unsigned(rows, SYNC_TYPE);
    if (event_object(rows) == 0) type = work->stream != 0 ? 3 : 4;
    work->kind = DL_ACTIVITY_SYNC;
    work->device = device_of(process, rows);
    work->name = dl_trace_builder_name(&process->builder,
                                       names[type < sizeof names / sizeof names[0] ? type : 0]);
    work->object = event_object(rows);
}

static const char *const event_columns[] = {
    "timestamp", "timestamp",   "deviceId", "contextId", "streamId",   "correlationId",
    "globalPid", "graphNodeId", "graphId",  "eventId",   "eventSyncId"};

static void add_event(dl_nsys_process *process, const dl_nsys_rows *rows, dl_activity *work)
{
    work->kind = DL_ACTIVITY_EVENT;
    work->device = device_of(process, rows);
    work->object = event_object(rows);
}

/* Appends the device activities of all processes. */
static void nsys_read_device(dl_nsys *nsys)
{
    static const struct {
        const char *table;
        const char *const *columns;
        size_t count;
        add_work *add;
    } tables[] = {
        {"CUPTI_ACTIVITY_KIND_KERNEL", kernel_columns, DL_LENGTH(kernel_columns), add_kernel},
        {"CUPTI_ACTIVITY_KIND_MEMCPY", copy_columns, DL_LENGTH(copy_columns), add_copy},
        {"CUPTI_ACTIVITY_KIND_MEMSET", set_columns, DL_LENGTH(set_columns), add_set},
        {"CUPTI_ACTIVITY_KIND_GRAPH_TRACE", graph_columns, DL_LENGTH(graph_columns), add_graph},
        {"CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", sync_columns, DL_LENGTH(sync_columns), add_sync},
        {"CUPTI_ACTIVITY_KIND_CUDA_EVENT", event_columns, DL_LENGTH(event_columns), add_event},
    };
    for (size_t i = 0; i < DL_LENGTH(tables); i++)
        read_table(nsys, tables[i].table, tables[i].columns, tables[i].count, tables[i].add);
}

enum { HOST_START, HOST_END, THREAD, NAME };

/* Low bits of a globalTid (Nsight's documentation of the SQLite schema). */
#define THREAD_MASK 0xFFFFFF

static dl_activity host_activity(const dl_nsys *nsys, const dl_nsys_rows *rows,
                                 dl_activity_kind kind)
{
    int64_t start_ns = dl_nsys_signed(rows, HOST_START);
    return (dl_activity){
        .kind = (uint8_t)kind,
        .thread = (uint32_t)(dl_nsys_unsigned(rows, THREAD) & THREAD_MASK),
        .start_ns = start_ns + nsys->base_ns,
        .duration_ns = dl_nsys_has(rows, HOST_END) ? dl_nsys_signed(rows, HOST_END) - start_ns : 0,
    };
}

/* Removes the version from a name: "cudaLaunchKernel_v7000" is cudaLaunchKernel since CUDA 7.0. */
static uint32_t call_name(dl_nsys *nsys, dl_nsys_process *process, int64_t id)
{
    uint32_t name = nsys_name(nsys, process, id);
    const char *text = process->builder.trace.strings[name];
    const char *version = strrchr(text, '_');
    if (version == NULL || version[1] != 'v' || !isdigit((unsigned char)version[2])) return name;
    if (version[2 + strspn(version + 2, "0123456789")] != '\0') return name;
    DL_AUTOFREE char *copy = dl_strdup(text);
    return dl_trace_builder_intern(&process->builder, copy, (size_t)(version - text));
}

/* Reads calls, or the profiler's overhead, which has no correlation. */
static void read_host_table(dl_nsys *nsys, const char *table, dl_activity_kind kind)
{
    enum { HOST_CORRELATION = NAME + 1 };
    const char *const columns[] = {"start", "end", "globalTid", "nameId", "correlationId"};
    dl_nsys_rows rows;
    bool open = dl_nsys_rows_open(&rows, nsys, table, columns, 5, "");
    while (open && dl_nsys_rows_next(&rows)) {
        dl_nsys_process *process = nsys_find_process(nsys, &rows, THREAD);
        if (process == NULL) continue;
        dl_activity activity = host_activity(nsys, &rows, kind);
        if (kind == DL_ACTIVITY_CALL) {
            activity.name = call_name(nsys, process, dl_nsys_signed(&rows, NAME));
            activity.correlation = (uint32_t)dl_nsys_unsigned(&rows, HOST_CORRELATION);
        } else {
            activity.name = nsys_name(nsys, process, dl_nsys_signed(&rows, NAME));
        }
        dl_trace_builder_append(&process->builder, &activity);
    }
    nsys_end_rows(nsys, &rows, table);
}

enum { TEXT = NAME + 1 };
static const char *const nvtx_columns[] = {"start", "end", "globalTid", "textId", "text"};
#define NVTX_TABLE "NVTX_EVENTS"

static const char *text_of(dl_nsys *nsys, dl_nsys_process *process, const dl_nsys_rows *rows)
{
    if (dl_nsys_has(rows, TEXT)) return dl_nsys_text(rows, TEXT);
    return process->builder.trace.strings[nsys_name(nsys, process, dl_nsys_signed(rows, NAME))];
}

/* Returns the length of the operator's name in PyTorch's "aten::mul, seq = 1, op_id = 2, sizes =
 * [...]"; sets *id to the number after op_id, or to 0 if the text has none. */
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

/* Returns whether the range is NCCL's own ("ncclAllReduce") rather than a framework's
 * ("nccl:all_reduce"). */
static bool is_nccl_call(const char *text)
{
    return strncmp(text, "nccl", 4) == 0 && isupper((unsigned char)text[4]);
}

static void add_collective(dl_nsys_process *process, const dl_activity *range)
{
    const char *text = process->builder.trace.strings[range->name];
    const char *name = dl_comm_of_range(text);
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
    if (kind == DL_ACTIVITY_RANGE && !dl_nsys_has(rows, HOST_END)) {
        process->open_ranges++;
        return;
    }
    if (kind == DL_ACTIVITY_MARK) range.duration_ns = 0;
    const char *text = text_of(nsys, process, rows);
    size_t length = operator_name(text, &range.object);
    range.name = dl_trace_builder_intern(&process->builder, text, length);
    dl_trace_builder_append(&process->builder, &range);
}

/* Reads the NVTX events that `where` selects by their type in ENUM_NSYS_EVENT_TYPE: ranges of
 * threads and of processes, or marks. */
static void read_ranges(dl_nsys *nsys, dl_activity_kind kind, const char *where)
{
    dl_nsys_rows rows;
    bool open = dl_nsys_has_column(nsys->file, NVTX_TABLE, "eventType") &&
                dl_nsys_rows_open(&rows, nsys, NVTX_TABLE, nvtx_columns,
                                  sizeof nvtx_columns / sizeof nvtx_columns[0], where);
    if (!open) return;
    while (dl_nsys_rows_next(&rows)) {
        dl_nsys_process *process = nsys_find_process(nsys, &rows, THREAD);
        if (process != NULL) add_range(nsys, process, &rows, kind);
    }
    nsys_end_rows(nsys, &rows, NVTX_TABLE);
}

/* Adds COLLECTIVEs from the ranges after all ranges are read. */
static void add_collectives(dl_nsys_process *process)
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
        if (range.kind == DL_ACTIVITY_RANGE) add_collective(process, &range);
    }
}

static void nsys_read_host(dl_nsys *nsys)
{
    read_host_table(nsys, "CUPTI_ACTIVITY_KIND_RUNTIME", DL_ACTIVITY_CALL);
    read_host_table(nsys, "PROFILER_OVERHEAD", DL_ACTIVITY_OVERHEAD);
    read_host_table(nsys, "CUPTI_ACTIVITY_KIND_OVERHEAD", DL_ACTIVITY_OVERHEAD);
    read_ranges(nsys, DL_ACTIVITY_RANGE, "WHERE eventType IN (59, 60, 70)");
    read_ranges(nsys, DL_ACTIVITY_MARK, "WHERE eventType = 34");
    for (size_t i = 0; i < nsys->process_count; i++)
        add_collectives(nsys->processes[i]);
}

static const char *const device_tables[] = {
    "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET",
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"};
#define DEVICE_TABLES (sizeof device_tables / sizeof device_tables[0])

static bool recognises(const char *begin, size_t bytes)
{
    static const char magic[] = "SQLite format 3"; /* including its NUL */
    return bytes >= sizeof magic && memcmp(begin, magic, sizeof magic) == 0;
}

static void add_process(dl_nsys *nsys, uint64_t id, uint32_t device)
{
    for (size_t i = 0; i < nsys->process_count; i++) {
        dl_nsys_process *known = nsys->processes[i];
        if (known->id != id) continue;
        if (device < known->device) known->device = device;
        return;
    }
    dl_nsys_process *process = dl_calloc(1, sizeof *process, "process");
    process->id = id;
    process->pid = id & PID_MASK;
    process->device = device;
    for (size_t i = 0; i < DL_NSYS_TEXTS; i++)
        process->texts[i].id = -1;
    dl_trace_builder_init(&process->builder, nsys->path);
    DL_APPEND(nsys->processes, nsys->process_count, "processes") = process;
}

DL_ORDER_OF_POINTERS(by_place, dl_nsys_process,
                     DL_COMPARE(a->id >> HOST_SHIFT, b->id >> HOST_SHIFT), DL_BY(device),
                     DL_BY(pid));

/* Finds the processes with device work; if there are none, those that call CUDA; if there are none
 * of these either, adds one process with number 0. */
static void find_processes(dl_nsys *nsys)
{
    const char *const columns[] = {"globalPid", "deviceId"};
    const char *const host_columns[] = {"globalTid"};
    dl_nsys_rows rows;
    for (size_t i = 0; i < DEVICE_TABLES; i++) {
        bool with_pid = dl_nsys_has_column(nsys->file, device_tables[i], "globalPid");
        if (!dl_nsys_rows_open(&rows, nsys, device_tables[i], columns, 2,
                               with_pid ? "GROUP BY globalPid, deviceId" : "GROUP BY deviceId"))
            continue;
        while (dl_nsys_rows_next(&rows))
            add_process(nsys, dl_nsys_unsigned(&rows, 0) >> ID_SHIFT,
                        (uint32_t)dl_nsys_unsigned(&rows, 1));
        dl_nsys_rows_close(&rows);
    }
    if (nsys->process_count == 0 &&
        dl_nsys_rows_open(&rows, nsys, "CUPTI_ACTIVITY_KIND_RUNTIME", host_columns, 1,
                          "GROUP BY globalTid >> 24")) {
        while (dl_nsys_rows_next(&rows))
            add_process(nsys, dl_nsys_unsigned(&rows, 0) >> ID_SHIFT, 0);
        dl_nsys_rows_close(&rows);
    }
    if (nsys->process_count == 0) add_process(nsys, 0, 0);
    qsort(nsys->processes, nsys->process_count, sizeof(dl_nsys_process *), by_place);
}

/* Finds the base of times, which are relative to the session's start. Times before the start must
 * not become negative. */
static void find_base(dl_nsys *nsys)
{
    static const char *const tables[] = {"CUPTI_ACTIVITY_KIND_KERNEL",
                                         "CUPTI_ACTIVITY_KIND_RUNTIME",
                                         "CUPTI_ACTIVITY_KIND_MEMCPY", "NVTX_EVENTS"};
    int64_t session_ns =
        dl_nsys_number(nsys->file, "SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME", -1);
    nsys->has_session = session_ns > 0;
    nsys->base_ns = nsys->has_session ? session_ns : 0;
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        DL_AUTOFREE char *sql = dl_format("SELECT min(start) FROM %s", tables[i]);
        int64_t first_ns = dl_nsys_number(nsys->file, sql, 0);
        if (first_ns < 0 && first_ns > INT64_MIN && nsys->base_ns < -first_ns)
            nsys->base_ns = -first_ns;
    }
}

/* Sets `key` to the text returned by the query. Of several rows takes the one whose `column`, if
 * the table has it, is `id`. */
static void meta_of(dl_nsys *nsys, dl_nsys_process *process, const char *key, const char *query,
                    const char *table, const char *column, uint64_t id)
{
    sqlite3_stmt *statement = NULL;
    const bool has = dl_nsys_has_column(nsys->file, table, column);
    DL_AUTOFREE char *sql =
        has ? dl_format("%s ORDER BY %s = ?2 DESC", query, column) : dl_strdup(query);
    if (sqlite3_prepare_v2(nsys->file, sql, -1, &statement, NULL) == SQLITE_OK) {
        if (sqlite3_bind_parameter_count(statement) > 0)
            sqlite3_bind_int64(statement, 1, process->pid);
        if (has) sqlite3_bind_int64(statement, 2, (sqlite3_int64)id);
        if (sqlite3_step(statement) == SQLITE_ROW && sqlite3_column_text(statement, 0) != NULL)
            dl_trace_builder_meta(&process->builder, key, "%s",
                                  (const char *)sqlite3_column_text(statement, 0));
    }
    sqlite3_finalize(statement);
}

static void tell_devices(dl_nsys *nsys, dl_nsys_process *process)
{
    const char *const columns[] = {"id", "name", "cuDevice"};
    dl_nsys_rows rows;
    char key[40];
    if (!dl_nsys_rows_open(&rows, nsys, "TARGET_INFO_GPU", columns, 3, "")) return;
    while (dl_nsys_rows_next(&rows)) {
        int64_t id = dl_nsys_signed(&rows, dl_nsys_has(&rows, 2) ? 2 : 0);
        snprintf(key, sizeof key, "device.%" PRId64 ".name", id);
        dl_trace_builder_meta(&process->builder, key, "%s", dl_nsys_text(&rows, 1));
    }
    dl_nsys_rows_close(&rows);
}

static void tell_meta(dl_nsys *nsys, size_t rank)
{
    dl_nsys_process *process = nsys->processes[rank];
    dl_trace_builder *builder = &process->builder;
    meta_of(nsys, process, "host",
            "SELECT value FROM TARGET_INFO_SYSTEM_ENV WHERE name = 'Hostname'",
            "TARGET_INFO_SYSTEM_ENV", "globalVid",
            process->id >> HOST_SHIFT << (HOST_SHIFT + ID_SHIFT));
    meta_of(nsys, process, "command", "SELECT name FROM PROCESSES WHERE pid = ?1", "PROCESSES",
            "globalPid", process->id << ID_SHIFT);
    meta_of(nsys, process, "schema",
            "SELECT value FROM META_DATA_EXPORT WHERE name = 'EXPORT_SCHEMA_VERSION'", "", "", 0);
    meta_of(nsys, process, "profiler",
            "SELECT 'Nsight Systems ' || value FROM META_DATA_EXPORT "
            "WHERE name = 'EXPORT_PRODUCT_VERSION'",
            "", "", 0);
    tell_devices(nsys, process);
    if (process->pid != 0) dl_trace_builder_meta(builder, "pid", "%" PRIu32, process->pid);
    if (nsys->process_count > 1) dl_trace_builder_meta(builder, "rank", "%zu", rank);
    dl_trace_builder_meta(builder, "clock", nsys->has_session ? "realtime" : "session");
}

/* Notes the profiler's warnings and errors about CUDA or lost data, at most 10. */
static void note_diagnostics(dl_nsys *nsys, dl_read_trace *item)
{
    const char *const columns[] = {"text"};
    dl_nsys_rows rows;
    if (!dl_nsys_has_column(nsys->file, "DIAGNOSTIC_EVENT", "severity")) return;
    if (!dl_nsys_rows_open(&rows, nsys, "DIAGNOSTIC_EVENT", columns, 1,
                           "WHERE severity IN (2, 3) AND (text LIKE '%CUDA%' OR text LIKE '%lost%' "
                           "OR text LIKE '%dropped%') GROUP BY text LIMIT 10"))
        return;
    while (dl_nsys_rows_next(&rows)) {
        const char *text = dl_nsys_text(&rows, 0);
        dl_read_note(item, "Nsight warned: %.*s", (int)strcspn(text, "\r\n"), text);
    }
    dl_nsys_rows_close(&rows);
}

/* Notes tables that are missing or empty: Nsight creates a table only if it recorded something
 * for it. */
static void note_missing(dl_nsys *nsys, const dl_nsys_process *process, dl_read_trace *item)
{
    static const struct {
        const char *table, *text;
    } wanted[] = {
        {"CUPTI_ACTIVITY_KIND_RUNTIME",
         "no calls of CUDA are recorded: the host's time, and which call launched a kernel, are "
         "unknown"},
        {NVTX_TABLE, "no NVTX ranges are recorded (nsys profile --trace=cuda,nvtx): steps and "
                     "passes are found by kernels alone"},
    };
    if (process->builder.trace.activity_count == 0 || nsys->damaged != NULL || nsys->missing > 0)
        return;
    for (size_t i = 0; i < DL_LENGTH(wanted); i++) {
        DL_AUTOFREE char *sql = dl_format("SELECT 1 FROM %s LIMIT 1", wanted[i].table);
        if (dl_nsys_number(nsys->file, sql, 0) == 0)
            dl_read_note(item, "%s (no rows of %s)", wanted[i].text, wanted[i].table);
    }
}

static void note(dl_nsys *nsys, const dl_nsys_process *process, dl_read_trace *item)
{
    note_missing(nsys, process, item);
    if (process->graphs > 0) {
        dl_read_note(item,
                     "%zu launches of CUDA graphs are recorded without their kernels (nsys profile "
                     "--cuda-graph-trace=node records them)",
                     process->graphs);
    }
    if (process->untimed > 0) {
        dl_read_note(item, "%zu kernels, copies or graphs have no times and are left out",
                     process->untimed);
    }
    const char *schema = dl_trace_meta(&process->builder.trace, "schema");
    if (schema == NULL || strncmp(schema, "3.", 2) != 0) {
        dl_read_note(item, "the schema's version is %s; this reader was tried with 3.13 to 3.25",
                     schema != NULL ? schema : "not given");
    }
    if (nsys->process_count > 1) {
        dl_read_note(item,
                     "Nsight does not record ranks: the file's %zu processes are numbered by "
                     "host and device",
                     nsys->process_count);
    }
    if (!nsys->has_session) dl_read_note(item, "the time of day is not recorded");
    if (process->unsized_calls > 0) {
        dl_read_note(item, "%zu calls of collectives do not give their bytes and group",
                     process->unsized_calls);
    }
    if (process->open_ranges > 0)
        dl_read_note(item, "%zu ranges have no end and are left out", process->open_ranges);
    if (nsys->other_rows > 0) {
        dl_read_note(item, "%" PRIu64 " host events of processes without device work are left out",
                     nsys->other_rows);
    }
    if (nsys->missing > 0)
        dl_read_note(item, "the file is truncated: %" PRIu64 " bytes are missing", nsys->missing);
    if (nsys->damaged != NULL) {
        dl_read_note(item, "the file is damaged: the readable part of these tables is used: %s",
                     nsys->damaged);
    }
    note_diagnostics(nsys, item);
}

/* Number of bytes by which the file is shorter than the database size in its header
 * (www.sqlite.org/fileformat.html): SQLite reports a missing page only when it reads that page. */
static uint64_t count_missing(const char *path)
{
    enum { PAGE_BYTES_AT = 16, PAGES_AT = 28, HEADER_BYTES = 100 };
    unsigned char header[HEADER_BYTES];
    FILE *in = fopen(path, "rb");
    if (in == NULL) return 0;
    uint64_t missing = 0;
    if (fread(header, 1, sizeof header, in) == sizeof header && fseek(in, 0, SEEK_END) == 0) {
        uint64_t page_bytes = (uint64_t)header[PAGE_BYTES_AT] << 8 | header[PAGE_BYTES_AT + 1];
        uint64_t pages = 0, bytes = (uint64_t)ftell(in);
        if (page_bytes == 1) page_bytes = 65536;
        for (int i = 0; i < 4; i++)
            pages = pages << 8 | header[PAGES_AT + i];
        if (pages * page_bytes > bytes) missing = pages * page_bytes - bytes;
    }
    fclose(in);
    return missing;
}

/* Returns an SQLite URI that opens `path` as an immutable file: SQLite then takes no locks and
 * creates no WAL files beside the database. The caller frees it. */
static char *immutable_uri(const char *path)
{
    char *uri = NULL;
    size_t bytes = 0;
    FILE *out = dl_text_stream(&uri, &bytes);
    fprintf(out, "file:");
    for (const char *at = path; *at != '\0'; at++) {
        if (strchr("%?#", *at) != NULL) {
            fprintf(out, "%%%02X", (unsigned char)*at);
        } else {
            fputc(*at, out);
        }
    }
    fprintf(out, "?immutable=1");
    fclose(out);
    return uri;
}

static dl_status open_file(dl_nsys *nsys, dl_error *err)
{
    /* Two leading slashes would denote a host. */
    DL_AUTOFREE char *uri =
        immutable_uri(nsys->path + strspn(nsys->path, "/") - (nsys->path[0] == '/' ? 1 : 0));
    int code = sqlite3_open_v2(uri, &nsys->file, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, NULL);
    if (code != SQLITE_OK) {
        return dl_error_set_at(err, DL_ERR_IO, nsys->path, 0, "cannot open it: %s",
                               sqlite3_errmsg(nsys->file));
    }
    /* The file is untrusted: do not let its views and triggers use functions with side effects. */
    sqlite3_db_config(nsys->file, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_db_config(nsys->file, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    code = sqlite3_exec(nsys->file, "SELECT count(*) FROM sqlite_master", NULL, NULL, NULL);
    if (code != SQLITE_OK) {
        return dl_error_set_at(err, DL_ERR_FORMAT, nsys->path, 0, "it is damaged: %s",
                               sqlite3_errmsg(nsys->file));
    }
    if (!dl_nsys_has_column(nsys->file, "StringIds", "value") ||
        !dl_nsys_has_column(nsys->file, "META_DATA_EXPORT", "name")) {
        return dl_error_set_at(err, DL_ERR_FORMAT, nsys->path, 0,
                               "it is an SQLite database, but not an export of Nsight Systems");
    }
    code = sqlite3_prepare_v2(nsys->file, "SELECT value FROM StringIds WHERE id = ?1", -1,
                              &nsys->find_text, NULL);
    if (code != SQLITE_OK) {
        return dl_error_set_at(err, DL_ERR_FORMAT, nsys->path, 0, "cannot read its texts: %s",
                               sqlite3_errmsg(nsys->file));
    }
    return DL_OK;
}

static void close_file(dl_nsys *nsys)
{
    for (size_t i = 0; i < nsys->process_count; i++) {
        dl_trace_builder_free(&nsys->processes[i]->builder);
        free(nsys->processes[i]);
    }
    free(nsys->processes);
    free(nsys->damaged);
    sqlite3_finalize(nsys->find_text);
    sqlite3_close(nsys->file);
}

static dl_status read_file(dl_read_traces *traces, const char *path, dl_error *err)
{
    dl_nsys nsys = {.path = path};
    dl_status status = open_file(&nsys, err);
    if (status == DL_OK) {
        nsys.missing = count_missing(path);
        find_processes(&nsys);
        find_base(&nsys);
        nsys_read_device(&nsys);
        nsys_read_host(&nsys);
        for (size_t i = 0; i < nsys.process_count; i++) {
            dl_read_trace *item = dl_read_add(traces);
            tell_meta(&nsys, i);
            note(&nsys, nsys.processes[i], item);
            nsys.processes[i]->builder.trace.complete = nsys.damaged == NULL && nsys.missing == 0;
            dl_trace_builder_finish(&nsys.processes[i]->builder, &item->trace);
        }
    }
    close_file(&nsys);
    return status;
}

const dl_trace_reader dl_nsys_reader = {"nsys", "SQLite export of Nsight Systems", recognises,
                                        read_file};
