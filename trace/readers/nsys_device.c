#include <inttypes.h>
#include <stdio.h>

#include "trace/readers/nsys_state.h"

/* What tables of device work have in common comes first. */
enum { START, END, DEVICE, CONTEXT, STREAM, CORRELATION, PID, GRAPH_NODE, GRAPH, COMMON_END };
#define COMMON_COLUMNS                                                                 \
    "start", "end", "deviceId", "contextId", "streamId", "correlationId", "globalPid", \
        "graphNodeId", "graphId"

/* CUPTI's mark of a stream or event that there is not. */
#define INVALID UINT32_MAX

typedef void add_work(dl_nsys *nsys, dl_nsys_process *process, const dl_nsys_rows *rows,
                      dl_activity *work);

static uint32_t valid_id(const dl_nsys_rows *rows, int column)
{
    uint64_t id = dl_nsys_unsigned(rows, column);
    return id >= INVALID ? 0 : (uint32_t)id;
}

static void read_table(dl_nsys *nsys, const char *table, const char *const *columns, size_t count,
                       add_work *add)
{
    dl_nsys_rows rows;
    if (!dl_nsys_rows_open(&rows, nsys->file, table, columns, count, "")) {
        dl_nsys_end_rows(nsys, &rows, table);
        return;
    }
    while (dl_nsys_rows_next(&rows)) {
        dl_nsys_process *process = dl_nsys_find_process(nsys, &rows, PID);
        if (process == NULL) continue;
        uint64_t context = dl_nsys_unsigned(&rows, CONTEXT);
        dl_activity work = {
            .device = (uint32_t)dl_nsys_unsigned(&rows, DEVICE),
            .stream = valid_id(&rows, STREAM),
            .correlation = (uint32_t)dl_nsys_unsigned(&rows, CORRELATION),
            .object = dl_nsys_unsigned(&rows, GRAPH) << 32 |
                      (uint32_t)dl_nsys_unsigned(&rows, GRAPH_NODE),
            .start_ns = dl_nsys_signed(&rows, START) + nsys->base_ns,
            .duration_ns = dl_nsys_signed(&rows, END) - dl_nsys_signed(&rows, START),
        };
        add(nsys, process, &rows, &work);
        if (context < DL_NSYS_CONTEXTS && dl_activity_is_device_work(&work))
            process->device_of[context] = work.device;
        dl_trace_builder_append(&process->builder, &work);
    }
    dl_nsys_end_rows(nsys, &rows, table);
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

static void add_kernel(dl_nsys *nsys, dl_nsys_process *process, const dl_nsys_rows *rows,
                       dl_activity *work)
{
    char shape[160];
    uint64_t n[REGISTERS + 1];
    int name = dl_nsys_has(rows, KERNEL_NAME) ? KERNEL_NAME : KERNEL_SHORT;
    for (int i = GRID; i <= REGISTERS; i++)
        n[i] = dl_nsys_unsigned(rows, i);
    work->kind = DL_ACTIVITY_KERNEL;
    work->name = dl_nsys_name(nsys, process, dl_nsys_signed(rows, name));
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

/* Numbers of ENUM_CUDA_MEMCPY_OPER, which are CUPTI's; arrays are memory of the device. */
static dl_copy_direction direction_of(uint64_t kind)
{
    static const uint8_t directions[] = {
        DL_COPY_UNKNOWN, DL_COPY_H2D, DL_COPY_D2H, DL_COPY_H2D, DL_COPY_D2H,
        DL_COPY_D2D,     DL_COPY_D2D, DL_COPY_D2D, DL_COPY_D2D, DL_COPY_H2H,
        DL_COPY_PEER,    DL_COPY_H2D, DL_COPY_D2H, DL_COPY_D2D,
    };
    return kind < sizeof directions ? (dl_copy_direction)directions[kind] : DL_COPY_UNKNOWN;
}

/* Numbers of ENUM_CUDA_MEM_KIND. */
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

static void add_copy(dl_nsys *nsys, dl_nsys_process *process, const dl_nsys_rows *rows,
                     dl_activity *work)
{
    (void)nsys;
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

static void add_set(dl_nsys *nsys, dl_nsys_process *process, const dl_nsys_rows *rows,
                    dl_activity *work)
{
    (void)nsys;
    (void)process;
    work->kind = DL_ACTIVITY_MEMSET;
    work->bytes = dl_nsys_unsigned(rows, SET_BYTES);
}

static const char *const graph_columns[] = {COMMON_COLUMNS};

static void add_graph(dl_nsys *nsys, dl_nsys_process *process, const dl_nsys_rows *rows,
                      dl_activity *work)
{
    (void)nsys;
    (void)process;
    work->kind = DL_ACTIVITY_GRAPH;
    work->object = dl_nsys_unsigned(rows, GRAPH) << 32;
}

/* The device of the row's context, as devices of waits are not filled in. */
static uint32_t device_of(const dl_nsys_process *process, const dl_nsys_rows *rows)
{
    uint64_t context = dl_nsys_unsigned(rows, CONTEXT);
    return context < DL_NSYS_CONTEXTS ? process->device_of[context]
                                      : (uint32_t)dl_nsys_unsigned(rows, DEVICE);
}

enum { EVENT = COMMON_END, EVENT_RECORD, SYNC_TYPE };
static const char *const sync_columns[] = {COMMON_COLUMNS, "eventId", "eventSyncId", "syncType"};

/* Which recording of an event: events are used again and again. */
static uint64_t event_object(const dl_nsys_rows *rows)
{
    uint32_t recording = valid_id(rows, EVENT_RECORD);
    return recording != 0 ? recording : valid_id(rows, EVENT);
}

static void add_sync(dl_nsys *nsys, dl_nsys_process *process, const dl_nsys_rows *rows,
                     dl_activity *work)
{
    /* Numbers of ENUM_CUPTI_SYNC_TYPE; before schema 3.25 rows have others, so those without an
     * event are told by their stream. */
    static const char *const names[] = {"unknown", "event", "stream wait", "stream", "context"};
    uint64_t type = dl_nsys_unsigned(rows, SYNC_TYPE);
    (void)nsys;
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

static void add_event(dl_nsys *nsys, dl_nsys_process *process, const dl_nsys_rows *rows,
                      dl_activity *work)
{
    (void)nsys;
    work->kind = DL_ACTIVITY_EVENT;
    work->device = device_of(process, rows);
    work->object = event_object(rows);
}

#define LENGTH(array) (sizeof(array) / sizeof(array)[0])

void dl_nsys_read_device(dl_nsys *nsys)
{
    static const struct {
        const char *table;
        const char *const *columns;
        size_t count;
        add_work *add;
    } tables[] = {
        {"CUPTI_ACTIVITY_KIND_KERNEL", kernel_columns, LENGTH(kernel_columns), add_kernel},
        {"CUPTI_ACTIVITY_KIND_MEMCPY", copy_columns, LENGTH(copy_columns), add_copy},
        {"CUPTI_ACTIVITY_KIND_MEMSET", set_columns, LENGTH(set_columns), add_set},
        {"CUPTI_ACTIVITY_KIND_GRAPH_TRACE", graph_columns, LENGTH(graph_columns), add_graph},
        {"CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", sync_columns, LENGTH(sync_columns), add_sync},
        {"CUPTI_ACTIVITY_KIND_CUDA_EVENT", event_columns, LENGTH(event_columns), add_event},
    };
    for (size_t i = 0; i < LENGTH(tables); i++)
        read_table(nsys, tables[i].table, tables[i].columns, tables[i].count, tables[i].add);
}
